"""`decide`: from a run's state to the effects that are due. Pure.

The shell calls it after every change and performs what it returns, one
performer per stage. Whatever is open without a performer (a call, a gate, a
freezing) was interrupted, and what follows from that is decided here too
(`engine.md`, Failure boundaries).
"""

from collections.abc import Iterator

from fusiond.domain.budgets import exceeded
from fusiond.domain.decide_attempt import next_after_failure, next_for_attempt, waits_for_a_person
from fusiond.domain.effects import (
    CloseUnknown,
    Effect,
    FailAttempt,
    FinishRun,
    FinishStage,
    ParkRun,
    PrepareAttempt,
    StageEffect,
)
from fusiond.domain.ids import AttemptNumber, NodeId
from fusiond.domain.state import RunState, StageState
from fusiond.domain.steps.attempt import AttemptFailure, BlockReason, StageOutcome
from fusiond.domain.steps.run import ParkReason, RunOutcome
from fusiond.domain.transitions import AttemptPhase, RunPhase, StagePhase
from fusiond.domain.verification import VerificationStatus

NOBODY: frozenset[NodeId] = frozenset()


def decide(state: RunState, now_us: int, busy: frozenset[NodeId] = NOBODY) -> tuple[Effect, ...]:
    """Return the effects that are due.

    Args:
        state: what the ledger folds to.
        now_us: UTC wall clock.
        busy: stages that have a performer at this moment; they get no effect and
            count against `parallel`.
    """
    match state.phase:
        case RunPhase.RUNNING | RunPhase.AWAITING_APPROVAL:
            return _running(state, now_us, busy)
        case RunPhase.CANCELLING:
            return _cancelling(state, busy)
        case RunPhase.CREATED | RunPhase.PARKED | RunPhase.FINISHED | RunPhase.FAILED | RunPhase.CANCELLED:
            return ()


def ceiling(state: RunState, now_us: int) -> ParkReason | None:
    """Return the ceiling that the run has reached, wall clock first."""
    if state.limits is None:
        return None
    if state.wall_clock_us(now_us) >= state.limits.wall_clock_us:
        return ParkReason.WALL_CLOCK
    return exceeded(state.limits, state.spending)


def wall_clock_left_us(state: RunState, now_us: int) -> int | None:
    """Return how long until the wall clock parks the run; None when nothing runs against it."""
    if state.limits is None or state.phase is not RunPhase.RUNNING:
        return None
    return max(0, state.limits.wall_clock_us - state.wall_clock_us(now_us))


def run_outcome(state: RunState) -> RunOutcome:
    """Return how a run whose stages are all finished ends, merging apart."""
    outcomes = {stage.outcome for stage in state.stages.values()}
    if state.phase is RunPhase.CANCELLING:
        return RunOutcome.CANCELLED
    if outcomes & {StageOutcome.FAILED, StageOutcome.CODE_CONFLICT, StageOutcome.CANCELLED}:
        return RunOutcome.FAILED
    if StageOutcome.BLOCKED in outcomes:
        return RunOutcome.BLOCKED
    return RunOutcome.SUCCEEDED if outcomes == {StageOutcome.SUCCEEDED} else RunOutcome.FAILED


def _running(state: RunState, now_us: int, busy: frozenset[NodeId]) -> tuple[Effect, ...]:
    if all(stage.phase is StagePhase.FINISHED for stage in state.stages.values()):
        # A run does not end over a question that is still before a person.
        waits = bool(busy) or state.phase is RunPhase.AWAITING_APPROVAL
        return () if waits else (FinishRun(outcome=run_outcome(state)),)
    if reason := ceiling(state, now_us):
        return () if busy else (ParkRun(reason=reason, detail=f"the run reached its limit of {reason}"),)
    effects = tuple(_stage_effects(state, busy))
    return effects if effects or busy else tuple(_questions(state))


def _questions(state: RunState) -> Iterator[Effect]:
    for node, stage in state.stages.items():
        latest = stage.latest
        if latest is not None and waits_for_a_person(latest):
            detail = f"the outcome of call {latest.calls} of {node} is unknown"
            yield ParkRun(reason=ParkReason.UNKNOWN_OUTCOME, detail=detail)
            return


