"""How steps of a stage change the run's state. Called by `fold` alone."""

from types import MappingProxyType

from fusiond.domain.budgets import reconcile, reserve
from fusiond.domain.errors import IllegalStepError
from fusiond.domain.evolve import replace
from fusiond.domain.fold_attempt import apply_to_attempt
from fusiond.domain.fold_run import asked
from fusiond.domain.ids import NodeId
from fusiond.domain.state import AttemptState, RunState, StageState
from fusiond.domain.steps.attempt import AttemptStarted, StageFinished, StageOutcome
from fusiond.domain.steps.judgement import ArbitrationDecided, RerunRequested
from fusiond.domain.steps.kinds import StepKind
from fusiond.domain.steps.people import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    ApprovalWithdrawn,
)
from fusiond.domain.steps.record import Step
from fusiond.domain.steps.turn import BudgetReconciled, BudgetReserved, LabelsAdded
from fusiond.domain.transitions import STAGE_TABLE, AttemptPhase, RunPhase, StagePhase, run_after, stage_after
from fusiond.domain.verification import VerificationStatus

_STAGE_KINDS = {kind for _, kind in STAGE_TABLE}
_MOVING = (RunPhase.RUNNING, RunPhase.AWAITING_APPROVAL)
# What may still be recorded of a stage while its run ends or waits: what came
# back from processes that were ended, and how attempts and stages end.
_WINDING_DOWN = frozenset(
    {
        StepKind.TOOL_RETURNED,
        StepKind.EFFECT_UNKNOWN,
        StepKind.BUDGET_RECONCILED,
        StepKind.VIOLATION_RECORDED,
        StepKind.UNIT_GATE_FINISHED,
        StepKind.ARTIFACTS_VALIDATED,
        StepKind.ATTEMPT_FROZEN,
        StepKind.VERIFICATION_RECORDED,
        StepKind.ARBITRATION_DECIDED,
        StepKind.ATTEMPT_FAILED,
        StepKind.STAGE_FINISHED,
    }
)


def apply_to_stage(state: RunState, step: Step, node: NodeId) -> RunState:
    """Return the state after a step of the stage `node`."""
    stage = state.stages.get(node)
    if stage is None:
        raise IllegalStepError(f"a step of {node}", expected="one of " + ", ".join(state.stages))
    if isinstance(step.payload, ApprovalRequested | ApprovalDecided | ApprovalExpired | ApprovalWithdrawn):
        # The queue belongs to the run: its table alone says when a question may move.
        return asked(replace(state, phase=run_after(state.phase, step.kind)), step.payload)
    _check_run_moves(state, step)
    match step.payload:
        case BudgetReserved() as reserved:
            state = replace(state, spending=reserve(state.spending, reserved.reservation, reserved.amounts))
        case BudgetReconciled() as settled:
            state = replace(state, spending=reconcile(state.spending, settled.reservation, settled.amounts))
        case RerunRequested() as rerun if state.limits and rerun.number > state.limits.repair_reruns:
            limit = state.limits.repair_reruns
            raise IllegalStepError(f"rerun {rerun.number}", expected=f"at most {limit} in an attempt")
        case _:
            pass
    changed = _stage(state, stage, step) if step.kind in _STAGE_KINDS else _attempt(stage, step)
    return replace(state, stages=MappingProxyType({**state.stages, node: changed}))


def _check_run_moves(state: RunState, step: Step) -> None:
    if state.phase in _MOVING:
        return
    if state.phase in (RunPhase.CANCELLING, RunPhase.PARKED) and step.kind in _WINDING_DOWN:
        return
    raise IllegalStepError(
        f"step {step.kind} of {step.node} while the run is {state.phase}", expected="a running run"
    )


def _stage(state: RunState, stage: StageState, step: Step) -> StageState:
    phase = stage_after(stage.phase, step.kind)
    match step.payload:
        case AttemptStarted() as started:
            return replace(
                stage, phase=phase, attempts=(*stage.attempts, _new_attempt(state, stage, started, step))
            )
        case StageFinished() as finished:
            _check_outcome(state, stage, finished)
            return _finished(replace(stage, phase=phase), finished, step.at_us)
        case ArbitrationDecided() as decided:
            _require_frozen(stage, step)
            return replace(stage, phase=phase, arbitration=decided.arbitration.decision)
        case _:
            _require_frozen(stage, step)
            return replace(stage, phase=phase)


