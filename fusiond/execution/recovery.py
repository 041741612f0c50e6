"""What happens at start, before any run goes on: leftovers are ended and swept.

A run that this version cannot read is left exactly as it is, files included; the
others go on. Order matters: processes first (they could still write), then leases of dead
workers, then directories that no recorded step names. The caller holds the
workspace's lock, so no other daemon is alive here.
"""

from collections.abc import Sequence

from fusiond.domain.errors import CorruptError, IllegalStepError, NewerError
from fusiond.domain.ids import AttemptId, RunId, StageId
from fusiond.domain.records import dataclass
from fusiond.domain.state import RunState
from fusiond.domain.steps.record import NewStep
from fusiond.domain.steps.run import ResumeCause, RunResumed
from fusiond.domain.transitions import AttemptPhase, RunPhase
from fusiond.execution.chain import RunChain
from fusiond.execution.services import Services

NEVER_US = 2**62
"""Later than every expiry: all leases that were not released count as expired."""

UNREADABLE = (NewerError, CorruptError, IllegalStepError)
"""What makes one run unreadable (`engine.md`, Ledger), and no other."""

_BATCH = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What the start found: the open runs, those that cannot be read, and what was ended or removed."""

    chains: tuple[RunChain, ...]
    unreadable: dict[RunId, str]
    processes: int
    leases: int
    removed: tuple[str, ...]


async def recover(services: Services) -> Recovered:
    """Bring the workspace into a state from which every open run can go on."""
    processes = await services.launcher.end_leftovers(f"{services.settings.workspace}/")
    leases = await _release_dead(services)
    chains, unreadable = await _open_chains(services)
    states = [chain.state for chain in chains]
    removed = [
        *await services.workspace.sweep(frozenset(map(str, _live(states))), frozenset(unreadable)),
        *await services.snapshots.sweep(frozenset(state.run for state in states), _frozen(states)),
    ]
    await services.content.sweep()
    for chain in chains:
        await _note_restart(services, chain)
    return Recovered(
        chains=tuple(chains),
        unreadable=unreadable,
        processes=processes,
        leases=leases,
        removed=tuple(removed),
    )


async def _release_dead(services: Services) -> int:
    released = 0
    while leases := await services.queue.expired(now_us=NEVER_US, limit=_BATCH):
        for lease in leases:
            await services.queue.release(lease)
        released += len(leases)
    return released


async def _open_chains(services: Services) -> tuple[list[RunChain], dict[RunId, str]]:
    """Fold every open run; of those that cannot be folded say why."""
    chains: list[RunChain] = []
    unreadable: dict[RunId, str] = {}
    for row in await services.ledger.runs(None, open_only=True, limit=1_000_000):
        chain = RunChain(services.ledger, services.on_append, row.run)
        try:
            await chain.load()
        except UNREADABLE as error:
            unreadable[row.run] = error.sentence()
        else:
            chains.append(chain)
    return chains, unreadable


def _live(states: Sequence[RunState]) -> list[AttemptId]:
    """Attempts that may go on in their worktree."""
    return [
        AttemptId(StageId(state.run, node), attempt.number)
        for state in states
        for node, stage in state.stages.items()
        for attempt in stage.attempts
        if not attempt.phase.over
    ]


def _frozen(states: Sequence[RunState]) -> frozenset[AttemptId]:
    return frozenset(
        AttemptId(StageId(state.run, node), attempt.number)
        for state in states
        for node, stage in state.stages.items()
        for attempt in stage.attempts
        if attempt.phase is AttemptPhase.FROZEN
    )


async def _note_restart(services: Services, chain: RunChain) -> None:
    """Record the restart of a run that was moving: the time without a daemon is no wall clock."""
    state = chain.state
    if state.phase not in (RunPhase.RUNNING, RunPhase.AWAITING_APPROVAL, RunPhase.CANCELLING):
        return
    now_us = services.clock.now_us()
    # What ran between the last step and a crash was worked; giving that time back would unbound the run.
    alive_us = max(state.last_us, min(services.settings.last_alive_us, now_us))
    resumed = RunResumed(
        cause=ResumeCause.RESTART,
        idle_us=max(0, now_us - alive_us),
        by=services.settings.worker,
    )
    await chain.append([NewStep(payload=resumed, at_us=now_us)])
