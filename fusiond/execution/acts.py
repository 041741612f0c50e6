"""What people do to a run that exists: cancel it, or let it go on.

Each act is recorded under the client's key, so that a request that is repeated
after a lost answer, also over a restart of the daemon, is one act.
"""

from fusiond.domain.decide import ceiling
from fusiond.domain.digest import Digest
from fusiond.domain.errors import ConflictError, IllegalStepError, RefusedError
from fusiond.domain.fold import admit
from fusiond.domain.idempotency import act_key
from fusiond.domain.ids import RunId, TenantId
from fusiond.domain.records import dataclass
from fusiond.domain.state import RunState
from fusiond.domain.steps.record import NewStep
from fusiond.domain.steps.run import ResumeCause, RunCancelled, RunResumed
from fusiond.domain.transitions import RunPhase
from fusiond.domain.why import widening_option
from fusiond.execution.runs import Runs
from fusiond.execution.services import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Who acts on which run, under which key of the client's making."""

    tenant: TenantId
    run: RunId
    by: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Widening:
    """What a person adds to a limit when resuming; 0 adds nothing."""

    wall_clock_us: int = 0
    tokens: int = 0
    cost_uusd: int = 0
    tool_calls: int = 0


async def cancel(services: Services, runs: Runs, act: Act, *, reason: str) -> None:
    """Ask for the end of a run. Asking again changes nothing, whoever asked first.

    Raises:
        RefusedError: the run ended otherwise.
        ConflictError: the key was used for another run.
        UnrecordedError: the ledger cannot be written now.
    """
    chain = await runs.chain(act.tenant, act.run)
    key = act_key("cancel", act.tenant, act.key)
    if not await _done_before(services, act.run, key) and not _cancelled(chain.state):
        step = NewStep(
            payload=RunCancelled(by=act.by, reason=reason),
            at_us=services.clock.now_us(),
            idempotency_key=key,
        )
        try:
            await chain.append([step])
        except IllegalStepError:
            # Somebody else cancelled it, or it ended, since it was looked at.
            if not _cancelled(chain.state):
                raise
    await runs.drive(chain)


def _cancelled(state: RunState) -> bool:
    if state.phase.over and state.phase is not RunPhase.CANCELLED:
        raise RefusedError(f"run {state.run} is {state.outcome} already")
    return state.phase in (RunPhase.CANCELLING, RunPhase.CANCELLED)


async def resume(services: Services, runs: Runs, act: Act, *, added: Widening) -> None:
    """Let a parked run go on, with what a person adds to its limits.

    Raises:
        RefusedError: the run is not parked, or what it waits for is a limit and stays reached.
        ConflictError: the key was used for another run.
        UnrecordedError: the ledger cannot be written now.
    """
    chain = await runs.chain(act.tenant, act.run)
    key = act_key("resume", act.tenant, act.key)
    if not await _done_before(services, act.run, key) and not _merely_dropped(runs, chain.state):
        now_us = services.clock.now_us()
        step = NewStep(payload=_resumed(chain.state, act, added, now_us), at_us=now_us, idempotency_key=key)
        _check_room(chain.state, step)
        await chain.append([step])
    await runs.drive(chain)


async def _done_before(services: Services, run: RunId, key: Digest) -> bool:
    of = await services.ledger.run_of_key(key)
    if of not in {None, run}:
        raise ConflictError(
            f"the key was used for run {of}",
            expected="a key of its own for every act",
            cure="ask with a new key",
        )
    return of is not None


def _merely_dropped(runs: Runs, state: RunState) -> bool:
    """Say whether the run only lost its driver, which needs no record to go on."""
    return state.phase is not RunPhase.PARKED and state.run in runs.broken


def _resumed(state: RunState, act: Act, added: Widening, now_us: int) -> RunResumed:
    if state.phase is not RunPhase.PARKED:
        raise RefusedError(
            f"run {act.run} is {state.outcome or state.phase}",
            expected="a parked run",
            cure="`fusion show` says what it waits for",
        )
    idle_us = now_us - (state.waiting_since_us or now_us)
    return RunResumed(
        cause=ResumeCause.PERSON,
        idle_us=max(0, idle_us),
        by=act.by,
        added_wall_clock_us=added.wall_clock_us,
        added_tokens=added.tokens,
        added_cost_uusd=added.cost_uusd,
        added_tool_calls=added.tool_calls,
    )


def _check_room(state: RunState, step: NewStep) -> None:
    """Refuse to resume a run that would be parked again at once: its limit is still spent."""
    reached = ceiling(admit(state, [step]), step.at_us)
    if reached is not None:
        raise RefusedError(
            f"run {state.run} has spent its limit of {reached.replace('_', ' ')}",
            expected="room to go on with",
            cure=f"widen it, such as by `fusion resume {state.run} {widening_option(reached)}`",
        )
