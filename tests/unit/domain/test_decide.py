"""What is due in each state: every boundary at which a daemon can have stopped, and every limit."""

from dataclasses import replace

import pytest

from fusiond.domain.artifacts import ProblemCode
from fusiond.domain.decide import decide, run_outcome
from fusiond.domain.decide_attempt import MAX_INTERRUPTIONS, describe
from fusiond.domain.effects import (
    CloseUnknown,
    Effect,
    FailAttempt,
    FinishRun,
    FinishStage,
    FreezeAttempt,
    ParkRun,
    PrepareAttempt,
    RecordRevision,
    RequestRerun,
    RunGate,
    RunTurn,
)
from fusiond.domain.gates import ProcessOutcome
from fusiond.domain.ids import AttemptNumber, GateName, NodeId
from fusiond.domain.state import Ended
from fusiond.domain.steps.attempt import (
    AttemptFailed,
    AttemptFailure,
    BlockReason,
    StageOutcome,
)
from fusiond.domain.steps.judgement import RerunCause
from fusiond.domain.steps.kinds import StepKind
from fusiond.domain.steps.people import ApprovalWithdrawn
from fusiond.domain.steps.record import Payload
from fusiond.domain.steps.run import ParkReason, RunCancelled, RunOutcome, RunParked, StagePlan
from fusiond.domain.steps.turn import Amounts, BudgetReserved, EffectUnknown, Locality
from fusiond.domain.verification import VerificationStatus
from tests.fakes.chains import START_US, Chain
from tests.fakes.fitting import fitting
from tests.fakes.payloads import (
    HOUR_US,
    arbitration_decided,
    artifacts_validated,
    attempt_frozen,
    attempt_started,
    content,
    gate_finished,
    gate_started,
    limits,
    plan,
    rerun_requested,
    revision_recorded,
    run_finished,
    run_resumed,
    run_started,
    stage_finished,
    tool_called,
    tool_returned,
    turn_started,
    verification_recorded,
)

BUILD = NodeId("build")
FIRST, SECOND = AttemptNumber(1), AttemptNumber(2)
CANCELLED = RunCancelled(by="someone", reason="")
UNKNOWN = EffectUnknown(call=1, locality=Locality.LOCAL)

CALLING: tuple[Payload, ...] = (attempt_started(), turn_started(1), tool_called(1))
JUDGING = (*CALLING, tool_returned(1), revision_recorded(1))
GATE_PASSED = (*JUDGING, gate_started("unit", 1), gate_finished("unit", 1))
FROZEN = (*GATE_PASSED, artifacts_validated(1), attempt_frozen(), verification_recorded())


def gate_ended(outcome: ProcessOutcome) -> tuple[Payload, ...]:
    return (*JUDGING, gate_started("unit", 1), gate_finished("unit", 1, outcome))


def validated(code: str = "code", *problems: ProblemCode) -> tuple[Payload, ...]:
    return (*GATE_PASSED, artifacts_validated(1, code, problems))


def after(*payloads: Payload, repair_reruns: int = 2, attempts: int = 2) -> Chain:
    """Return a run of one stage with the gate `unit`, after these steps of its first attempt."""
    chain = Chain(
        plan("build", gates=["unit"], attempts=attempts), within=limits(repair_reruns=repair_reruns)
    )
    chain.of_stage("build", 1, *payloads)
    return chain


def due(chain: Chain, *busy: str) -> tuple[Effect, ...]:
    return decide(chain.state, START_US + 1, frozenset(map(NodeId, busy)))


def turn(number: int, call: int, feedback: str | None = None) -> RunTurn:
    ref = None if feedback is None else content(feedback)
    return RunTurn(node=BUILD, attempt=FIRST, turn=number, call=call, feedback=ref)


def fail(reason: AttemptFailure, detail: str) -> FailAttempt:
    return FailAttempt(node=BUILD, attempt=FIRST, reason=reason, detail=detail)


def finish(
    outcome: StageOutcome, block: BlockReason | None = None, detail: str = "", attempt: int | None = 1
) -> FinishStage:
    number = None if attempt is None else AttemptNumber(attempt)
    return FinishStage(node=BUILD, outcome=outcome, attempt=number, block=block, detail=detail)