def _require_frozen(stage: StageState, step: Step) -> None:
    latest = stage.latest
    if latest is None or latest.number != step.attempt or latest.phase is not AttemptPhase.FROZEN:
        raise IllegalStepError(
            f"{step.kind} of attempt {step.attempt}", expected="the newest attempt, frozen"
        )


def _new_attempt(state: RunState, stage: StageState, started: AttemptStarted, step: Step) -> AttemptState:
    number = len(stage.attempts) + 1
    if step.attempt != number:
        raise IllegalStepError(f"attempt {step.attempt} of {stage.plan.node}", expected=f"attempt {number}")
    if stage.latest is not None and stage.latest.phase is not AttemptPhase.FAILED:
        raise IllegalStepError(
            f"attempt {number} while attempt {number - 1} is {stage.latest.phase}",
            expected="the earlier attempt failed",
        )
    for need in stage.plan.needs:
        if state.stages[need].outcome is not StageOutcome.SUCCEEDED:
            raise IllegalStepError(
                f"{stage.plan.node} started before {need} succeeded", expected="needs first"
            )
    return AttemptState(
        number=step.attempt,
        phase=AttemptPhase.READY,
        start_tree=started.start_tree,
        start_commit=started.start_commit,
        inputs=started.inputs,
        setup_key=started.setup_key,
        isolation=started.isolation,
        started_us=step.at_us,
    )


def _check_outcome(state: RunState, stage: StageState, finished: StageFinished) -> None:
    """Refuse an end of a stage whose fields do not belong to its outcome or contradict the ledger."""
    latest, outcome = stage.latest, finished.outcome
    if latest is not None and not latest.phase.over:
        raise IllegalStepError(
            f"stage_finished while attempt {latest.number} is {latest.phase}", expected="no open attempt"
        )
    frozen = latest is not None and latest.phase is AttemptPhase.FROZEN
    accepted = frozen and stage.arbitration is VerificationStatus.PASS
    if accepted is not (outcome is StageOutcome.SUCCEEDED):
        raise IllegalStepError(
            f"{stage.plan.node} is {outcome}, {'with' if accepted else 'without'} a frozen and accepted attempt",
            expected="success for such an attempt, and only for it",
        )
    number = None if latest is None else latest.number
    dependency = finished.dependency
    honest = (
        finished.attempt in (number, None)
        and (finished.block is not None) is (outcome is StageOutcome.BLOCKED)
        and (dependency is not None) is (outcome is StageOutcome.SKIPPED)
        and (outcome is StageOutcome.CODE_CONFLICT or not finished.conflict_paths)
    )
    if not honest:
        raise IllegalStepError(
            f"{stage.plan.node} is {outcome} with fields that are not its own", expected=_FIELDS
        )
    if dependency is not None and (
        dependency not in stage.plan.needs
        or state.stages[dependency].outcome in (None, StageOutcome.SUCCEEDED)
    ):
        raise IllegalStepError(
            f"{stage.plan.node} skipped over {dependency}", expected="a need that did not succeed"
        )


_FIELDS = (
    "the newest attempt or none, block with blocked, dependency with skipped, "
    "conflict_paths only with code_conflict"
)


def _finished(stage: StageState, finished: StageFinished, at_us: int) -> StageState:
    return replace(
        stage,
        outcome=finished.outcome,
        block=finished.block,
        dependency=finished.dependency,
        conflict_paths=finished.conflict_paths,
        detail=finished.detail,
        finished_us=at_us,
    )


def _attempt(stage: StageState, step: Step) -> StageState:
    latest = stage.latest
    if stage.phase is not StagePhase.ACTIVE or latest is None or latest.number != step.attempt:
        raise IllegalStepError(
            f"{step.kind} of attempt {step.attempt} of {stage.plan.node}",
            expected="the stage's newest attempt" if latest else "attempt_started first",
        )
    changed = replace(stage, attempts=(*stage.attempts[:-1], apply_to_attempt(stage.plan, latest, step)))
    if isinstance(step.payload, LabelsAdded):
        return replace(changed, labels=changed.labels | step.payload.labels)
    return changed
