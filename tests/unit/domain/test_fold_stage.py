"""Folding the steps of stages and attempts: numbers, rounds, gates and digests must be the expected ones."""

import pytest

from fusiond.domain.artifacts import ProblemCode
from fusiond.domain.errors import IllegalStepError
from fusiond.domain.gates import ProcessOutcome
from fusiond.domain.ids import AttemptNumber, NodeId
from fusiond.domain.labels import Label
from fusiond.domain.state import AttemptState, StageState
from fusiond.domain.steps.attempt import (
    AttemptFailed,
    AttemptFailure,
    BlockReason,
    StageFinished,
    StageOutcome,
)
from fusiond.domain.steps.judgement import RerunCause
from fusiond.domain.steps.record import Payload
from fusiond.domain.steps.turn import (
    Amounts,
    BudgetReconciled,
    BudgetReserved,
    EffectUnknown,
    LabelsAdded,
    Locality,
    OutputRef,
)
from fusiond.domain.transitions import AttemptPhase, StagePhase
from fusiond.domain.verification import VerificationStatus
from tests.fakes.chains import START_US, Chain
from tests.fakes.payloads import (
    arbitration_decided,
    artifacts_validated,
    attempt_frozen,
    attempt_started,
    content,
    digest,
    gate_finished,
    gate_started,
    plan,
    rerun_requested,
    revision_recorded,
    stage_finished,
    tool_called,
    tool_returned,
    tree,
    turn_started,
    verification_recorded,
)

FAILED = AttemptFailed(reason=AttemptFailure.TIMED_OUT, detail="timed out")
TURN: tuple[Payload, ...] = (attempt_started(), turn_started(1), tool_called(1), tool_returned(1))
JUDGING = (*TURN, revision_recorded(1))
BOTH_GATES = (
    *JUDGING,
    gate_started("lint", 1),
    gate_finished("lint", 1),
    gate_started("unit", 1),
    gate_finished("unit", 1),
)
FROZEN = (*BOTH_GATES, artifacts_validated(1), attempt_frozen())


def after(*payloads: Payload) -> Chain:
    """Return a run of one stage with the gates lint and unit after these steps of attempt 1."""
    chain = Chain(plan("build", gates=["lint", "unit"], attempts=3))
    chain.of_stage("build", 1, *payloads)
    return chain


def stage(chain: Chain, node: str = "build") -> StageState:
    return chain.state.stages[NodeId(node)]


def attempt(chain: Chain) -> AttemptState:
    latest = stage(chain).latest
    assert latest is not None
    return latest


def refuses(chain: Chain, payload: Payload, found: str, *, number: int | None = 1) -> None:
    before = chain.state
    with pytest.raises(IllegalStepError, match=found):
        chain.of_stage("build", number, payload)
    assert chain.state == before


# --- attempts -----------------------------------------------------------------------------------------


def test_an_attempt_begins_with_what_it_starts_from() -> None:
    chain = Chain(plan())
    chain.of_stage("build", 1, attempt_started(), at_us=START_US + 3)
    assert stage(chain).phase is StagePhase.ACTIVE
    assert (attempt(chain).phase, attempt(chain).started_us) == (AttemptPhase.READY, START_US + 3)
    assert (attempt(chain).start_tree, attempt(chain).turn, attempt(chain).round) == (tree("base"), 0, 0)


@pytest.mark.parametrize("number", [None, 0, 2])
def test_the_first_attempt_is_number_one(number: int | None) -> None:
    refuses(Chain(plan()), attempt_started(), f"attempt {number} of build", number=number)


def test_a_further_attempt_follows_a_failed_one_only() -> None:
    chain = after(*TURN)
    refuses(chain, attempt_started(), "attempt 2 while attempt 1 is turn", number=2)
    chain.of_stage("build", 1, FAILED)
    refuses(chain, attempt_started(), "attempt 1 of build", number=1)
    refuses(chain, attempt_started(), "attempt 3 of build", number=3)
    chain.of_stage("build", 2, attempt_started())
    assert [each.phase for each in stage(chain).attempts] == [AttemptPhase.FAILED, AttemptPhase.READY]
    assert attempt(chain).turn == 0


def test_steps_of_an_earlier_attempt_are_refused() -> None:
    chain = after(*TURN, FAILED)
    chain.of_stage("build", 2, attempt_started())
    for number in (None, 1, 3):
        refuses(chain, turn_started(1), f"turn_started of attempt {number}", number=number)