def rerun(
    cause: RerunCause, *problems: ProblemCode, gate: str | None = None, number: int = 1
) -> RequestRerun:
    return RequestRerun(
        node=BUILD,
        attempt=FIRST,
        number=number,
        cause=cause,
        gate=None if gate is None else GateName(gate),
        problems=problems,
    )


PREPARE = PrepareAttempt(node=BUILD, attempt=FIRST)
PREPARE_AGAIN = PrepareAttempt(node=BUILD, attempt=SECOND)
REVISION = RecordRevision(node=BUILD, attempt=FIRST, round=1)
GATE = RunGate(node=BUILD, attempt=FIRST, round=1, gate=GateName("unit"))
FREEZE = FreezeAttempt(node=BUILD, attempt=FIRST, round=1)
CLOSE = CloseUnknown(node=BUILD, attempt=FIRST, call=1, locality=Locality.LOCAL)
INTERRUPTED = fail(AttemptFailure.INTERRUPTED, "the daemon stopped while the command ran")


# --- one attempt, in order; every line is also what a restart finds -----------------------------------

IN_ORDER: list[tuple[str, tuple[Payload, ...], Effect]] = [
    ("nothing began", (), PREPARE),
    ("started", (attempt_started(),), turn(1, 1)),
    ("a turn without its call", CALLING[:2], turn(2, 1)),
    ("the call has no result", CALLING, CLOSE),
    ("the call was closed", (*CALLING, UNKNOWN), INTERRUPTED),
    ("the command passed", (*CALLING, tool_returned(1)), REVISION),
    ("the command was stopped", (*CALLING, tool_returned(1, ProcessOutcome.CANCELLED)), turn(2, 2)),
    ("the revision is recorded", JUDGING, GATE),
    ("the gate started", (*JUDGING, gate_started("unit", 1)), GATE),
    ("the gate passed", GATE_PASSED, FREEZE),
    ("the gate failed", gate_ended(ProcessOutcome.FAILED), rerun(RerunCause.GATE, gate="unit")),
    ("the gate timed out", gate_ended(ProcessOutcome.TIMED_OUT), rerun(RerunCause.GATE, gate="unit")),
    ("the gate was stopped", gate_ended(ProcessOutcome.CANCELLED), GATE),
    (
        "a rerun was asked for",
        (*gate_ended(ProcessOutcome.FAILED), rerun_requested(1)),
        turn(2, 2, "feedback"),
    ),
    (
        "a rerun was stopped",
        (
            *gate_ended(ProcessOutcome.FAILED),
            rerun_requested(1),
            turn_started(2, content("feedback")),
            tool_called(2),
            tool_returned(2, ProcessOutcome.CANCELLED),
        ),
        turn(3, 3, "feedback"),
    ),
    (
        "the worktree was no revision",
        (*CALLING, tool_returned(1), rerun_requested(1, RerunCause.CONTRACT)),
        turn(2, 2, "feedback"),
    ),
    ("validated without a problem", validated(), FREEZE),
    (
        "validated with problems",
        validated("code", ProblemCode.SCHEMA, ProblemCode.FILE_KIND),
        rerun(RerunCause.CONTRACT, ProblemCode.SCHEMA, ProblemCode.FILE_KIND),
    ),
    ("a gate changed the code", validated("other code"), rerun(RerunCause.GATE_CHANGED_CODE)),
    (
        "the gates are to run again",
        (*validated("other code"), rerun_requested(1, RerunCause.GATE_CHANGED_CODE)),
        RecordRevision(node=BUILD, attempt=FIRST, round=2),
    ),
    ("frozen and accepted", (*FROZEN, arbitration_decided()), finish(StageOutcome.SUCCEEDED)),
    (
        "frozen and refused",
        (*FROZEN, arbitration_decided(VerificationStatus.FAIL)),
        finish(StageOutcome.FAILED, detail="verification refused the attempt"),
    ),
    (
        "frozen and in question",
        (*FROZEN, arbitration_decided(VerificationStatus.ESCALATE)),
        finish(StageOutcome.BLOCKED, BlockReason.ESCALATED),
    ),
]


@pytest.mark.parametrize(
    "payloads,effect", [line[1:] for line in IN_ORDER], ids=[line[0] for line in IN_ORDER]
)
def test_what_is_due_for_an_attempt(payloads: tuple[Payload, ...], effect: Effect) -> None:
    assert due(after(*payloads)) == (effect,)


