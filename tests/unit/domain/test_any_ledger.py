"""Ledgers that nobody decided: any order of legal steps, and steps at positions where they do not belong.

Whatever is in a ledger, `fold` takes it or refuses it by name, `decide` has an
answer, and a run that goes on from there ends.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusiond.domain.artifacts import ProblemCode
from fusiond.domain.decide import decide
from fusiond.domain.errors import IllegalStepError
from fusiond.domain.fold import admit, apply, fold
from fusiond.domain.gates import ProcessOutcome
from fusiond.domain.ids import NodeId
from fusiond.domain.state import RunState
from fusiond.domain.steps.attempt import AttemptFailure
from fusiond.domain.steps.judgement import RerunCause
from fusiond.domain.steps.kinds import StepKind
from fusiond.domain.steps.record import NewStep, Step
from fusiond.domain.transitions import RunPhase, StagePhase
from fusiond.domain.verification import VerificationStatus
from tests.fakes.chains import RUN, Chain, place
from tests.fakes.fitting import Wish, fitting
from tests.fakes.payloads import HOUR_US, limits, plan
from tests.fakes.simulation import Playbook
from tests.fakes.worlds import Events, World, bounded_worlds, events

ENDS = {StepKind.STAGE_FINISHED, StepKind.ATTEMPT_FAILED, StepKind.RUN_CANCELLED, StepKind.RUN_PARKED}
WISHES = st.builds(
    Wish,
    ended=st.sampled_from(ProcessOutcome),
    problems=st.sampled_from([(), (), (ProblemCode.SCHEMA,)]),
    code=st.sampled_from(["code", "code", "other code"]),
    decision=st.sampled_from(VerificationStatus),
    failure=st.sampled_from(AttemptFailure),
    cause=st.sampled_from(RerunCause),
)
MOVES = st.lists(st.tuples(st.integers(0, 1 << 16), WISHES), min_size=8, max_size=30)
STAGES = (plan("a", gates=["unit"]), plan("b", needs=["a"]))


def legal_steps(state: RunState, nodes: Sequence[NodeId | None], wish: Wish) -> list[NewStep]:
    """Return every step of these nodes that may follow now."""
    found = []
    for node in nodes:
        for kind in StepKind:
            step = fitting(kind, state, node, wish)
            try:
                admit(state, [step])
            except IllegalStepError:
                continue
            found.append(step)
    return found


def walk(book: Playbook, moves: list[tuple[int, Wish]]) -> None:
    """Append a legal step for each move. Steps of the run and ends of stages are rarer, to get far."""
    for number, wish in moves:
        nodes = [None] if number % 8 == 7 else list(book.state.stages)
        following = [
            step
            for step in legal_steps(book.state, nodes, wish)
            if number % 5 == 4 or step.payload.kind not in ENDS
        ]
        if following:
            book.chain.append([following[number % len(following)]])
            if book.state.phase is RunPhase.PARKED:
                book.parked_at.append(book.now_us)


@settings(max_examples=15)
@given(MOVES)
def test_whatever_is_legal_folds_and_has_an_answer(moves: list[tuple[int, Wish]]) -> None:
    book = Playbook(*STAGES, within=limits(parallel=1))
    walk(book, moves)
    assert fold(RUN, book.chain.steps) == book.state
    if not decide(book.state, book.now_us):
        assert waits_for_a_person(book.state) or book.state.phase.over


def waits_for_a_person(state: RunState) -> bool:
    over = all(stage.phase is StagePhase.FINISHED for stage in state.stages.values())
    return state.phase is RunPhase.PARKED or (state.phase is RunPhase.AWAITING_APPROVAL and over)


@settings(max_examples=15)
@given(MOVES)
def test_a_run_ends_from_wherever_it_is(moves: list[tuple[int, Wish]]) -> None:
    book = Playbook(*STAGES, within=limits(parallel=1))
    walk(book, moves)
    book.play(bound=500)
    assert book.state.phase.over


@settings(max_examples=30)
@given(bounded_worlds, events(), st.data())
def test_a_step_in_a_strange_place_is_taken_or_refused_by_name(
    world: World, happening: Events, data: st.DataObject
) -> None:
    book = world.book()
    book.play(schedule=world.schedule, events=happening, bound=world.bound(happening))
    steps = book.chain.steps
    length = data.draw(st.integers(0, len(steps)), label="prefix")
    stranger = data.draw(st.sampled_from(steps), label="stranger")
    state = fold(RUN, steps[:length])
    after = taken(state, replace(stranger, seq=length + 1, prev_hash=state.head.hash))
    if after is not None:
        assert after.head.seq == length + 1
        decide(after, after.last_us + HOUR_US)
    assert state == fold(RUN, steps[:length])


def taken(state: RunState, step: Step) -> RunState | None:
    """Return the state after the step, None when it was refused; nothing else may happen."""
    try:
        return apply(state, step)
    except IllegalStepError:
        return None


@pytest.mark.parametrize("kind", StepKind)
@pytest.mark.parametrize("node", ["n0", "nowhere", None])
def test_a_step_of_any_stage_or_none_is_taken_or_refused_by_name(kind: StepKind, node: str | None) -> None:
    for chain in (Chain(), Chain(plan("n0"))):
        step = replace(fitting(kind, chain.state, None), node=None if node is None else NodeId(node))
        taken(chain.state, place(chain.state, step))
