"""What is due for one attempt, and what follows when it failed. Part of `decide`."""

from fusiond.domain.effects import (
    CloseUnknown,
    FailAttempt,
    FinishStage,
    FreezeAttempt,
    PrepareAttempt,
    RecordRevision,
    RequestRerun,
    RunGate,
    RunTurn,
    StageEffect,
)
from fusiond.domain.gates import ProcessOutcome
from fusiond.domain.ids import AttemptNumber
from fusiond.domain.state import AttemptState, Ended, StageState
from fusiond.domain.steps.attempt import UNCOUNTED, AttemptFailure, BlockReason, StageOutcome
from fusiond.domain.steps.judgement import RerunCause
from fusiond.domain.steps.run import StagePlan
from fusiond.domain.steps.turn import Locality
from fusiond.domain.transitions import AttemptPhase

MAX_INTERRUPTIONS = 8
"""Attempts of one stage that may end because the daemon died.

They are nobody's failure, so they do not count as the flow's `attempts`; but a
command that brings the machine down must not be started again for ever.
"""

_COMMAND_FAILURES = {
    ProcessOutcome.FAILED: AttemptFailure.COMMAND_FAILED,
    ProcessOutcome.SIGNALLED: AttemptFailure.COMMAND_SIGNALLED,
    ProcessOutcome.NOT_FOUND: AttemptFailure.COMMAND_NOT_FOUND,
    ProcessOutcome.NOT_EXECUTABLE: AttemptFailure.COMMAND_NOT_EXECUTABLE,
    ProcessOutcome.TIMED_OUT: AttemptFailure.TIMED_OUT,
    ProcessOutcome.OUTPUT_LIMIT: AttemptFailure.OUTPUT_LIMIT,
    ProcessOutcome.SANDBOX_FAILURE: AttemptFailure.SANDBOX_FAILED,
}

_BLOCKS = {
    AttemptFailure.GATE_UNUSABLE: BlockReason.GATE_UNUSABLE,
    AttemptFailure.COMMAND_NOT_FOUND: BlockReason.COMMAND_UNUSABLE,
    AttemptFailure.COMMAND_NOT_EXECUTABLE: BlockReason.COMMAND_UNUSABLE,
    AttemptFailure.SANDBOX_FAILED: BlockReason.SANDBOX,
    AttemptFailure.ISOLATION_FAILED: BlockReason.ISOLATION,
    AttemptFailure.STORAGE: BlockReason.STORAGE,
    AttemptFailure.INPUT_CORRUPT: BlockReason.INPUT_CORRUPT,
}
"""Failures that a further attempt cannot mend: the stage is blocked at once."""


def next_for_attempt(plan: StagePlan, attempt: AttemptState, repair_reruns: int) -> StageEffect | None:
    """Return the effect that is due for an open attempt, None while it waits for a person.

    Args:
        plan: the stage's part of the plan.
        attempt: its newest attempt, not over.
        repair_reruns: the flow's limit for each attempt.
    """
    node, number = plan.node, attempt.number
    match attempt.phase:
        case AttemptPhase.READY if attempt.rerun_cause is RerunCause.GATE_CHANGED_CODE:
            return RecordRevision(node=node, attempt=number, round=attempt.round + 1)
        case AttemptPhase.READY:
            return _turn(plan, attempt)
        case AttemptPhase.TURN:
            return _after_command(plan, attempt)
        case AttemptPhase.CALLING if attempt.open_call is not None:
            return CloseUnknown(
                node=node,
                attempt=number,
                call=attempt.open_call.call,
                locality=attempt.open_call.locality,
            )
        case AttemptPhase.UNKNOWN if waits_for_a_person(attempt):
            return None
        case AttemptPhase.JUDGING:
            return _judging(plan, attempt, repair_reruns)
        case AttemptPhase.VALIDATED:
            return _validated(plan, attempt, repair_reruns)
        case _:
            return _fail(
                plan, attempt, AttemptFailure.INTERRUPTED, "the daemon stopped while the command ran"
            )


def waits_for_a_person(attempt: AttemptState) -> bool:
    """Say whether an external call's outcome is unknown: nothing may be inferred, nothing repeated."""
    call = attempt.open_call
    return attempt.phase is AttemptPhase.UNKNOWN and call is not None and call.locality is Locality.EXTERNAL