@pytest.mark.parametrize("payloads", [line[1] for line in IN_ORDER], ids=[line[0] for line in IN_ORDER])
def test_nothing_is_due_for_a_busy_stage(payloads: tuple[Payload, ...]) -> None:
    assert due(after(*payloads), "build") == ()


def test_without_gates_a_revision_is_frozen_at_once() -> None:
    chain = Chain(plan("build"))
    chain.of_stage("build", 1, *JUDGING)
    assert due(chain) == (FREEZE,)


# --- failures -----------------------------------------------------------------------------------------

COMMANDS = {
    ProcessOutcome.FAILED: fail(AttemptFailure.COMMAND_FAILED, "exit code 1"),
    ProcessOutcome.SIGNALLED: fail(AttemptFailure.COMMAND_SIGNALLED, "killed by signal 9"),
    ProcessOutcome.NOT_FOUND: fail(AttemptFailure.COMMAND_NOT_FOUND, "command not found (127)"),
    ProcessOutcome.NOT_EXECUTABLE: fail(AttemptFailure.COMMAND_NOT_EXECUTABLE, "not executable (126)"),
    ProcessOutcome.TIMED_OUT: fail(AttemptFailure.TIMED_OUT, "timed out"),
    ProcessOutcome.OUTPUT_LIMIT: fail(AttemptFailure.OUTPUT_LIMIT, "output limit"),
    ProcessOutcome.SANDBOX_FAILURE: fail(AttemptFailure.SANDBOX_FAILED, "sandbox failure"),
    ProcessOutcome.CANCELLED: turn(2, 2),
    ProcessOutcome.PASSED: REVISION,
}

GATES = {
    ProcessOutcome.FAILED: fail(AttemptFailure.GATE_FAILED, "gate unit: exit code 1"),
    ProcessOutcome.SIGNALLED: fail(AttemptFailure.GATE_FAILED, "gate unit: killed by signal 9"),
    ProcessOutcome.NOT_FOUND: fail(AttemptFailure.GATE_UNUSABLE, "gate unit: command not found (127)"),
    ProcessOutcome.NOT_EXECUTABLE: fail(AttemptFailure.GATE_UNUSABLE, "gate unit: not executable (126)"),
    ProcessOutcome.TIMED_OUT: fail(AttemptFailure.GATE_FAILED, "gate unit: timed out"),
    ProcessOutcome.OUTPUT_LIMIT: fail(AttemptFailure.GATE_FAILED, "gate unit: output limit"),
    ProcessOutcome.SANDBOX_FAILURE: fail(AttemptFailure.GATE_UNUSABLE, "gate unit: sandbox failure"),
    ProcessOutcome.CANCELLED: GATE,
    ProcessOutcome.PASSED: FREEZE,
}


@pytest.mark.parametrize("outcome", ProcessOutcome)
def test_every_end_of_a_command(outcome: ProcessOutcome) -> None:
    assert due(after(*CALLING, tool_returned(1, outcome))) == (COMMANDS[outcome],)


@pytest.mark.parametrize("outcome", ProcessOutcome)
def test_every_end_of_a_gate_when_no_rerun_is_left(outcome: ProcessOutcome) -> None:
    assert due(after(*gate_ended(outcome), repair_reruns=0)) == (GATES[outcome],)


@pytest.mark.parametrize("outcome", [each for each in ProcessOutcome if not each.repairable])
def test_a_gate_that_feedback_cannot_mend_spends_no_rerun(outcome: ProcessOutcome) -> None:
    assert due(after(*gate_ended(outcome), repair_reruns=2)) == (GATES[outcome],)


def test_contract_and_changed_code_fail_when_no_rerun_is_left() -> None:
    problems = validated("other code", ProblemCode.SCHEMA, ProblemCode.SCHEMA, ProblemCode.FILE_KIND)
    assert due(after(*problems, repair_reruns=0)) == (
        fail(AttemptFailure.CONTRACT_UNMET, "contract not met: schema, file_kind"),
    )
    assert due(after(*validated("other code"), repair_reruns=0)) == (
        fail(AttemptFailure.GATE_CHANGED_CODE, "a gate changes code or outputs each time"),
    )


