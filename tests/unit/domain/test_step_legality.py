"""Which kind of step is legal in which state: every state by every kind, against a list written by hand."""

from collections.abc import Callable

import pytest

from fusiond.domain.artifacts import ProblemCode
from fusiond.domain.errors import IllegalStepError
from fusiond.domain.fold import admit, fold
from fusiond.domain.gates import ProcessOutcome
from fusiond.domain.steps.attempt import AttemptFailed, AttemptFailure, StageOutcome
from fusiond.domain.steps.judgement import RerunCause
from fusiond.domain.steps.kinds import StepKind
from fusiond.domain.steps.run import ParkReason, RunCancelled, RunOutcome, RunParked
from fusiond.domain.steps.turn import Amounts, BudgetReserved, EffectUnknown, Locality
from fusiond.domain.verification import VerificationStatus
from tests.fakes.chains import RUN, Chain
from tests.fakes.fitting import fitting
from tests.fakes.payloads import (
    arbitration_decided,
    artifacts_validated,
    attempt_frozen,
    attempt_started,
    gate_finished,
    gate_started,
    plan,
    rerun_requested,
    revision_recorded,
    run_finished,
    stage_finished,
    tool_called,
    tool_returned,
    turn_started,
    verification_recorded,
)

PARKED = RunParked(reason=ParkReason.TOKENS, detail="")
CANCELLED = RunCancelled(by="someone", reason="")


# --- one stage `build` with one gate `unit`, in every state it can be in ------------------------------


def waiting() -> Chain:
    return Chain(plan("build", gates=["unit"]), plan("other"))


def ready() -> Chain:
    chain = waiting()
    chain.of_stage("build", 1, attempt_started())
    return chain


def turn() -> Chain:
    chain = ready()
    chain.of_stage("build", 1, turn_started(1), BudgetReserved(reservation=1, amounts=Amounts(tokens=1)))
    return chain


def calling() -> Chain:
    chain = turn()
    chain.of_stage("build", 1, tool_called(1))
    return chain


def unknown() -> Chain:
    chain = calling()
    chain.of_stage("build", 1, EffectUnknown(call=1, locality=Locality.LOCAL))
    return chain


def returned() -> Chain:
    chain = calling()
    chain.of_stage("build", 1, tool_returned(1))
    return chain


def gate_due() -> Chain:
    chain = returned()
    chain.of_stage("build", 1, revision_recorded(1))
    return chain


def gate_running() -> Chain:
    chain = gate_due()
    chain.of_stage("build", 1, gate_started("unit", 1))
    return chain


def gate_failed() -> Chain:
    chain = gate_running()
    chain.of_stage("build", 1, gate_finished("unit", 1, ProcessOutcome.FAILED))
    return chain


def gate_passed() -> Chain:
    chain = gate_running()
    chain.of_stage("build", 1, gate_finished("unit", 1))
    return chain


def repaired() -> Chain:
    chain = gate_failed()
    chain.of_stage("build", 1, rerun_requested(1))
    return chain


def clean() -> Chain:
    chain = gate_passed()
    chain.of_stage("build", 1, artifacts_validated(1))
    return chain


def wrong() -> Chain:
    chain = gate_passed()
    chain.of_stage("build", 1, artifacts_validated(1, problems=(ProblemCode.SUMMARY_MISSING,)))
    return chain


def changed() -> Chain:
    chain = gate_passed()
    chain.of_stage("build", 1, artifacts_validated(1, "changed code"))
    return chain


def judged_again() -> Chain:
    chain = changed()
    chain.of_stage("build", 1, rerun_requested(1, RerunCause.GATE_CHANGED_CODE))
    return chain


def frozen() -> Chain:
    chain = clean()
    chain.of_stage("build", 1, attempt_frozen(), verification_recorded())
    return chain


def accepted() -> Chain:
    chain = frozen()
    chain.of_stage("build", 1, arbitration_decided())
    return chain


def refused() -> Chain:
    chain = frozen()
    chain.of_stage("build", 1, arbitration_decided(VerificationStatus.FAIL))
    return chain


