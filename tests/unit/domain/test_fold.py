"""Folding: position in the chain, whole batches or nothing, and facts of the run itself."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from fusiond.domain.errors import IllegalStepError
from fusiond.domain.fold import admit, apply, fold
from fusiond.domain.ids import RunId
from fusiond.domain.state import RunState
from fusiond.domain.steps.after import Archived, Compensated, ContentErased, KnowledgeRecorded
from fusiond.domain.steps.attempt import StageOutcome
from fusiond.domain.steps.kinds import StepKind
from fusiond.domain.steps.people import ApprovalDecided, ApprovalRequested, ApprovalWithdrawn
from fusiond.domain.steps.record import Head, Step
from fusiond.domain.steps.run import (
    ParkReason,
    ResumeCause,
    RunCancelled,
    RunOutcome,
    RunParked,
    RunResumed,
    StagePlan,
)
from fusiond.domain.transitions import RunPhase, StagePhase
from tests.fakes.chains import RUN, START_US, Chain, new_step, place
from tests.fakes.fitting import fitting
from tests.fakes.payloads import (
    arbitration_decided,
    artifacts_validated,
    attempt_frozen,
    attempt_started,
    commit,
    digest,
    limits,
    plan,
    revision_recorded,
    run_finished,
    run_resumed,
    run_started,
    stage_finished,
    tool_called,
    tool_returned,
    tree,
    turn_started,
)

PARKED = RunParked(reason=ParkReason.TOKENS, detail="the run reached its limit of tokens")
CANCELLED = RunCancelled(by="someone", reason="")


UNTIL_ACCEPTED = (
    attempt_started(),
    turn_started(1),
    tool_called(1),
    tool_returned(1),
    revision_recorded(1),
    artifacts_validated(1),
    attempt_frozen(),
    arbitration_decided(),
)
"""All steps of a first attempt without gates that goes well."""


# --- the chain ----------------------------------------------------------------------------------------


def test_nothing_folds_to_a_run_that_was_created() -> None:
    state = fold(RUN, [])
    assert state == RunState(run=RUN)
    assert (state.phase, state.head, dict(state.stages)) == (RunPhase.CREATED, Head(), {})


def test_the_head_is_the_newest_step() -> None:
    chain = Chain(plan())
    chain.of_stage("build", 1, attempt_started(), at_us=START_US + 5)
    assert chain.state.head == Head(seq=2, hash=chain.steps[-1].hash)
    assert (chain.state.started_us, chain.state.last_us) == (START_US, START_US + 5)


@pytest.mark.parametrize(
    "misplace,found",
    [
        (lambda step: replace(step, run=RunId("01hzy3v8k00ac")), "a step of run 01hzy3v8k00ac"),
        (lambda step: replace(step, seq=step.seq + 1), "step 3 after step 1"),
        (lambda step: replace(step, seq=step.seq - 1), "step 1 after step 1"),
        (lambda step: replace(step, prev_hash=digest("another step")), "step 2 follows"),
    ],
)
def test_a_step_that_does_not_follow_is_refused(misplace: Callable[[Step], Step], found: str) -> None:
    chain = Chain(plan())
    step = place(chain.state, new_step(attempt_started(), "build", 1))
    with pytest.raises(IllegalStepError, match=found):
        apply(chain.state, misplace(step))
    assert apply(chain.state, step).head.seq == 2


def test_a_repeated_step_is_refused() -> None:
    chain = Chain(plan())
    with pytest.raises(IllegalStepError):
        apply(chain.state, chain.steps[-1])


def test_a_clock_that_was_set_back_does_not_move_the_newest_time_back() -> None:
    chain = Chain(plan())
    chain.of_stage("build", 1, attempt_started(), at_us=START_US - 1_000_000)
    assert chain.state.last_us == START_US


def test_admit_is_apply_without_the_hash() -> None:
    chain = Chain(plan())
    steps = [new_step(attempt_started(), "build", 1), new_step(turn_started(1), "build", 1)]
    admitted = admit(chain.state, steps)
    assert admitted.head == Head(seq=3, hash=chain.state.head.hash)
    assert replace(admitted, head=chain.append(steps).head) == chain.state


def test_a_batch_is_admitted_whole_or_not_at_all() -> None:
    chain = Chain(plan())
    steps = [new_step(attempt_started(), "build", 1), new_step(turn_started(2), "build", 1)]
    with pytest.raises(IllegalStepError, match="turn 2"):
        admit(chain.state, steps)
    assert chain.state == fold(RUN, chain.steps)


# --- the run ------------------------------------------------------------------------------------------


def test_a_started_run_has_what_was_pinned() -> None:
    started = run_started(plan("a"), plan("b", needs=["a"]), within=limits(parallel=7))
    state = Chain().of_run(started)
    assert (state.phase, state.started, state.limits) == (RunPhase.RUNNING, started, started.limits)
    assert list(state.stages) == ["a", "b"]
    assert all(stage.phase is StagePhase.WAITING for stage in state.stages.values())


@pytest.mark.parametrize(
    "stages,found",
    [
        ((), "empty or named twice"),
        ((plan("a"), plan("a")), "empty or named twice"),
        ((plan("a", needs=["b"]),), "a needs \\['b'\\]"),
        ((plan("a", needs=["a"]),), "a needs \\['a'\\]"),
        ((plan("a", needs=["b"]), plan("b", needs=["a"])), "a needs \\['b'\\]"),
        ((plan("a", needs=["b"]), plan("b")), "a needs \\['b'\\]"),
    ],
)
def test_stages_that_are_in_no_order_are_refused(stages: tuple[StagePlan, ...], found: str) -> None:
    with pytest.raises(IllegalStepError, match=found):
        Chain().of_run(run_started(*stages))


def test_a_run_in_which_nothing_may_run_is_refused() -> None:
    with pytest.raises(IllegalStepError, match="no stage may run"):
        Chain().of_run(replace(run_started(plan(), within=limits(parallel=0)), cores=0))


def test_a_parked_run_says_what_it_waits_for_until_it_is_resumed() -> None:
    chain = Chain(plan())
    state = chain.of_run(PARKED, at_us=START_US + 9)
    assert (state.phase, state.park_reason, state.park_detail) == (
        RunPhase.PARKED,
        ParkReason.TOKENS,
        "the run reached its limit of tokens",
    )
    assert state.waiting_since_us == START_US + 9
    state = chain.of_run(run_resumed())
    assert (state.phase, state.park_reason, state.park_detail, state.waiting_since_us) == (
        RunPhase.RUNNING,
        None,
        "",
        None,
    )


def test_a_run_that_is_cancelled_while_parked_waits_for_nothing_more() -> None:
    chain = Chain(plan())
    chain.of_run(PARKED)
    state = chain.of_run(CANCELLED)
    assert (state.phase, state.park_reason, state.park_detail) == (RunPhase.CANCELLING, None, "")


def test_a_restart_does_not_resume_a_parked_run() -> None:
    chain = Chain(plan())
    chain.of_run(PARKED)
    with pytest.raises(IllegalStepError, match="a restart resumed a parked run"):
        chain.of_run(run_resumed(ResumeCause.RESTART))


def test_a_person_widens_the_limits_that_there_are() -> None:
    chain = Chain(plan(), within=limits(wall_clock_us=100, tokens=10, tool_calls=1))
    chain.of_run(PARKED)
    widened = chain.of_run(run_resumed(wall_clock_us=1, tokens=2, cost_uusd=3, tool_calls=4)).limits
    assert widened == limits(wall_clock_us=101, tokens=12, cost_uusd=None, tool_calls=5)
    assert chain.state.started is not None
    assert chain.state.started.limits.tokens == 10


@pytest.mark.parametrize(
    "narrowing",
    [
        run_resumed(wall_clock_us=-1),
        run_resumed(tokens=-1),
        run_resumed(cost_uusd=-1),
        run_resumed(tool_calls=-1, tokens=5),
        run_resumed(ResumeCause.RESTART, tokens=1),
    ],
)
def test_limits_only_widen_and_only_by_a_person(narrowing: RunResumed) -> None:
    chain = Chain(plan(), within=limits(tokens=10, cost_uusd=10, tool_calls=10))
    with pytest.raises(IllegalStepError):
        chain.of_run(narrowing)


def test_a_run_does_not_finish_before_its_stages() -> None:
    chain = Chain(plan("a"), plan("b"))
    chain.of_stage("a", None, stage_finished(StageOutcome.FAILED))
    with pytest.raises(IllegalStepError, match="run_finished while b is waiting"):
        chain.of_run(run_finished(RunOutcome.FAILED))


@pytest.mark.parametrize(
    "outcome,phase", [(RunOutcome.FAILED, RunPhase.FAILED), (RunOutcome.BLOCKED, RunPhase.FAILED)]
)
def test_a_run_that_did_not_succeed_is_over_as_failed(outcome: RunOutcome, phase: RunPhase) -> None:
    chain = Chain(plan())
    chain.of_stage("build", None, stage_finished(StageOutcome.FAILED))
    state = chain.of_run(run_finished(outcome))
    assert (state.phase, state.outcome, state.result_commit) == (phase, outcome, None)


@pytest.mark.parametrize("outcome", [RunOutcome.SUCCEEDED, RunOutcome.CANCELLED])
def test_a_run_claims_no_outcome_that_it_does_not_have(outcome: RunOutcome) -> None:
    chain = Chain(plan())
    chain.of_stage("build", None, stage_finished(StageOutcome.FAILED))
    with pytest.raises(IllegalStepError):
        chain.of_run(run_finished(outcome))


@pytest.mark.parametrize("outcome", [each for each in RunOutcome if each is not RunOutcome.CANCELLED])
def test_a_cancelled_run_ends_as_cancelled(outcome: RunOutcome) -> None:
    chain = Chain(plan())
    chain.of_run(CANCELLED)
    chain.of_stage("build", None, stage_finished(StageOutcome.CANCELLED))
    with pytest.raises(IllegalStepError, match="while cancelling"):
        chain.of_run(run_finished(outcome))
    state = chain.of_run(run_finished(RunOutcome.CANCELLED))
    assert (state.phase, state.outcome) == (RunPhase.CANCELLED, RunOutcome.CANCELLED)


def test_code_that_does_not_merge_is_no_success() -> None:
    chain = Chain(plan())
    chain.of_stage("build", 1, *UNTIL_ACCEPTED)
    chain.of_stage("build", None, stage_finished(StageOutcome.SUCCEEDED))
    with pytest.raises(IllegalStepError, match="success claimed"):
        chain.of_run(run_finished(RunOutcome.SUCCEEDED, conflict_paths=("a.txt",)))
    state = chain.of_run(run_finished(RunOutcome.FAILED, conflict_paths=("a.txt",)))
    assert (state.phase, state.conflict_paths) == (RunPhase.FAILED, ("a.txt",))


def test_a_run_whose_stages_all_succeeded_may_succeed() -> None:
    chain = Chain(plan())
    chain.of_stage("build", 1, *UNTIL_ACCEPTED)
    chain.of_stage("build", None, stage_finished(StageOutcome.SUCCEEDED))
    state = chain.of_run(run_finished(RunOutcome.SUCCEEDED))
    assert (state.phase, state.outcome) == (RunPhase.FINISHED, RunOutcome.SUCCEEDED)
    assert (state.result_tree, state.result_commit) == (tree("result"), commit("result"))


def test_what_follows_the_end_extends_the_record_and_changes_no_outcome() -> None:
    chain = Chain(plan())
    chain.of_stage("build", None, stage_finished(StageOutcome.FAILED))
    ended = chain.of_run(run_finished(RunOutcome.FAILED))
    after = chain.of_run(
        ContentErased(digests=(digest("a"), digest("b")), by="someone", reason="private"),
        ContentErased(digests=(digest("b"), digest("c")), by="someone", reason="private"),
        Archived(manifest=digest("manifest"), workspace="intact"),
        KnowledgeRecorded(increment=digest("increment")),
        Compensated(call=1, tool="write", by="someone"),
    )
    assert after.erased == {digest("a"), digest("b"), digest("c")}
    assert after.archived
    assert not ended.archived
    assert (after.phase, after.outcome, after.stages) == (ended.phase, ended.outcome, ended.stages)


# --- questions to people ------------------------------------------------------------------------------


def ask(chain: Chain, node: str | None = None) -> RunState:
    return chain.append([fitting(StepKind.APPROVAL_REQUESTED, chain.state, node)])


def answer(chain: Chain, request: int, node: str | None = None) -> RunState:
    step = fitting(StepKind.APPROVAL_DECIDED, chain.state, node)
    assert isinstance(step.payload, ApprovalDecided)
    return chain.append([replace(step, payload=replace(step.payload, request=request))])


@pytest.mark.parametrize("node", [None, "build"])
def test_a_run_waits_until_every_question_is_answered_once(node: str | None) -> None:
    chain = Chain(plan("build"))
    ask(chain, node)
    state = ask(chain, node)
    assert (state.phase, state.pending_approvals, state.requests) == (RunPhase.AWAITING_APPROVAL, (1, 2), 2)
    state = answer(chain, 2, node)
    assert (state.phase, state.pending_approvals) == (RunPhase.AWAITING_APPROVAL, (1,))
    with pytest.raises(IllegalStepError, match="request 2, which is not pending"):
        answer(chain, 2, node)
    state = answer(chain, 1, node)
    assert (state.phase, state.pending_approvals, state.requests) == (RunPhase.RUNNING, (), 2)


def test_questions_are_numbered_for_ever() -> None:
    chain = Chain(plan())
    ask(chain)
    answer(chain, 1)
    assert ask(chain).pending_approvals == (2,)
    step = fitting(StepKind.APPROVAL_REQUESTED, chain.state, None)
    assert isinstance(step.payload, ApprovalRequested)
    with pytest.raises(IllegalStepError, match="request 2"):
        chain.append([replace(step, payload=replace(step.payload, request=2))])


def test_a_question_that_got_old_is_still_open() -> None:
    chain = Chain(plan())
    ask(chain)
    state = chain.append([fitting(StepKind.APPROVAL_EXPIRED, chain.state, None)])
    assert (state.phase, state.pending_approvals) == (RunPhase.AWAITING_APPROVAL, (1,))


def test_a_question_survives_a_park() -> None:
    chain = Chain(plan())
    ask(chain)
    ask(chain)
    chain.of_run(PARKED)
    assert answer(chain, 1).phase is RunPhase.PARKED
    assert chain.of_run(run_resumed()).phase is RunPhase.AWAITING_APPROVAL
    assert answer(chain, 2).phase is RunPhase.RUNNING


def test_answered_while_parked_a_run_goes_on_at_once() -> None:
    chain = Chain(plan())
    ask(chain)
    chain.of_run(PARKED)
    answer(chain, 1)
    assert chain.of_run(run_resumed()).phase is RunPhase.RUNNING


def test_a_question_may_be_withdrawn_wherever_it_waits() -> None:
    for stopped in (None, PARKED, CANCELLED):
        chain = Chain(plan())
        ask(chain)
        if stopped is not None:
            chain.of_run(stopped)
        state = chain.of_run(ApprovalWithdrawn(request=1, reason="its attempt is over"))
        assert state.pending_approvals == ()
        assert state.phase in (RunPhase.RUNNING, RunPhase.PARKED, RunPhase.CANCELLING)


def test_no_question_outlives_its_run() -> None:
    chain = Chain(plan())
    ask(chain, "build")
    chain.of_run(CANCELLED)
    chain.of_stage("build", None, stage_finished(StageOutcome.CANCELLED))
    assert chain.of_run(run_finished(RunOutcome.CANCELLED)).pending_approvals == ()