def test_reruns_are_counted_over_all_their_causes() -> None:
    spent = (
        *validated("other code"),
        rerun_requested(1, RerunCause.GATE_CHANGED_CODE),
        revision_recorded(2, "other code"),
        gate_started("unit", 2),
        gate_finished("unit", 2, ProcessOutcome.FAILED),
    )
    assert due(after(*spent, repair_reruns=2)) == (rerun(RerunCause.GATE, gate="unit", number=2),)
    assert due(after(*spent, repair_reruns=1)) == (
        fail(AttemptFailure.GATE_FAILED, "gate unit: exit code 1"),
    )


AFTER_FAILURE = {
    AttemptFailure.COMMAND_FAILED: PREPARE_AGAIN,
    AttemptFailure.COMMAND_SIGNALLED: PREPARE_AGAIN,
    AttemptFailure.COMMAND_NOT_FOUND: finish(StageOutcome.BLOCKED, BlockReason.COMMAND_UNUSABLE, "why"),
    AttemptFailure.COMMAND_NOT_EXECUTABLE: finish(StageOutcome.BLOCKED, BlockReason.COMMAND_UNUSABLE, "why"),
    AttemptFailure.TIMED_OUT: PREPARE_AGAIN,
    AttemptFailure.OUTPUT_LIMIT: PREPARE_AGAIN,
    AttemptFailure.GATE_FAILED: PREPARE_AGAIN,
    AttemptFailure.GATE_UNUSABLE: finish(StageOutcome.BLOCKED, BlockReason.GATE_UNUSABLE, "why"),
    AttemptFailure.CONTRACT_UNMET: PREPARE_AGAIN,
    AttemptFailure.GATE_CHANGED_CODE: PREPARE_AGAIN,
    AttemptFailure.SETUP_FAILED: PREPARE_AGAIN,
    AttemptFailure.ISOLATION_FAILED: finish(StageOutcome.BLOCKED, BlockReason.ISOLATION, "why"),
    AttemptFailure.SANDBOX_FAILED: finish(StageOutcome.BLOCKED, BlockReason.SANDBOX, "why"),
    AttemptFailure.INPUT_CORRUPT: finish(StageOutcome.BLOCKED, BlockReason.INPUT_CORRUPT, "why"),
    AttemptFailure.INTERRUPTED: PREPARE_AGAIN,
    AttemptFailure.WORKSPACE_LOST: PREPARE_AGAIN,
    AttemptFailure.SESSION_LOST: PREPARE_AGAIN,
    AttemptFailure.CANCELLED: finish(StageOutcome.CANCELLED, detail="why"),
    AttemptFailure.STORAGE: finish(StageOutcome.BLOCKED, BlockReason.STORAGE, "why"),
    AttemptFailure.VERIFICATION: PREPARE_AGAIN,
}
NOBODYS_FAILURE = {AttemptFailure.INTERRUPTED, AttemptFailure.WORKSPACE_LOST}


@pytest.mark.parametrize("failure", AttemptFailure)
def test_what_follows_a_failed_attempt(failure: AttemptFailure) -> None:
    failed = AttemptFailed(reason=failure, detail="why")
    following = AFTER_FAILURE[failure]
    assert due(after(attempt_started(), failed, attempts=2)) == (following,)
    if following is PREPARE_AGAIN and failure not in NOBODYS_FAILURE:
        following = finish(StageOutcome.FAILED, detail="why")
    assert due(after(attempt_started(), failed, attempts=1)) == (following,)


def test_interruptions_do_not_count_as_attempts_but_are_bounded() -> None:
    chain = Chain(plan("build", attempts=1))
    for number in range(1, MAX_INTERRUPTIONS + 1):
        assert due(chain) == (PrepareAttempt(node=BUILD, attempt=AttemptNumber(number)),)
        failed = AttemptFailed(reason=AttemptFailure.INTERRUPTED, detail="interrupted")
        chain.of_stage("build", number, attempt_started(), failed)
    assert due(chain) == (
        finish(StageOutcome.BLOCKED, BlockReason.INTERRUPTED, "interrupted", attempt=MAX_INTERRUPTIONS),
    )