def failed() -> Chain:
    chain = calling()
    chain.of_stage("build", 1, AttemptFailed(reason=AttemptFailure.TIMED_OUT, detail=""))
    return chain


def succeeded() -> Chain:
    chain = accepted()
    chain.of_stage("build", None, stage_finished(StageOutcome.SUCCEEDED, 1))
    return chain


QUESTION = {"approval_requested"}
JUDGED_FROZEN = {
    "verification_recorded",
    "arbitration_decided",
    "protected_gate_started",
    "protected_gate_judged",
    "stage_finished",
}
IN_A_TURN = {
    "turn_started",
    "budget_reserved",
    "budget_reconciled",
    "planned",
    "tool_gate_decided",
    "tool_called",
    "entropy_used",
    "labels_added",
    "violation_recorded",
    "revision_recorded",
    "rerun_requested",
    "attempt_failed",
}

WHILE_RUNNING: dict[Callable[[], Chain], set[str]] = {
    waiting: {"attempt_started", "stage_finished"},
    ready: {"turn_started", "attempt_failed"},
    turn: IN_A_TURN - {"revision_recorded"},
    calling: {
        "tool_returned",
        "effect_unknown",
        "budget_reconciled",
        "violation_recorded",
        "attempt_failed",
    },
    unknown: {"tool_returned", "budget_reconciled", "attempt_failed"},
    returned: IN_A_TURN,
    gate_due: {
        "unit_gate_started",
        "violation_recorded",
        "rerun_requested",
        "attempt_failed",
    },
    gate_running: {
        "unit_gate_started",
        "unit_gate_finished",
        "violation_recorded",
        "rerun_requested",
        "attempt_failed",
    },
    gate_failed: {"violation_recorded", "rerun_requested", "attempt_failed"},
    gate_passed: {
        "artifacts_validated",
        "violation_recorded",
        "rerun_requested",
        "attempt_failed",
    },
    repaired: {"turn_started", "attempt_failed"},
    clean: {
        "artifacts_validated",
        "attempt_frozen",
        "rerun_requested",
        "violation_recorded",
        "attempt_failed",
    },
    wrong: {
        "artifacts_validated",
        "rerun_requested",
        "violation_recorded",
        "attempt_failed",
    },
    changed: {
        "artifacts_validated",
        "rerun_requested",
        "violation_recorded",
        "attempt_failed",
    },
    judged_again: {"turn_started", "revision_recorded", "attempt_failed"},
    frozen: JUDGED_FROZEN,
    accepted: JUDGED_FROZEN,
    refused: JUDGED_FROZEN,
    failed: {"attempt_started", "stage_finished"},
    succeeded: set(),
}
"""What may be recorded of a stage while its run is running, beside a question to a person."""

WINDING_DOWN = {
    "tool_returned",
    "effect_unknown",
    "budget_reconciled",
    "violation_recorded",
    "unit_gate_finished",
    "artifacts_validated",
    "attempt_frozen",
    "verification_recorded",
    "arbitration_decided",
    "attempt_failed",
    "stage_finished",
}
"""What of it may still be recorded once the run is parked or is being cancelled."""


def assert_legal_are(chain: Chain, node: str | None, legal: set[str]) -> None:
    """Try every kind of step; the illegal ones must leave what is there as it was."""
    before, found = fold(RUN, chain.steps), set()
    for kind in StepKind:
        try:
            admit(chain.state, [fitting(kind, chain.state, node)])
        except IllegalStepError:
            assert chain.state == before, f"a refused {kind} changed the state"
        else:
            found.add(str(kind))
    assert found == legal


@pytest.mark.parametrize("state", WHILE_RUNNING)
def test_of_a_stage_while_the_run_is_running(state: Callable[[], Chain]) -> None:
    assert_legal_are(state(), "build", WHILE_RUNNING[state] | QUESTION)


@pytest.mark.parametrize("state", WHILE_RUNNING)
def test_of_a_stage_while_a_person_is_asked(state: Callable[[], Chain]) -> None:
    chain = state()
    chain.append([fitting(StepKind.APPROVAL_REQUESTED, chain.state, "other")])
    answers = {"approval_decided", "approval_expired", "approval_withdrawn"}
    assert_legal_are(chain, "build", WHILE_RUNNING[state] | QUESTION | answers)