def _stage_effects(state: RunState, busy: frozenset[NodeId]) -> Iterator[Effect]:
    slots = _at_once(state) - len(_occupied(state, busy))
    for node, stage in state.stages.items():
        if node in busy or stage.phase is StagePhase.FINISHED:
            continue
        effect = _for_stage(state, stage)
        if effect is None:
            continue
        if isinstance(effect, PrepareAttempt) and stage.phase is StagePhase.WAITING:
            if slots <= 0:
                continue
            slots -= 1
        yield effect


def _at_once(state: RunState) -> int:
    if state.limits is None or state.started is None:
        return 0
    return state.limits.parallel or state.started.cores


def _occupied(state: RunState, busy: frozenset[NodeId]) -> set[NodeId]:
    active = {node for node, stage in state.stages.items() if stage.phase is StagePhase.ACTIVE}
    return active | busy


def _for_stage(state: RunState, stage: StageState) -> StageEffect | None:
    if stage.phase is StagePhase.WAITING:
        return _for_waiting(state, stage)
    latest = stage.latest
    assert latest is not None, "an active stage has an attempt"
    match latest.phase:
        case AttemptPhase.FROZEN:
            return _accept(stage)
        case AttemptPhase.FAILED:
            return next_after_failure(stage)
        case _:
            reruns = 0 if state.limits is None else state.limits.repair_reruns
            return next_for_attempt(stage.plan, latest, reruns)


def _for_waiting(state: RunState, stage: StageState) -> StageEffect | None:
    node = stage.plan.node
    if state.started is not None and state.started.missing_toolchains:
        return FinishStage(
            node=node,
            outcome=StageOutcome.BLOCKED,
            attempt=None,
            block=BlockReason.TOOLCHAIN,
            detail="; ".join(state.started.missing_toolchains),
        )
    for need in stage.plan.needs:
        outcome = state.stages[need].outcome
        if outcome is None:
            return None
        if outcome is not StageOutcome.SUCCEEDED:
            return FinishStage(
                node=node,
                outcome=StageOutcome.SKIPPED,
                attempt=None,
                dependency=need,
                detail=f"{need} is {outcome}",
            )
    return PrepareAttempt(node=node, attempt=AttemptNumber(1))


def _accept(stage: StageState) -> FinishStage:
    latest = stage.latest
    number = None if latest is None else latest.number
    node = stage.plan.node
    if stage.arbitration is VerificationStatus.PASS:
        return FinishStage(node=node, outcome=StageOutcome.SUCCEEDED, attempt=number)
    if stage.arbitration is VerificationStatus.ESCALATE:
        return FinishStage(
            node=node, outcome=StageOutcome.BLOCKED, attempt=number, block=BlockReason.ESCALATED
        )
    return FinishStage(
        node=node, outcome=StageOutcome.FAILED, attempt=number, detail="verification refused the attempt"
    )


def _cancelling(state: RunState, busy: frozenset[NodeId]) -> tuple[Effect, ...]:
    effects: list[Effect] = []
    for node, stage in state.stages.items():
        if node in busy or stage.phase is StagePhase.FINISHED:
            continue
        effects.append(_cancel_stage(stage))
    if not effects and not busy:
        effects.append(FinishRun(outcome=RunOutcome.CANCELLED))
    return tuple(effects)


def _cancel_stage(stage: StageState) -> StageEffect:
    latest, node = stage.latest, stage.plan.node
    if latest is None or latest.phase is AttemptPhase.FAILED:
        return FinishStage(
            node=node,
            outcome=StageOutcome.CANCELLED,
            attempt=None if latest is None else latest.number,
        )
    if latest.phase is AttemptPhase.FROZEN:
        return _accept(stage)
    if latest.phase is AttemptPhase.CALLING and latest.open_call is not None:
        return CloseUnknown(
            node=node,
            attempt=latest.number,
            call=latest.open_call.call,
            locality=latest.open_call.locality,
        )
    return FailAttempt(
        node=node, attempt=latest.number, reason=AttemptFailure.CANCELLED, detail="the run was cancelled"
    )