def test_what_counts_as_an_attempt_is_no_interruption() -> None:
    chain = Chain(plan("build", attempts=2))
    reasons = [AttemptFailure.TIMED_OUT, *[AttemptFailure.WORKSPACE_LOST] * MAX_INTERRUPTIONS]
    for number, reason in enumerate(reasons, 1):
        assert due(chain) == (PrepareAttempt(node=BUILD, attempt=AttemptNumber(number)),)
        chain.of_stage("build", number, attempt_started(), AttemptFailed(reason=reason, detail=reason))
    assert due(chain) == (
        finish(StageOutcome.BLOCKED, BlockReason.INTERRUPTED, "workspace_lost", attempt=len(reasons)),
    )


def test_attempts_are_counted_across_interruptions() -> None:
    chain = Chain(plan("build", attempts=2))
    reasons = [AttemptFailure.INTERRUPTED, AttemptFailure.TIMED_OUT, AttemptFailure.INTERRUPTED]
    for number, reason in enumerate([*reasons, AttemptFailure.COMMAND_FAILED], 1):
        assert due(chain) == (PrepareAttempt(node=BUILD, attempt=AttemptNumber(number)),)
        chain.of_stage("build", number, attempt_started(), AttemptFailed(reason=reason, detail=reason))
    assert due(chain) == (finish(StageOutcome.FAILED, detail="command_failed", attempt=4),)


@pytest.mark.parametrize("outcome", ProcessOutcome)
def test_every_end_can_be_told(outcome: ProcessOutcome) -> None:
    told = describe(Ended(outcome=outcome, exit_code=3, signal=15, output=None, duration_us=0))
    assert told
    assert told.isprintable()
    assert "None" not in told


# --- several stages -----------------------------------------------------------------------------------


def prepare(*nodes: str) -> tuple[Effect, ...]:
    return tuple(PrepareAttempt(node=NodeId(node), attempt=FIRST) for node in nodes)


def test_no_more_stages_start_than_may_run_at_once() -> None:
    chain = Chain(plan("a"), plan("b"), plan("c"), within=limits(parallel=2))
    assert due(chain) == prepare("a", "b")
    assert due(chain, "a") == prepare("b")
    assert due(chain, "c") == prepare("a")
    assert due(chain, "a", "c") == ()


def test_a_flow_that_does_not_say_how_many_runs_one_stage_a_core() -> None:
    chain = Chain()
    started = run_started(plan("a"), plan("b"), plan("c"), within=limits(parallel=0))
    chain.of_run(replace(started, cores=2))
    assert due(chain) == prepare("a", "b")


def test_a_stage_that_began_needs_no_second_slot() -> None:
    chain = Chain(plan("a"), plan("b"), within=limits(parallel=1))
    chain.of_stage("b", 1, attempt_started(), AttemptFailed(reason=AttemptFailure.TIMED_OUT, detail=""))
    assert due(chain) == (PrepareAttempt(node=NodeId("b"), attempt=SECOND),)


def test_a_stage_waits_for_all_that_it_needs() -> None:
    chain = Chain(plan("a"), plan("b", needs=["a"]), within=limits(parallel=3))
    assert due(chain) == prepare("a")
    chain.of_stage("a", 1, *JUDGING, artifacts_validated(1), attempt_frozen(), arbitration_decided())
    assert due(chain, "a") == ()
    chain.of_stage("a", None, stage_finished(StageOutcome.SUCCEEDED))
    assert due(chain) == prepare("b")


@pytest.mark.parametrize("outcome", [each for each in StageOutcome if each is not StageOutcome.SUCCEEDED])
def test_what_needs_a_stage_that_did_not_succeed_is_skipped_and_names_it(outcome: StageOutcome) -> None:
    skipped = outcome is StageOutcome.SKIPPED
    first, second = plan("a"), plan("b", needs=["c"] if skipped else [])
    chain = Chain(plan("c"), first, second, plan("build", needs=["a", "b"]), within=limits(parallel=2))
    chain.of_stage("c", None, stage_finished(StageOutcome.FAILED))
    chain.of_stage("b", None, stage_finished(outcome, dependency="c" if skipped else None))
    assert due(chain, "a") == (), "the first need is not decided yet"
    chain.of_stage("a", 1, *JUDGING, artifacts_validated(1), attempt_frozen(), arbitration_decided())
    chain.of_stage("a", None, stage_finished(StageOutcome.SUCCEEDED))
    assert due(chain) == (
        FinishStage(
            node=BUILD,
            outcome=StageOutcome.SKIPPED,
            attempt=None,
            dependency=NodeId("b"),
            detail=f"b is {outcome}",
        ),
    )