def test_a_stage_starts_only_after_all_that_it_needs() -> None:
    chain = Chain(plan("a"), plan("b"), plan("build", needs=["a", "b"]))
    refuses(chain, attempt_started(), "build started before a succeeded")
    for node, outcome in (("a", StageOutcome.FAILED), ("b", StageOutcome.BLOCKED)):
        chain.of_stage(node, None, stage_finished(outcome))
        refuses(chain, attempt_started(), "build started before a succeeded")


def test_a_failed_attempt_says_why() -> None:
    output = OutputRef(content=content("output of setup"), total_bytes=15)
    broken = AttemptFailed(reason=AttemptFailure.SETUP_FAILED, detail="exit code 1", output=output)
    chain = after(attempt_started())
    chain.of_stage("build", 1, broken, at_us=START_US + 8)
    failed = attempt(chain)
    assert (failed.failure, failed.detail) == (AttemptFailure.SETUP_FAILED, "exit code 1")
    assert (failed.failure_output, failed.ended_us) == (output, START_US + 8)


# --- turns --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turn", [0, 2])
def test_turns_are_numbered(turn: int) -> None:
    refuses(after(attempt_started()), turn_started(turn), f"turn {turn}")
    refuses(after(*TURN), turn_started(turn + 1), f"turn {turn + 1}")


def test_calls_are_numbered_over_the_whole_attempt() -> None:
    chain = after(*TURN, turn_started(2))
    for call in (0, 1, 3):
        refuses(chain, tool_called(call), f"call {call}")
    chain.of_stage("build", 1, tool_called(2))
    for call in (1, 3):
        refuses(chain, tool_returned(call), f"result of call {call}")
        unknown = EffectUnknown(call=call, locality=Locality.LOCAL)
        refuses(chain, unknown, f"unknown outcome of call {call}")


def test_a_command_is_open_until_it_returns() -> None:
    chain = after(attempt_started(), turn_started(1), tool_called(1))
    opened = attempt(chain).open_call
    assert opened is not None
    assert (opened.call, opened.tool, opened.locality) == (1, "command", Locality.LOCAL)
    chain.of_stage("build", 1, tool_returned(1, ProcessOutcome.FAILED))
    ended = attempt(chain).command
    assert ended is not None
    assert (attempt(chain).open_call, ended.outcome, ended.exit_code) == (None, ProcessOutcome.FAILED, 1)


def test_a_call_whose_outcome_is_unknown_stays_open_until_a_person_says() -> None:
    chain = after(attempt_started(), turn_started(1), tool_called(1, Locality.EXTERNAL))
    chain.of_stage("build", 1, EffectUnknown(call=1, locality=Locality.EXTERNAL))
    assert attempt(chain).phase is AttemptPhase.UNKNOWN
    assert attempt(chain).open_call is not None
    chain.of_stage("build", 1, tool_returned(1))
    assert (attempt(chain).phase, attempt(chain).open_call) == (AttemptPhase.TURN, None)


def test_a_further_turn_forgets_how_the_one_before_ended() -> None:
    chain = after(*TURN, turn_started(2))
    assert (attempt(chain).turn, attempt(chain).command, attempt(chain).calls) == (2, None, 1)


def test_a_repairing_turn_forgets_what_it_is_to_repair() -> None:
    failed = (gate_started("lint", 1), gate_finished("lint", 1, ProcessOutcome.FAILED))
    chain = after(*JUDGING, *failed, rerun_requested(1))
    assert attempt(chain).failed_gate is not None
    chain.of_stage("build", 1, turn_started(2))
    assert attempt(chain).failed_gate is None
    wrong = artifacts_validated(1, problems=(ProblemCode.SCHEMA,))
    chain = after(*BOTH_GATES, wrong, rerun_requested(1, RerunCause.CONTRACT))
    assert attempt(chain).problems == (ProblemCode.SCHEMA,)
    chain.of_stage("build", 1, turn_started(2))
    assert attempt(chain).problems is None


def test_reservations_are_the_runs() -> None:
    chain = after(attempt_started(), turn_started(1))
    chain.of_stage("build", 1, BudgetReserved(reservation=1, amounts=Amounts(tokens=5)))
    again = BudgetReserved(reservation=1, amounts=Amounts(tokens=5))
    refuses(chain, again, "reservation 1 is open already")
    chain.of_stage("build", 1, FAILED)
    assert chain.state.spending.total == Amounts(tokens=5)
    chain.of_stage("build", 2, attempt_started(), turn_started(1))
    settled = BudgetReconciled(reservation=1, amounts=Amounts(tokens=3), estimated=False)
    chain.of_stage("build", 2, settled)
    assert chain.state.spending.total == Amounts(tokens=3)
    refuses(chain, settled, "reservation 1 is not open", number=2)


