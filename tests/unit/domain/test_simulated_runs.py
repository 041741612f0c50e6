"""Whole runs, simulated: what must hold whatever commands, gates, machines and people do.

Every property is tried over random graphs, limits, scripts, interleavings and
events; see `tests/fakes/worlds.py` for what can happen.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusiond.domain.artifacts import ProblemCode
from fusiond.domain.decide import decide
from fusiond.domain.decide_attempt import MAX_INTERRUPTIONS
from fusiond.domain.effects import FinishRun, ParkRun
from fusiond.domain.fold import admit, apply, fold
from fusiond.domain.gates import ProcessOutcome
from fusiond.domain.ids import NodeId
from fusiond.domain.state import RunState
from fusiond.domain.steps.attempt import (
    AttemptFailed,
    AttemptFailure,
    AttemptFrozen,
    AttemptStarted,
    BlockReason,
    RevisionRecorded,
    StageFinished,
    StageOutcome,
)
from fusiond.domain.steps.judgement import ArtifactsValidated, RerunCause, RerunRequested, UnitGateFinished
from fusiond.domain.steps.kinds import StepKind
from fusiond.domain.steps.record import NewStep, Payload
from fusiond.domain.steps.run import ResumeCause, RunOutcome, RunResumed
from fusiond.domain.steps.turn import ToolReturned
from fusiond.domain.transitions import AttemptPhase, RunPhase, StagePhase
from tests.fakes.chains import RUN
from tests.fakes.payloads import HOUR_US, limits, plan
from tests.fakes.performances import UNCOUNTED, Place, Script
from tests.fakes.simulation import Event, Playbook
from tests.fakes.worlds import Events, World, bounded_worlds, events, worlds

RUN_EFFECTS = (ParkRun, FinishRun)
INTERRUPTIONS = (Event.CRASH, Event.LOSS, Event.DRAIN)

STARTS = {StepKind.ATTEMPT_STARTED, StepKind.TURN_STARTED, StepKind.UNIT_GATE_STARTED}

Watch = Callable[[Playbook], None]


def played(world: World, happening: Events, watch: Watch = lambda book: None) -> Playbook:
    book = world.book(watch)
    book.play(schedule=world.schedule, events=happening, bound=world.bound(happening))
    return book


# --- at every moment ----------------------------------------------------------------------------------


def no_more_stages_are_active_than_may_run_at_once(book: Playbook) -> None:
    active = [node for node, stage in book.state.stages.items() if stage.phase is StagePhase.ACTIVE]
    assert len(active) <= book.first_limits.parallel


def nothing_is_due_while_parked(book: Playbook) -> None:
    if book.state.phase is RunPhase.PARKED:
        assert not book.performing, "its processes end before it parks"
        assert decide(book.state, book.now_us) == ()
        assert decide(book.state, book.now_us + 1000 * HOUR_US) == ()


def the_wall_clock_is_the_time_that_was_worked(book: Playbook) -> None:
    assert book.state.wall_clock_us(book.now_us) == book.worked_us


def limits_are_those_at_the_start_and_what_resumes_added(book: Playbook) -> None:
    resumes = [step.payload for step in book.chain.steps if isinstance(step.payload, RunResumed)]
    first = book.first_limits
    assert book.state.limits == replace(
        first,
        wall_clock_us=first.wall_clock_us + sum(each.added_wall_clock_us for each in resumes),
        tokens=None if first.tokens is None else first.tokens + sum(each.added_tokens for each in resumes),
        cost_uusd=None
        if first.cost_uusd is None
        else first.cost_uusd + sum(each.added_cost_uusd for each in resumes),
        tool_calls=None
        if first.tool_calls is None
        else first.tool_calls + sum(each.added_tool_calls for each in resumes),
    )
    assert all(each.cause is ResumeCause.PERSON for each in resumes if each.added_wall_clock_us)


def decide_is_a_function_of_state_time_and_who_is_busy(book: Playbook) -> None:
    busy = sorted(book.performing)
    effects = decide(book.state, book.now_us, frozenset(busy))
    assert effects == decide(book.state, book.now_us, frozenset(reversed(busy)))
    nodes = [effect.node for effect in effects if not isinstance(effect, RUN_EFFECTS)]
    assert len(nodes) == len(set(nodes)), "two effects for one stage"
    assert not set(nodes) & set(busy), "an effect for a busy stage"
    if len(nodes) < len(effects):
        assert (len(effects), busy) == (1, []), "something beside an effect of the whole run"
    if not effects and not busy:
        assert book.state.phase.over or book.state.phase is RunPhase.PARKED


MOMENTS = (
    no_more_stages_are_active_than_may_run_at_once,
    nothing_is_due_while_parked,
    the_wall_clock_is_the_time_that_was_worked,
    limits_are_those_at_the_start_and_what_resumes_added,
    decide_is_a_function_of_state_time_and_who_is_busy,
)


@settings(max_examples=80)
@given(bounded_worlds, events())
def test_what_holds_at_every_moment(world: World, happening: Events) -> None:
    def watch(book: Playbook) -> None:
        for holds in MOMENTS:
            holds(book)

    played(world, happening, watch)


# --- in the end ---------------------------------------------------------------------------------------


def of_attempts(book: Playbook) -> dict[tuple[NodeId, int], list[Payload]]:
    """Return each attempt with the payloads of its steps, in order."""
    found: dict[tuple[NodeId, int], list[Payload]] = {}
    for step in book.chain.steps:
        if step.node is not None and step.attempt is not None:
            found.setdefault((step.node, step.attempt), []).append(step.payload)
    return found


def everything_is_over(book: Playbook) -> None:
    assert book.state.phase.over
    assert all(stage.phase is StagePhase.FINISHED for stage in book.state.stages.values())
    assert book.due() == ()


def reruns_stay_within_the_flows_limit(book: Playbook) -> None:
    for payloads in of_attempts(book).values():
        reruns = [each.number for each in payloads if isinstance(each, RerunRequested)]
        assert reruns == list(range(1, len(reruns) + 1))
        assert len(reruns) <= book.first_limits.repair_reruns


def attempts_stay_within_the_plan_interruptions_apart(book: Playbook) -> None:
    ends: dict[NodeId, list[AttemptFailure | None]] = {}
    for (node, number), payloads in of_attempts(book).items():
        failures = [each.reason for each in payloads if isinstance(each, AttemptFailed)]
        ends.setdefault(node, []).append(failures[0] if failures else None)
        assert len(failures) <= 1
        assert len(ends[node]) == number
    for node, failures_of in ends.items():
        counted = [reason for reason in failures_of if reason not in UNCOUNTED]
        assert len(counted) <= book.state.stages[node].plan.attempts
        assert len(failures_of) - len(counted) <= MAX_INTERRUPTIONS


def a_stage_succeeded_only_as_judged(book: Playbook) -> None:
    """The newest attempt is frozen, and what was frozen is what every gate judged in its last round."""
    attempts = of_attempts(book)
    for node, stage in book.state.stages.items():
        if stage.outcome is not StageOutcome.SUCCEEDED:
            continue
        payloads = attempts[node, len(stage.attempts)]
        last_round = [each for each in payloads if isinstance(each, RevisionRecorded)][-1]
        judged = payloads[payloads.index(last_round) :]
        gates = [each for each in judged if isinstance(each, UnitGateFinished)]
        assert [each.gate for each in gates] == list(stage.plan.gates)
        assert {each.outcome for each in gates} <= {ProcessOutcome.PASSED}
        assert {each.round for each in gates} <= {last_round.round}
        found = [each for each in judged if isinstance(each, ArtifactsValidated)][-1]
        assert (found.problems, found.tree, found.outputs) == ((), last_round.tree, last_round.outputs)
        assert [each.tree for each in judged if isinstance(each, AttemptFrozen)] == [last_round.tree]
        assert [each.process for each in payloads if isinstance(each, ToolReturned)][-1] == "passed"
        assert not any(isinstance(each, AttemptFailed) for each in payloads)


def a_skipped_stage_names_a_need_that_did_not_succeed(book: Playbook) -> None:
    for stage in book.state.stages.values():
        if stage.outcome is StageOutcome.SKIPPED:
            assert stage.dependency in stage.plan.needs
            assert book.state.stages[stage.dependency].outcome is not StageOutcome.SUCCEEDED
            assert stage.attempts == ()
        else:
            assert stage.dependency is None


def a_stage_started_only_after_its_needs_succeeded(book: Playbook) -> None:
    succeeded: set[NodeId | None] = set()
    for step in book.chain.steps:
        if isinstance(step.payload, AttemptStarted) and step.node is not None:
            assert succeeded.issuperset(book.state.stages[step.node].plan.needs)
        if isinstance(step.payload, StageFinished) and step.payload.outcome is StageOutcome.SUCCEEDED:
            succeeded.add(step.node)


def a_run_succeeded_only_when_all_of_it_did(book: Playbook) -> None:
    outcomes = {stage.outcome for stage in book.state.stages.values()}
    all_of_it = outcomes == {StageOutcome.SUCCEEDED} and not book.state.conflict_paths
    cancelled = book.state.phase is RunPhase.CANCELLED
    assert (book.state.outcome is RunOutcome.SUCCEEDED) is (all_of_it and not cancelled)
    assert (book.state.result_commit is not None) is (book.state.outcome is RunOutcome.SUCCEEDED)


def a_cancelled_run_ended_as_cancelled_and_started_nothing_more(book: Playbook) -> None:
    kinds = [step.kind for step in book.chain.steps]
    cancelled = StepKind.RUN_CANCELLED in kinds
    assert (book.state.outcome is RunOutcome.CANCELLED) is cancelled
    assert (book.state.phase is RunPhase.CANCELLED) is cancelled
    if cancelled:
        afterwards = set(kinds[kinds.index(StepKind.RUN_CANCELLED) :])
        assert not STARTS & afterwards


ENDINGS = (
    everything_is_over,
    reruns_stay_within_the_flows_limit,
    attempts_stay_within_the_plan_interruptions_apart,
    a_stage_succeeded_only_as_judged,
    a_skipped_stage_names_a_need_that_did_not_succeed,
    a_stage_started_only_after_its_needs_succeeded,
    a_run_succeeded_only_when_all_of_it_did,
    a_cancelled_run_ended_as_cancelled_and_started_nothing_more,
)


@settings(max_examples=80)
@given(bounded_worlds, events())
def test_what_every_run_comes_to(world: World, happening: Events) -> None:
    """`play` itself raises when nothing is due and nobody is busy, or when a run outlives its bound."""
    book = played(world, happening)
    for holds in ENDINGS:
        holds(book)


@settings(max_examples=50)
@given(bounded_worlds, st.integers(0, 40), events(*INTERRUPTIONS))
def test_a_run_can_be_cancelled_at_any_moment(world: World, tick: int, happening: Events) -> None:
    book = played(world, {**happening, tick: Event.CANCEL})
    everything_is_over(book)
    a_cancelled_run_ended_as_cancelled_and_started_nothing_more(book)


def test_a_command_that_brings_the_machine_down_is_not_started_for_ever() -> None:
    book = Playbook(plan("build", attempts=1), plan("after", needs=["build"]))
    while not book.state.phase.over:
        book.tick()
        build = book.state.stages[NodeId("build")].latest
        if build is not None and build.phase is AttemptPhase.CALLING:
            book.crash()
    build_stage, after_stage = book.state.stages.values()
    assert len(build_stage.attempts) == MAX_INTERRUPTIONS
    assert (build_stage.outcome, build_stage.block) == (StageOutcome.BLOCKED, BlockReason.INTERRUPTED)
    assert (after_stage.outcome, after_stage.dependency) == (StageOutcome.SKIPPED, "build")
    assert book.state.outcome is RunOutcome.BLOCKED


# --- interruptions change nothing ---------------------------------------------------------------------


@settings(max_examples=50)
@given(worlds, events(*INTERRUPTIONS))
def test_a_run_comes_to_the_same_with_and_without_interruptions(world: World, happening: Events) -> None:
    undisturbed = played(world, {}).ending
    assert played(world, happening).ending == undisturbed


FULL = (
    plan("a", gates=["lint", "unit"]),
    plan("b", gates=["unit"]),
    plan("c", needs=["a", "b"], gates=["unit"]),
    plan("d", needs=["c"]),
)
EVERYTHING_ONCE = Script(
    commands={Place(NodeId("b"), 1, 1): ProcessOutcome.TIMED_OUT},
    gates={(Place(NodeId("a"), 1, 1), FULL[0].gates[1]): ProcessOutcome.FAILED},
    problems={Place(NodeId("c"), 1, 1): (next(iter(ProblemCode)),)},
    unrecordable=frozenset({Place(NodeId("d"), 1, 1)}),
    changing=frozenset({Place(NodeId("a"), 1, 2)}),
)


def everything_once() -> Playbook:
    """A run with a second attempt, a failed gate, a gate that changes code, a bad contract; all mended."""
    return Playbook(*FULL, within=limits(parallel=2, repair_reruns=2), script=EVERYTHING_ONCE)


def test_that_run_has_every_kind_of_step_that_commands_and_gates_lead_to() -> None:
    book = everything_once()
    book.play(schedule=(0, 1))
    assert {str(step.kind) for step in book.chain.steps} == {
        "run_started",
        "attempt_started",
        "turn_started",
        "tool_called",
        "tool_returned",
        "revision_recorded",
        "unit_gate_started",
        "unit_gate_finished",
        "rerun_requested",
        "artifacts_validated",
        "attempt_failed",
        "attempt_frozen",
        "verification_recorded",
        "arbitration_decided",
        "stage_finished",
        "run_finished",
    }
    causes = [step.payload.cause for step in book.chain.steps if isinstance(step.payload, RerunRequested)]
    assert set(causes) == set(RerunCause)


@pytest.mark.parametrize("event", INTERRUPTIONS)
def test_an_interruption_at_every_position_changes_nothing(event: Event) -> None:
    undisturbed = everything_once()
    expected = undisturbed.play(schedule=(0, 1))
    assert expected.outcome is RunOutcome.SUCCEEDED
    for position in range(undisturbed.ticks):
        book = everything_once()
        assert book.play(schedule=(0, 1), events={position: event}) == expected, position


@settings(max_examples=40)
@given(worlds, st.lists(st.integers(0, 4), min_size=1, max_size=6), st.integers(1, 4))
def test_a_run_comes_to_the_same_in_every_interleaving(
    world: World, schedule: list[int], parallel: int
) -> None:
    other = replace(world, schedule=tuple(schedule), within=replace(world.within, parallel=parallel))
    assert played(other, {}).ending == played(world, {}).ending


@settings(max_examples=50)
@given(bounded_worlds)
def test_a_run_comes_to_the_same_with_and_without_parks(world: World) -> None:
    free = limits(repair_reruns=world.within.repair_reruns, parallel=world.within.parallel)
    assert played(world, {}).ending == played(replace(world, within=free), {}).ending


# --- prefixes -----------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(bounded_worlds, events())
def test_every_prefix_folds_and_what_follows_applies(world: World, happening: Events) -> None:
    book = played(world, happening)
    state = RunState(run=RUN)
    for position, step in enumerate(book.chain.steps):
        new = NewStep(node=step.node, attempt=step.attempt, payload=step.payload, at_us=step.at_us)
        admitted = admit(state, [new])
        state = apply(state, step)
        assert replace(admitted, head=state.head) == state
        if position % 7 == 0:
            assert fold(RUN, book.chain.steps[: position + 1]) == state
        decide(state, step.at_us)
    assert state == book.state