@pytest.mark.parametrize("state", WHILE_RUNNING)
@pytest.mark.parametrize("stopped", [PARKED, CANCELLED], ids=["parked", "cancelling"])
def test_of_a_stage_while_the_run_is_stopped(
    state: Callable[[], Chain], stopped: RunParked | RunCancelled
) -> None:
    chain = state()
    chain.of_run(stopped)
    assert_legal_are(chain, "build", WHILE_RUNNING[state] & WINDING_DOWN)


@pytest.mark.parametrize("stopped,legal", [(PARKED, {"approval_decided"}), (CANCELLED, set())])
def test_a_question_of_a_stage_while_the_run_is_stopped(
    stopped: RunParked | RunCancelled, legal: set[str]
) -> None:
    chain = ready()
    chain.append([fitting(StepKind.APPROVAL_REQUESTED, chain.state, "build")])
    chain.of_run(stopped)
    assert_legal_are(chain, "build", {"approval_withdrawn", "attempt_failed"} | legal)


# --- the run itself ----------------------------------------------------------------------------------


def running() -> Chain:
    return Chain(plan("build"))


def done() -> Chain:
    chain = running()
    chain.of_stage("build", None, stage_finished(StageOutcome.FAILED))
    return chain


def asking() -> Chain:
    chain = running()
    chain.append([fitting(StepKind.APPROVAL_REQUESTED, chain.state, None)])
    return chain


def parked() -> Chain:
    chain = running()
    chain.of_run(PARKED)
    return chain


def parked_asking() -> Chain:
    chain = asking()
    chain.of_run(PARKED)
    return chain


def cancelling() -> Chain:
    chain = running()
    chain.of_run(CANCELLED)
    return chain


def cancelling_asking() -> Chain:
    chain = asking()
    chain.of_run(CANCELLED)
    return chain


def cancelling_done() -> Chain:
    chain = done()
    chain.of_run(CANCELLED)
    return chain


def ended() -> Chain:
    chain = done()
    chain.of_run(run_finished(RunOutcome.FAILED))
    return chain


def cancelled() -> Chain:
    chain = cancelling_done()
    chain.of_run(run_finished(RunOutcome.CANCELLED))
    return chain


AFTERWARDS = {"compensated", "content_erased", "archived", "knowledge_recorded"}

OF_THE_RUN: dict[Callable[[], Chain], set[str]] = {
    Chain: {"run_started"},
    running: {"run_parked", "run_resumed", "run_cancelled", "approval_requested"},
    done: {"run_parked", "run_resumed", "run_cancelled", "approval_requested", "run_finished"},
    asking: {
        "run_parked",
        "run_resumed",
        "run_cancelled",
        "approval_requested",
        "approval_decided",
        "approval_expired",
        "approval_withdrawn",
    },
    parked: {"run_resumed", "run_cancelled"},
    parked_asking: {"run_resumed", "run_cancelled", "approval_decided", "approval_withdrawn"},
    cancelling: {"run_resumed"},
    cancelling_asking: {"run_resumed", "approval_withdrawn"},
    cancelling_done: {"run_resumed", "run_finished"},
    ended: AFTERWARDS,
    cancelled: AFTERWARDS,
}


@pytest.mark.parametrize("state", OF_THE_RUN)
def test_of_the_run_itself(state: Callable[[], Chain]) -> None:
    assert_legal_are(state(), None, OF_THE_RUN[state])


@pytest.mark.parametrize("state", [ended, cancelled])
def test_of_a_stage_after_its_run(state: Callable[[], Chain]) -> None:
    assert_legal_are(state(), "build", set())


def test_of_a_stage_before_its_run() -> None:
    chain = Chain()
    with pytest.raises(IllegalStepError, match="a step of build"):
        chain.of_stage("build", 1, attempt_started())


def test_of_a_stage_that_the_run_does_not_have() -> None:
    chain = running()
    with pytest.raises(IllegalStepError, match="a step of deploy") as refusal:
        chain.of_stage("deploy", 1, attempt_started())
    assert refusal.value.expected == "one of build"
