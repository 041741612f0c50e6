"""How steps of the run itself change its state. Called by `fold` alone."""

from types import MappingProxyType

from fusiond.domain.errors import IllegalStepError
from fusiond.domain.evolve import replace
from fusiond.domain.ids import NodeId
from fusiond.domain.state import RunState, StageState
from fusiond.domain.steps.after import Archived, Compensated, ContentErased, KnowledgeRecorded
from fusiond.domain.steps.attempt import StageOutcome
from fusiond.domain.steps.people import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    ApprovalWithdrawn,
)
from fusiond.domain.steps.record import Step
from fusiond.domain.steps.run import (
    ResumeCause,
    RunCancelled,
    RunFinished,
    RunOutcome,
    RunParked,
    RunResumed,
    RunStarted,
)
from fusiond.domain.transitions import RunPhase, StagePhase, run_after


def apply_to_run(state: RunState, step: Step) -> RunState:
    """Return the state after a step without a node."""
    phase = run_after(state.phase, step.payload.kind)
    moved = replace(state, phase=phase)
    match step.payload:
        case RunStarted() as started:
            return _started(moved, started, step.at_us)
        case RunParked() as parked:
            return replace(
                moved,
                waiting_since_us=step.at_us,
                park_reason=parked.reason,
                park_detail=parked.detail,
            )
        case RunResumed() as resumed:
            return _resumed(state, moved, resumed)
        case RunCancelled():
            since = state.waiting_since_us
            waited_us = 0 if since is None else max(0, step.at_us - since)
            return replace(
                moved,
                waiting_since_us=None,
                park_reason=None,
                park_detail="",
                idle_us=state.idle_us + waited_us,
            )
        case RunFinished() as finished:
            return replace(
                _finished(state, moved, finished),
                ended_us=max(state.last_us, step.at_us),
                pending_approvals=(),
            )
        case ApprovalRequested() | ApprovalDecided() | ApprovalExpired() | ApprovalWithdrawn() as said:
            return asked(moved, said)
        case ContentErased() as erased:
            return replace(moved, erased=moved.erased | set(erased.digests))
        case Archived():
            return replace(moved, archived=True)
        case Compensated() | KnowledgeRecorded():
            return moved
        case _:
            raise IllegalStepError(f"step {step.kind} without a node", expected="the node it is about")


def asked(
    state: RunState, said: ApprovalRequested | ApprovalDecided | ApprovalExpired | ApprovalWithdrawn
) -> RunState:
    """Return the state after a step of the approval queue; the phase has been moved already."""
    pending = state.pending_approvals
    if isinstance(said, ApprovalRequested):
        if said.request != state.requests + 1:
            raise IllegalStepError(f"request {said.request}", expected=f"request {state.requests + 1}")
        return replace(state, requests=said.request, pending_approvals=(*pending, said.request))
    if said.request not in pending:
        raise IllegalStepError(
            f"{said.kind} for request {said.request}, which is not pending",
            expected="one of " + (", ".join(map(str, pending)) or "none"),
        )
    if isinstance(said, ApprovalExpired):
        return state
    rest = tuple(number for number in pending if number != said.request)
    still_waiting = rest and state.phase is RunPhase.RUNNING
    return replace(
        state,
        pending_approvals=rest,
        phase=RunPhase.AWAITING_APPROVAL if still_waiting else state.phase,
    )


def _started(state: RunState, started: RunStarted, at_us: int) -> RunState:
    stages = {plan.node: StageState(plan=plan) for plan in started.stages}
    if len(stages) != len(started.stages) or not stages:
        raise IllegalStepError("stages that are empty or named twice", expected="each node once")
    earlier: set[NodeId] = set()
    for plan in started.stages:
        if unknown := set(plan.needs) - earlier:
            raise IllegalStepError(f"{plan.node} needs {sorted(unknown)}", expected="nodes before it")
        earlier.add(plan.node)
    if (started.limits.parallel or started.cores) < 1:
        raise IllegalStepError("a run in which no stage may run", expected="at least 1 at once")
    return replace(
        state,
        started=started,
        limits=started.limits,
        stages=MappingProxyType(stages),
        started_us=at_us,
    )


def _resumed(before: RunState, state: RunState, resumed: RunResumed) -> RunState:
    if before.phase is RunPhase.PARKED and resumed.cause is ResumeCause.RESTART:
        raise IllegalStepError("a restart resumed a parked run", expected="a person to resume it")
    if state.limits is None:
        raise IllegalStepError("resumed before it started", expected="run_started first")
    added = (
        resumed.added_wall_clock_us,
        resumed.added_tokens,
        resumed.added_cost_uusd,
        resumed.added_tool_calls,
    )
    if min(added) < 0:
        raise IllegalStepError("a resume that narrowed a limit", expected="amounts of 0 or more")
    if any(added) and resumed.cause is ResumeCause.RESTART:
        raise IllegalStepError("a restart widened a limit", expected="a person to widen it")
    limits = state.limits
    limits = replace(
        limits,
        wall_clock_us=limits.wall_clock_us + resumed.added_wall_clock_us,
        tokens=_widened(limits.tokens, resumed.added_tokens),
        cost_uusd=_widened(limits.cost_uusd, resumed.added_cost_uusd),
        tool_calls=_widened(limits.tool_calls, resumed.added_tool_calls),
    )
    return replace(
        state,
        limits=limits,
        # A clock that was set back while nothing ran makes no time that was worked.
        idle_us=state.idle_us + max(0, resumed.idle_us),
        waiting_since_us=None,
        park_reason=None,
        park_detail="",
        phase=RunPhase.AWAITING_APPROVAL
        if state.pending_approvals and state.phase is RunPhase.RUNNING
        else state.phase,
    )


def _widened(limit: int | None, added: int) -> int | None:
    return None if limit is None else limit + added


def _finished(before: RunState, state: RunState, finished: RunFinished) -> RunState:
    open_stages = [n for n, stage in state.stages.items() if stage.phase is not StagePhase.FINISHED]
    if open_stages:
        raise IllegalStepError(
            f"run_finished while {open_stages[0]} is {state.stages[open_stages[0]].phase}",
            expected="every stage finished",
        )
    cancelling = before.phase is RunPhase.CANCELLING
    if cancelling is not (finished.outcome is RunOutcome.CANCELLED):
        raise IllegalStepError(
            f"run_finished as {finished.outcome} while {before.phase}",
            expected="cancelled after a cancellation, and only then",
        )
    succeeded = all(stage.outcome is StageOutcome.SUCCEEDED for stage in state.stages.values())
    if finished.outcome is RunOutcome.SUCCEEDED and not (succeeded and not finished.conflict_paths):
        raise IllegalStepError(
            "success claimed for stages that did not succeed", expected="an honest outcome"
        )
    return replace(
        state,
        phase=_PHASE_OF[finished.outcome],
        outcome=finished.outcome,
        result_commit=finished.result_commit,
        result_tree=finished.result_tree,
        conflict_paths=finished.conflict_paths,
    )


_PHASE_OF = {
    RunOutcome.SUCCEEDED: RunPhase.FINISHED,
    RunOutcome.FAILED: RunPhase.FAILED,
    RunOutcome.BLOCKED: RunPhase.FAILED,
    RunOutcome.CANCELLED: RunPhase.CANCELLED,
}