def test_labels_gather_on_the_stage() -> None:
    chain = after(attempt_started(), turn_started(1))
    for label in (Label.UNTRUSTED, Label.SECRET):
        chain.of_stage("build", 1, LabelsAdded(labels=frozenset({label}), origin="web"))
    assert stage(chain).labels == {Label.UNTRUSTED, Label.SECRET}


# --- gates --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 2])
def test_rounds_are_numbered(number: int) -> None:
    refuses(after(*TURN), revision_recorded(number), f"round {number}")


def test_gates_run_in_the_declared_order() -> None:
    chain = after(*JUDGING)
    refuses(chain, gate_started("unit", 1), "gate unit")
    refuses(chain, gate_started("scan", 1), "gate scan")
    chain.of_stage("build", 1, gate_started("lint", 1), gate_finished("lint", 1))
    refuses(chain, gate_started("lint", 1), "gate lint")
    chain.of_stage("build", 1, gate_started("unit", 1), gate_finished("unit", 1))
    assert attempt(chain).passed == ("lint", "unit")
    refuses(chain, gate_started("unit", 1), "gate unit")


def test_a_gate_belongs_to_the_round_under_way() -> None:
    chain = after(*JUDGING)
    for number in (0, 2):
        refuses(chain, gate_started("lint", number), f"gate round {number}")
    chain.of_stage("build", 1, gate_started("lint", 1))
    refuses(chain, gate_finished("lint", 2), "gate round 2")


def test_a_gate_ends_only_after_it_started() -> None:
    chain = after(*JUDGING)
    refuses(chain, gate_finished("lint", 1), "gate lint finished")
    chain.of_stage("build", 1, gate_started("lint", 1), gate_finished("lint", 1))
    refuses(chain, gate_finished("unit", 1), "gate unit finished")


def test_a_gate_may_start_again_after_a_crash() -> None:
    chain = after(*JUDGING, gate_started("lint", 1), gate_started("lint", 1), gate_finished("lint", 1))
    assert attempt(chain).passed == ("lint",)


def test_the_first_failure_stops_the_round() -> None:
    chain = after(*JUDGING, gate_started("lint", 1), gate_finished("lint", 1, ProcessOutcome.FAILED))
    failed = attempt(chain).failed_gate
    assert failed is not None
    assert (failed.gate, failed.round, failed.ended.exit_code) == ("lint", 1, 1)
    refuses(chain, gate_started("lint", 1), "gate lint")
    refuses(chain, gate_started("unit", 1), "gate unit")


def test_a_gate_that_was_stopped_has_said_nothing_and_is_due_again() -> None:
    chain = after(*JUDGING, gate_started("lint", 1), gate_finished("lint", 1, ProcessOutcome.CANCELLED))
    assert (attempt(chain).failed_gate, attempt(chain).passed) == (None, ())
    refuses(chain, gate_finished("lint", 1), "gate lint finished")
    chain.of_stage("build", 1, gate_started("lint", 1), gate_finished("lint", 1))
    assert attempt(chain).passed == ("lint",)


def test_a_further_round_judges_everything_again() -> None:
    chain = after(*BOTH_GATES, artifacts_validated(1, problems=(ProblemCode.SUMMARY_MISSING,)))
    chain.of_stage("build", 1, rerun_requested(1, RerunCause.CONTRACT), turn_started(2))
    chain.of_stage("build", 1, tool_called(2), tool_returned(2), revision_recorded(2, "repaired code"))
    again = attempt(chain)
    assert (again.round, again.passed, again.failed_gate, again.problems) == (2, (), None, None)
    assert (again.tree, again.outputs) == (tree("repaired code"), digest("outputs of repaired code"))
    assert [(each.gate, each.round) for each in again.last_gates] == [("lint", 1), ("unit", 1)]
    refuses(chain, artifacts_validated(2, "repaired code"), "validated after gates \\[\\]")
    chain.of_stage("build", 1, gate_started("lint", 2), gate_finished("lint", 2))
    assert [(each.gate, each.round) for each in attempt(chain).last_gates] == [("unit", 1), ("lint", 2)]