def test_without_its_toolchains_no_stage_starts() -> None:
    chain = Chain()
    chain.of_run(
        run_started(plan("a"), plan("b", needs=["a"]), missing_toolchains=("go >=1.22", "node >=20"))
    )
    assert due(chain) == tuple(
        FinishStage(
            node=NodeId(node),
            outcome=StageOutcome.BLOCKED,
            attempt=None,
            block=BlockReason.TOOLCHAIN,
            detail="go >=1.22; node >=20",
        )
        for node in ("a", "b")
    )


# --- the run ------------------------------------------------------------------------------------------

S = StageOutcome
OUTCOMES = [
    ((S.FAILED,), RunOutcome.FAILED),
    ((S.BLOCKED,), RunOutcome.BLOCKED),
    ((S.CODE_CONFLICT,), RunOutcome.FAILED),
    ((S.CANCELLED,), RunOutcome.FAILED),
    ((S.BLOCKED, S.SKIPPED), RunOutcome.BLOCKED),
    ((S.BLOCKED, S.FAILED), RunOutcome.FAILED),
    ((S.CODE_CONFLICT, S.SKIPPED), RunOutcome.FAILED),
    ((S.BLOCKED, S.CODE_CONFLICT), RunOutcome.FAILED),
]


@pytest.mark.parametrize("outcomes,expected", OUTCOMES)
def test_how_a_run_ends(outcomes: tuple[StageOutcome, ...], expected: RunOutcome) -> None:
    skipped = [outcome is StageOutcome.SKIPPED for outcome in outcomes]
    chain = Chain(*(plan(f"n{position}", needs=["n0"] * skips) for position, skips in enumerate(skipped)))
    for position, outcome in enumerate(outcomes):
        need = "n0" if skipped[position] else None
        chain.of_stage(f"n{position}", None, stage_finished(outcome, dependency=need))
    assert run_outcome(chain.state) is expected
    assert due(chain) == (FinishRun(outcome=expected),)
    assert due(chain, "n0") == (), "a performer is still at work"
    chain.of_run(CANCELLED)
    assert due(chain) == (FinishRun(outcome=RunOutcome.CANCELLED),)


def test_a_run_whose_stages_all_succeeded_succeeds() -> None:
    chain = after(*FROZEN, arbitration_decided())
    chain.of_stage("build", None, stage_finished(StageOutcome.SUCCEEDED))
    assert due(chain) == (FinishRun(outcome=RunOutcome.SUCCEEDED),)
    chain.of_run(run_finished(RunOutcome.SUCCEEDED))
    assert due(chain) == ()


def test_nothing_is_due_before_the_start() -> None:
    assert due(Chain()) == ()


def park(reason: ParkReason) -> ParkRun:
    return ParkRun(reason=reason, detail=f"the run reached its limit of {reason}")


def test_a_run_at_a_ceiling_parks_once_nobody_is_busy() -> None:
    chain = Chain(plan("build"), within=limits(tokens=10))
    chain.of_stage("build", 1, attempt_started(), turn_started(1))
    chain.of_stage("build", 1, BudgetReserved(reservation=1, amounts=Amounts(tokens=10)))
    assert due(chain, "build") == ()
    assert due(chain) == (park(ParkReason.TOKENS),)
    chain.of_run(RunParked(reason=ParkReason.TOKENS, detail=""))
    assert due(chain) == ()
    chain.of_run(run_resumed())
    assert due(chain) == (park(ParkReason.TOKENS),), "nothing was added"
    chain.of_run(RunParked(reason=ParkReason.TOKENS, detail=""), run_resumed(tokens=1))
    assert due(chain) == (turn(2, 1),)


def test_a_run_that_is_done_ends_rather_than_parks() -> None:
    chain = Chain(plan("build"))
    chain.of_stage("build", None, stage_finished(StageOutcome.FAILED))
    effects = decide(chain.state, START_US + 2 * HOUR_US)
    assert effects == (FinishRun(outcome=RunOutcome.FAILED),)


