"""How steps of an attempt change its state. Called by `fold` alone."""

from fusiond.domain.errors import IllegalStepError
from fusiond.domain.evolve import replace
from fusiond.domain.flow import NodeKind
from fusiond.domain.gates import ProcessOutcome
from fusiond.domain.state import AttemptState, Ended, GateRun, OpenCall
from fusiond.domain.steps.attempt import AttemptFailed, AttemptFrozen, RevisionRecorded
from fusiond.domain.steps.judgement import (
    ArtifactsValidated,
    RerunCause,
    RerunRequested,
    UnitGateFinished,
    UnitGateStarted,
)
from fusiond.domain.steps.record import Step
from fusiond.domain.steps.run import StagePlan
from fusiond.domain.steps.turn import (
    BudgetReconciled,
    BudgetReserved,
    EffectUnknown,
    EntropyUsed,
    LabelsAdded,
    Planned,
    ToolCalled,
    ToolGateDecided,
    ToolReturned,
    TurnStarted,
    ViolationRecorded,
)
from fusiond.domain.transitions import AttemptPhase, attempt_after

KEPT_VIOLATIONS = 20
"""How many of an attempt's violations its state holds; the ledger has them all."""


def apply_to_attempt(plan: StagePlan, attempt: AttemptState, step: Step) -> AttemptState:
    """Return the attempt after one of its steps."""
    moved = replace(attempt, phase=attempt_after(attempt.phase, step.kind))
    match step.payload:
        case TurnStarted() | ToolCalled() | ToolReturned() | EffectUnknown() as turned:
            return _turned(moved, turned)
        case RevisionRecorded() | UnitGateStarted() | UnitGateFinished() as judged:
            if isinstance(judged, RevisionRecorded):
                _check_judgeable(plan, attempt)
            return _judged(plan, moved, judged)
        case RerunRequested() as rerun:
            _expect("rerun", rerun.number, attempt.reruns + 1)
            return replace(
                moved, reruns=rerun.number, feedback=rerun.feedback, rerun_cause=rerun.cause, open_gate=None
            )
        case ArtifactsValidated() as validated:
            return _validated(plan, moved, validated)
        case AttemptFrozen() as frozen:
            return _frozen(moved, frozen, step.at_us)
        case AttemptFailed() as failed:
            return replace(
                moved,
                failure=failed.reason,
                detail=failed.detail,
                failure_output=failed.output,
                ended_us=step.at_us,
            )
        case (
            BudgetReserved()
            | BudgetReconciled()
            | Planned()
            | ToolGateDecided()
            | EntropyUsed()
            | LabelsAdded()
        ):
            return moved
        case ViolationRecorded() as violation:
            return replace(moved, violations=(*attempt.violations, violation.detail)[-KEPT_VIOLATIONS:])
        case _:
            raise IllegalStepError(f"{step.kind} of an attempt", expected="a step of an attempt")


def _expect(what: str, found: int, expected: int) -> None:
    if found != expected:
        raise IllegalStepError(f"{what} {found}", expected=f"{what} {expected}")


def _turned(
    attempt: AttemptState, payload: TurnStarted | ToolCalled | ToolReturned | EffectUnknown
) -> AttemptState:
    match payload:
        case TurnStarted():
            _expect("turn", payload.turn, attempt.turn + 1)
            return replace(attempt, turn=payload.turn, command=None, problems=None, failed_gate=None)
        case ToolCalled():
            _expect("call", payload.call, attempt.calls + 1)
            call = OpenCall(call=payload.call, tool=payload.tool, locality=payload.locality)
            return replace(attempt, calls=payload.call, open_call=call)
        case ToolReturned():
            _expect("result of call", payload.call, attempt.calls)
            ended = None
            if payload.process is not None:
                ended = Ended(
                    outcome=payload.process,
                    exit_code=payload.exit_code,
                    signal=payload.signal,
                    output=payload.output,
                    duration_us=payload.duration_us,
                    detail=payload.detail,
                )
            return replace(attempt, open_call=None, command=ended)
        case EffectUnknown():
            _expect("unknown outcome of call", payload.call, attempt.calls)
            return attempt