@pytest.mark.parametrize("number", [0, 2])
def test_reruns_are_numbered(number: int) -> None:
    chain = after(*JUDGING, gate_started("lint", 1), gate_finished("lint", 1, ProcessOutcome.FAILED))
    refuses(chain, rerun_requested(number), f"rerun {number}")


def test_a_rerun_hands_on_its_feedback() -> None:
    chain = after(*JUDGING, gate_started("lint", 1), gate_finished("lint", 1, ProcessOutcome.FAILED))
    chain.of_stage("build", 1, rerun_requested(1))
    again = attempt(chain)
    assert (again.phase, again.reruns, again.rerun_cause) == (AttemptPhase.READY, 1, RerunCause.GATE)
    assert again.feedback == content("feedback")


def test_a_rerun_ends_the_gate_that_was_open() -> None:
    chain = after(*JUDGING, gate_started("lint", 1), rerun_requested(1))
    assert attempt(chain).open_gate is None


# --- validation and freezing --------------------------------------------------------------------------


def test_nothing_is_validated_before_every_gate_passed() -> None:
    refuses(after(*JUDGING), artifacts_validated(1), "validated after gates \\[\\]")
    refuses(after(*BOTH_GATES[:-2]), artifacts_validated(1), "validated after gates \\['lint'\\]")
    failed = after(*BOTH_GATES[:-1], gate_finished("unit", 1, ProcessOutcome.FAILED))
    refuses(failed, artifacts_validated(1), "validated after gates \\['lint'\\]")
    assert attempt(after(*BOTH_GATES, artifacts_validated(1))).phase is AttemptPhase.VALIDATED


@pytest.mark.parametrize("number", [0, 2])
def test_a_validation_belongs_to_the_round_under_way(number: int) -> None:
    refuses(after(*BOTH_GATES), artifacts_validated(number), f"validation of round {number}")


def test_nothing_with_a_problem_is_frozen() -> None:
    chain = after(*BOTH_GATES, artifacts_validated(1, problems=(ProblemCode.SCHEMA,)))
    refuses(chain, attempt_frozen(), "frozen with problems")
    chain.of_stage("build", 1, artifacts_validated(1), attempt_frozen())
    assert attempt(chain).phase is AttemptPhase.FROZEN


def test_nothing_that_the_gates_did_not_judge_is_frozen() -> None:
    refuses(after(*BOTH_GATES, artifacts_validated(1, "other")), attempt_frozen(), "differ from what")
    refuses(after(*BOTH_GATES, artifacts_validated(1, "other")), attempt_frozen("other"), "differ from what")
    refuses(after(*BOTH_GATES, artifacts_validated(1)), attempt_frozen("other"), "differ from what")


def test_a_frozen_attempt_names_its_version() -> None:
    frozen = attempt(after(*FROZEN))
    assert (frozen.manifest, frozen.summary) == (digest("manifest"), digest("summary"))
    assert frozen.ended_us == START_US
    assert frozen.commit is not None


# --- the end of a stage -------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [verification_recorded(), arbitration_decided()])
def test_only_the_newest_frozen_attempt_is_judged(payload: Payload) -> None:
    refuses(after(*BOTH_GATES), payload, "of attempt 1")
    for number in (None, 2):
        refuses(after(*FROZEN), payload, f"of attempt {number}", number=number)


SUCCEEDED = stage_finished(StageOutcome.SUCCEEDED)


@pytest.mark.parametrize(
    "payloads",
    [
        (),
        (*TURN, FAILED),
        FROZEN,
        (*FROZEN, arbitration_decided(VerificationStatus.FAIL)),
        (*FROZEN, arbitration_decided(VerificationStatus.ESCALATE)),
    ],
)
def test_a_stage_succeeds_only_with_a_frozen_and_accepted_attempt(payloads: tuple[Payload, ...]) -> None:
    refuses(after(*payloads), SUCCEEDED, "without a frozen and accepted attempt", number=None)


def test_what_downstream_reads_is_the_frozen_attempt() -> None:
    chain = after(*TURN, FAILED)
    chain.of_stage("build", 2, *FROZEN, arbitration_decided())
    assert stage(chain).frozen is None
    chain.of_stage("build", None, SUCCEEDED, at_us=START_US + 4)
    frozen = stage(chain).frozen
    assert frozen is not None
    assert frozen.number == 2
    assert (stage(chain).phase, stage(chain).outcome, stage(chain).finished_us) == (
        StagePhase.FINISHED,
        StageOutcome.SUCCEEDED,
        START_US + 4,
    )