def test_a_run_does_not_end_over_a_question_that_waits_for_a_person() -> None:
    chain = Chain(plan("build"))
    chain.append([fitting(StepKind.APPROVAL_REQUESTED, chain.state, "build")])
    chain.of_stage("build", None, stage_finished(StageOutcome.FAILED))
    assert due(chain) == ()
    chain.of_run(ApprovalWithdrawn(request=1, reason="its stage is finished"))
    assert due(chain) == (FinishRun(outcome=RunOutcome.FAILED),)


def unknown_outside() -> Chain:
    chain = Chain(plan("build"), plan("other", needs=["build"]))
    called = (attempt_started(), turn_started(1), tool_called(1, Locality.EXTERNAL))
    chain.of_stage("build", 1, *called, EffectUnknown(call=1, locality=Locality.EXTERNAL))
    return chain


def test_an_outside_call_whose_outcome_is_unknown_parks_the_run_until_a_person_says() -> None:
    chain = unknown_outside()
    detail = "the outcome of call 1 of build is unknown"
    asked = ParkRun(reason=ParkReason.UNKNOWN_OUTCOME, detail=detail)
    assert due(chain) == (asked,)
    parked = RunParked(reason=ParkReason.UNKNOWN_OUTCOME, detail=detail)
    chain.of_run(parked, run_resumed())
    assert due(chain) == (asked,), "nobody has said"
    chain.of_run(parked)
    chain.of_stage("build", 1, tool_returned(1))
    chain.of_run(run_resumed())
    assert due(chain) == (REVISION,)


def test_what_can_go_on_goes_on_before_a_run_parks_over_an_unknown_outcome() -> None:
    chain = Chain(plan("build"), plan("other"))
    called = (attempt_started(), turn_started(1), tool_called(1, Locality.EXTERNAL))
    chain.of_stage("build", 1, *called, EffectUnknown(call=1, locality=Locality.EXTERNAL))
    assert due(chain) == prepare("other")
    assert due(chain, "other") == ()


def test_a_cancelled_run_does_not_wait_for_an_unknown_outcome() -> None:
    chain = unknown_outside()
    chain.of_run(CANCELLED)
    assert due(chain)[0] == fail(AttemptFailure.CANCELLED, "the run was cancelled")


CANCELLING: list[tuple[str, tuple[Payload, ...], Effect]] = [
    ("nothing began", (), finish(StageOutcome.CANCELLED, attempt=None)),
    ("started", (attempt_started(),), fail(AttemptFailure.CANCELLED, "the run was cancelled")),
    ("the call has no result", CALLING, CLOSE),
    ("the call was closed", (*CALLING, UNKNOWN), fail(AttemptFailure.CANCELLED, "the run was cancelled")),
    (
        "the command passed",
        (*CALLING, tool_returned(1)),
        fail(AttemptFailure.CANCELLED, "the run was cancelled"),
    ),
    ("the gate passed", GATE_PASSED, fail(AttemptFailure.CANCELLED, "the run was cancelled")),
    ("validated", validated(), fail(AttemptFailure.CANCELLED, "the run was cancelled")),
    (
        "failed",
        (*CALLING, AttemptFailed(reason=AttemptFailure.TIMED_OUT, detail="timed out")),
        finish(StageOutcome.CANCELLED),
    ),
    ("frozen and accepted", (*FROZEN, arbitration_decided()), finish(StageOutcome.SUCCEEDED)),
    (
        "frozen and refused",
        (*FROZEN, arbitration_decided(VerificationStatus.FAIL)),
        finish(StageOutcome.FAILED, detail="verification refused the attempt"),
    ),
]


@pytest.mark.parametrize(
    "payloads,effect", [line[1:] for line in CANCELLING], ids=[line[0] for line in CANCELLING]
)
def test_what_is_due_for_an_attempt_of_a_cancelled_run(payloads: tuple[Payload, ...], effect: Effect) -> None:
    chain = after(*payloads)
    chain.of_run(CANCELLED)
    assert due(chain) == (effect,)
    assert due(chain, "build") == ()


def test_a_cancelled_run_ends_every_stage_at_once() -> None:
    stages: tuple[StagePlan, ...] = (plan("a"), plan("b", needs=["a"]), plan("c"))
    chain = Chain(*stages, within=limits(parallel=1))
    chain.of_run(CANCELLED)
    assert [effect.node for effect in due(chain) if isinstance(effect, FinishStage)] == ["a", "b", "c"]