def _check_judgeable(plan: StagePlan, attempt: AttemptState) -> None:
    if attempt.phase is AttemptPhase.READY and attempt.rerun_cause is not RerunCause.GATE_CHANGED_CODE:
        raise IllegalStepError("a revision before anything ran", expected="a turn first")
    passed = attempt.command is not None and attempt.command.outcome is ProcessOutcome.PASSED
    if attempt.phase is AttemptPhase.TURN and plan.kind is NodeKind.RUN and not passed:
        raise IllegalStepError("a revision of a command that did not pass", expected="a command that passed")


def _judged(
    plan: StagePlan, attempt: AttemptState, payload: RevisionRecorded | UnitGateStarted | UnitGateFinished
) -> AttemptState:
    if isinstance(payload, RevisionRecorded):
        _expect("round", payload.round, attempt.round + 1)
        return replace(
            attempt,
            round=payload.round,
            tree=payload.tree,
            outputs=payload.outputs,
            passed=(),
            open_gate=None,
            failed_gate=None,
            problems=None,
            rerun_cause=None,
        )
    _expect("gate round", payload.round, attempt.round)
    due = None if attempt.failed_gate else next(iter(plan.gates[len(attempt.passed) :]), None)
    if payload.gate != due:
        raise IllegalStepError(f"gate {payload.gate}", expected=f"gate {due}" if due else "no further gate")
    if isinstance(payload, UnitGateStarted):
        return replace(attempt, open_gate=payload.gate)
    if attempt.open_gate != payload.gate:
        raise IllegalStepError(f"gate {payload.gate} finished", expected="unit_gate_started first")
    return _gate_finished(attempt, payload)


def _gate_finished(attempt: AttemptState, payload: UnitGateFinished) -> AttemptState:
    ended = Ended(
        outcome=payload.outcome,
        exit_code=payload.exit_code,
        signal=payload.signal,
        output=payload.output,
        duration_us=payload.duration_us,
        detail=payload.detail,
    )
    run = GateRun(gate=payload.gate, round=payload.round, ended=ended)
    others = tuple(each for each in attempt.last_gates if each.gate != payload.gate)
    passed = payload.outcome is ProcessOutcome.PASSED
    # Ended by a park or a drain, not by itself: it has said nothing and is due again.
    said_nothing = payload.outcome is ProcessOutcome.CANCELLED
    return replace(
        attempt,
        open_gate=None,
        passed=(*attempt.passed, payload.gate) if passed else attempt.passed,
        failed_gate=None if passed or said_nothing else run,
        last_gates=(*others, run),
    )


def _validated(plan: StagePlan, attempt: AttemptState, payload: ArtifactsValidated) -> AttemptState:
    _expect("validation of round", payload.round, attempt.round)
    if attempt.passed != plan.gates:
        raise IllegalStepError(
            f"validated after gates {list(attempt.passed)}", expected=f"all of {list(plan.gates)} passed"
        )
    return replace(
        attempt,
        problems=payload.problems,
        validated=payload.outputs,
        validated_tree=payload.tree,
        report=payload.report,
    )


def _frozen(attempt: AttemptState, payload: AttemptFrozen, at_us: int) -> AttemptState:
    if attempt.problems:
        raise IllegalStepError(f"frozen with problems {list(attempt.problems)}", expected="no problem")
    if payload.tree != attempt.tree or (attempt.validated, attempt.validated_tree) != (
        attempt.outputs,
        attempt.tree,
    ):
        raise IllegalStepError(
            "frozen code or outputs differ from what the gates judged",
            expected="equal digests before the first gate and at freezing",
        )
    return replace(
        attempt,
        artifacts=payload.artifacts,
        manifest=payload.manifest,
        summary=payload.summary,
        commit=payload.commit,
        ended_us=at_us,
    )