def next_after_failure(stage: StageState) -> StageEffect:
    """Return what follows a failed attempt: another one, or the end of the stage."""
    latest, plan = stage.latest, stage.plan
    failure = None if latest is None else latest.failure
    assert failure is not None, "called for a failed attempt"
    if block := _BLOCKS.get(failure):
        return _finish(stage, StageOutcome.BLOCKED, block)
    if failure is AttemptFailure.CANCELLED:
        return _finish(stage, StageOutcome.CANCELLED)
    failures = [attempt.failure for attempt in stage.attempts]
    counted = sum(1 for each in failures if each not in UNCOUNTED)
    if len(failures) - counted >= MAX_INTERRUPTIONS:
        return _finish(stage, StageOutcome.BLOCKED, BlockReason.INTERRUPTED)
    if counted >= plan.attempts:
        return _finish(stage, StageOutcome.FAILED)
    return PrepareAttempt(node=plan.node, attempt=AttemptNumber(len(failures) + 1))


def _turn(plan: StagePlan, attempt: AttemptState) -> RunTurn:
    return RunTurn(
        node=plan.node,
        attempt=attempt.number,
        turn=attempt.turn + 1,
        call=attempt.calls + 1,
        feedback=attempt.feedback,
    )


def _after_command(plan: StagePlan, attempt: AttemptState) -> StageEffect:
    command = attempt.command
    if command is None or command.outcome is ProcessOutcome.CANCELLED:
        # Ended by a park or a drain, not by itself: the same session goes on.
        return _turn(plan, attempt)
    if command.outcome is ProcessOutcome.PASSED:
        return RecordRevision(node=plan.node, attempt=attempt.number, round=attempt.round + 1)
    return _fail(plan, attempt, _COMMAND_FAILURES[command.outcome], describe(command))


def _judging(plan: StagePlan, attempt: AttemptState, repair_reruns: int) -> StageEffect:
    failed = attempt.failed_gate
    if failed is None:
        due = next(iter(plan.gates[len(attempt.passed) :]), None)
        if due is None:
            return FreezeAttempt(node=plan.node, attempt=attempt.number, round=attempt.round)
        return RunGate(node=plan.node, attempt=attempt.number, round=attempt.round, gate=due)
    told = f"gate {failed.gate}: {describe(failed.ended)}"
    if not failed.ended.outcome.repairable:
        return _fail(plan, attempt, AttemptFailure.GATE_UNUSABLE, told)
    if attempt.reruns >= repair_reruns:
        return _fail(plan, attempt, AttemptFailure.GATE_FAILED, told)
    return RequestRerun(
        node=plan.node,
        attempt=attempt.number,
        number=attempt.reruns + 1,
        cause=RerunCause.GATE,
        gate=failed.gate,
        problems=(),
    )


def _validated(plan: StagePlan, attempt: AttemptState, repair_reruns: int) -> StageEffect:
    changed = (attempt.validated, attempt.validated_tree) != (attempt.outputs, attempt.tree)
    if not attempt.problems and not changed:
        return FreezeAttempt(node=plan.node, attempt=attempt.number, round=attempt.round)
    cause = RerunCause.CONTRACT if attempt.problems else RerunCause.GATE_CHANGED_CODE
    if attempt.reruns >= repair_reruns:
        if attempt.problems:
            told = "contract not met: " + ", ".join(dict.fromkeys(attempt.problems))
            return _fail(plan, attempt, AttemptFailure.CONTRACT_UNMET, told)
        return _fail(
            plan, attempt, AttemptFailure.GATE_CHANGED_CODE, "a gate changes code or outputs each time"
        )
    return RequestRerun(
        node=plan.node,
        attempt=attempt.number,
        number=attempt.reruns + 1,
        cause=cause,
        gate=None,
        problems=attempt.problems or (),
    )


def describe(ended: Ended) -> str:
    """Say in a few words how a command or a gate ended."""
    match ended.outcome:
        case ProcessOutcome.FAILED:
            return f"exit code {ended.exit_code}"
        case ProcessOutcome.SIGNALLED:
            return f"killed by signal {ended.signal}"
        case ProcessOutcome.NOT_FOUND:
            return "command not found (127)"
        case ProcessOutcome.NOT_EXECUTABLE:
            return "not executable (126)"
        case _:
            told = ended.outcome.replace("_", " ")
            return f"{told}: {ended.detail}" if ended.detail else told


def _fail(plan: StagePlan, attempt: AttemptState, reason: AttemptFailure, detail: str) -> FailAttempt:
    return FailAttempt(node=plan.node, attempt=attempt.number, reason=reason, detail=detail)


def _finish(stage: StageState, outcome: StageOutcome, block: BlockReason | None = None) -> FinishStage:
    latest = stage.latest
    return FinishStage(
        node=stage.plan.node,
        outcome=outcome,
        attempt=None if latest is None else latest.number,
        block=block,
        detail="" if latest is None else latest.detail,
    )