def test_a_refused_attempt_is_read_by_nobody() -> None:
    chain = after(*FROZEN, arbitration_decided(VerificationStatus.FAIL))
    chain.of_stage("build", None, stage_finished(StageOutcome.FAILED))
    assert stage(chain).frozen is None


@pytest.mark.parametrize("payloads", [TURN, JUDGING, BOTH_GATES])
def test_a_stage_does_not_finish_over_an_open_attempt(payloads: tuple[Payload, ...]) -> None:
    failed = stage_finished(StageOutcome.FAILED)
    refuses(after(*payloads), failed, "stage_finished while attempt 1 is", number=None)


def test_a_finished_stage_says_why_it_could_not() -> None:
    chain = Chain(plan("a"), plan("build", needs=["a"]), plan("c"))
    chain.of_stage("a", None, stage_finished(StageOutcome.CODE_CONFLICT))
    chain.of_stage("build", None, stage_finished(StageOutcome.SKIPPED, dependency="a"))
    chain.of_stage("c", None, stage_finished(StageOutcome.BLOCKED))
    conflict, skipped, blocked = chain.state.stages.values()
    assert (conflict.outcome, conflict.conflict_paths) == (StageOutcome.CODE_CONFLICT, ("shared.txt",))
    assert (skipped.outcome, skipped.dependency) == (StageOutcome.SKIPPED, "a")
    assert (blocked.outcome, blocked.block) == (StageOutcome.BLOCKED, BlockReason.STORAGE)


@pytest.mark.parametrize(
    "finished",
    [
        StageFinished(outcome=StageOutcome.SKIPPED, attempt=None),
        StageFinished(outcome=StageOutcome.SKIPPED, attempt=None, dependency=NodeId("c")),
        StageFinished(outcome=StageOutcome.SKIPPED, attempt=None, dependency=NodeId("d")),
        StageFinished(outcome=StageOutcome.BLOCKED, attempt=None),
        StageFinished(outcome=StageOutcome.FAILED, attempt=AttemptNumber(1)),
        StageFinished(outcome=StageOutcome.FAILED, attempt=None, block=BlockReason.STORAGE),
        StageFinished(outcome=StageOutcome.FAILED, attempt=None, conflict_paths=("a.txt",)),
    ],
)
def test_the_end_of_a_stage_says_what_belongs_to_its_outcome(finished: StageFinished) -> None:
    chain = Chain(plan("c"), plan("d"), plan("build", needs=["d"]))
    chain.of_stage("c", None, stage_finished(StageOutcome.FAILED))
    refuses(chain, finished, "build (is|skipped)", number=None)


def test_an_accepted_attempt_is_a_success() -> None:
    chain = after(*FROZEN, arbitration_decided())
    for outcome in StageOutcome:
        if outcome is not StageOutcome.SUCCEEDED:
            refuses(chain, stage_finished(outcome), f"build is {outcome}, with", number=None)


# --- what was never decided ---------------------------------------------------------------------------


def test_nothing_is_judged_before_anything_ran() -> None:
    refuses(after(attempt_started()), revision_recorded(1), "before anything ran")


@pytest.mark.parametrize("outcome", [each for each in ProcessOutcome if each is not ProcessOutcome.PASSED])
def test_nothing_is_judged_after_a_command_that_did_not_pass(outcome: ProcessOutcome) -> None:
    refuses(after(*TURN[:-1], tool_returned(1, outcome)), revision_recorded(1), "did not pass")


def test_a_failed_gate_is_judged_again_only_after_a_rerun() -> None:
    chain = after(*JUDGING, gate_started("lint", 1), gate_finished("lint", 1, ProcessOutcome.FAILED))
    refuses(chain, revision_recorded(2), "revision_recorded while the attempt is judging")


def test_no_rerun_goes_beyond_the_flows_limit() -> None:
    chain = after(*JUDGING)
    for number in (1, 2):
        chain.of_stage("build", 1, gate_started("lint", number))
        chain.of_stage("build", 1, gate_finished("lint", number, ProcessOutcome.FAILED))
        chain.of_stage("build", 1, rerun_requested(number), turn_started(number + 1))
        chain.of_stage("build", 1, tool_called(number + 1), tool_returned(number + 1))
        chain.of_stage("build", 1, revision_recorded(number + 1))
    chain.of_stage("build", 1, gate_started("lint", 3), gate_finished("lint", 3, ProcessOutcome.FAILED))
    refuses(chain, rerun_requested(3), "rerun 3")
