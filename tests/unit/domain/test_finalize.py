"""Steps of a finished run become one trace: its order, what is left out of it, and that it is final."""

import dataclasses

import pytest

from fusiond.codec.traces import TraceDigester
from fusiond.domain.errors import IllegalStepError
from fusiond.domain.finalize import FinalizedTraceError, Recording, UnfinalizedTraceError
from fusiond.domain.flow import FlowState, RunMode
from fusiond.domain.ids import NodeId, RunId
from fusiond.domain.replay_policy import EntropyBudget, EntropySource, Magnitude
from fusiond.domain.steps.after import Archived
from fusiond.domain.steps.attempt import AttemptFailed, AttemptFailure, StageOutcome
from fusiond.domain.steps.kinds import StepKind
from fusiond.domain.steps.run import ResumeCause, RunOutcome
from fusiond.domain.steps.turn import EntropyUsed
from fusiond.domain.trace import ExecutionTrace, Uncertifiable
from tests.fakes.chains import RUN, START_US, Chain
from tests.fakes.finished_runs import (
    BUILD_THEN_TEST,
    artifact,
    begun,
    finished,
    interrupted,
    passed,
    simple,
    started,
)
from tests.fakes.payloads import (
    attempt_started,
    digest,
    plan,
    run_finished,
    run_resumed,
    stage_finished,
    tool_called,
    tool_returned,
    turn_started,
)

BUILD, TEST = NodeId("build"), NodeId("test")


def recording(chain: Chain) -> Recording:
    made = Recording(RUN, TraceDigester())
    for step in chain.steps:
        made.add(step)
    return made


def ended() -> Chain:
    chain = started(*BUILD_THEN_TEST)
    passed(chain, "build", gates=["unit"])
    passed(chain, "test")
    chain.of_run(run_finished(RunOutcome.SUCCEEDED))
    return chain


# Final or not.


def test_trace_cannot_be_read_before_it_is_finalized() -> None:
    made = recording(ended())
    with pytest.raises(UnfinalizedTraceError, match="is not finalized"):
        _ = made.trace
    assert made.finalize() is made.trace


def test_unfinished_run_has_no_trace() -> None:
    chain = started(*BUILD_THEN_TEST)
    begun(chain, "build", 1)
    made = recording(chain)
    with pytest.raises(UnfinalizedTraceError) as caught:
        made.finalize()
    assert caught.value.state == "step 4"
    with pytest.raises(UnfinalizedTraceError):
        recording(Chain()).finalize()


@pytest.mark.parametrize("finalized", [True, False])
def test_nothing_is_added_after_the_end(*, finalized: bool) -> None:
    chain = ended()
    made = recording(chain)
    if finalized:
        made.finalize()
    chain.of_run(Archived(manifest=digest("manifest"), workspace="kept"))
    with pytest.raises(FinalizedTraceError, match="after the end"):
        made.add(chain.steps[-1])
    assert made.finalize().events[0].kind is StepKind.RUN_FINISHED


def test_trace_cannot_be_amended() -> None:
    trace = simple()
    with pytest.raises(dataclasses.FrozenInstanceError):
        trace.events = ()  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        trace.events[0].index = 2  # type: ignore[misc]


def test_steps_come_in_order_and_of_one_run() -> None:
    chain = ended()
    made = Recording(RUN, TraceDigester())
    with pytest.raises(IllegalStepError, match="step 2"):
        made.add(chain.steps[1])
    with pytest.raises(IllegalStepError):
        Recording(RunId("0" * 13), TraceDigester()).add(chain.steps[0])


# Order.


def test_events_stand_by_topology_attempt_and_position() -> None:
    trace = simple()
    places = [(each.node, each.attempt, each.index) for each in trace.events]
    assert places == [
        (None, 0, 1),
        *((BUILD, 1, index) for index in range(1, 12)),
        (BUILD, 0, 1),
        *((TEST, 1, index) for index in range(1, 10)),
        (TEST, 0, 1),
    ]
    assert [each.node for each in trace.groups.stages] == [BUILD, TEST]


def test_interleaving_of_parallel_stages_does_not_show() -> None:
    stages = (plan("left"), plan("right"))
    one, other = started(*stages), started(*stages)
    for chain, first, second in ((one, "left", "right"), (other, "right", "left")):
        passed(chain, first, artifacts=[artifact("made", first)])
        passed(chain, second, artifacts=[artifact("made", second)])
    assert finished(one).root == finished(other).root


def test_times_do_not_show() -> None:
    assert simple().root == simple(at_us=START_US + 1_000_000).root
    assert simple(at_us=START_US + 1_000_000).events != simple().events


# What a crash leaves.


def test_interrupted_attempts_are_counted_and_not_compared() -> None:
    chain = started(*BUILD_THEN_TEST)
    interrupted(chain, "build", 1)
    chain.of_run(run_resumed(ResumeCause.RESTART, idle_us=5))
    passed(chain, "build", 2, artifacts=[artifact("made", "made")], gates=["unit"])
    passed(chain, "test", artifacts=[artifact("report", "fine")])
    trace = finished(chain)
    assert trace.root == simple().root
    assert [(each.node, each.attempt, each.interrupted) for each in trace.groups.stages] == [
        (BUILD, 1, 1),
        (TEST, 1, 0),
    ]


def test_a_person_who_resumes_is_compared() -> None:
    chain = started(*BUILD_THEN_TEST)
    passed(chain, "build", artifacts=[artifact("made", "made")], gates=["unit"])
    passed(chain, "test", artifacts=[artifact("report", "fine")])
    chain.of_run(run_resumed(ResumeCause.RESTART))
    assert finished(chain).root == simple().root


# The root covers everything that is compared.


@pytest.mark.parametrize(
    "changed",
    [
        simple(text="other"),
        simple(code="other"),
        simple(reruns=1),
        simple(flow_state=FlowState.DRAFT),
        simple(plan_hash=digest("other plan")),
        simple(environment=(("python", "3.12"),)),
        simple(inputs=(("issue", digest("input")),)),
        simple(datasets=(("corpus", digest("data")),)),
    ],
)
def test_root_moves_with_whatever_is_compared(changed: ExecutionTrace) -> None:
    assert changed.root != simple().root


# Certifiability.


def test_unsafe_mode_and_a_draft_are_not_certifiable() -> None:
    assert simple().non_certifiable == ()
    assert simple(mode=RunMode.UNSAFE).non_certifiable == (Uncertifiable.UNSAFE_MODE,)
    assert simple(flow_state=FlowState.DRAFT).non_certifiable == (Uncertifiable.FLOW_NOT_FROZEN,)


@pytest.mark.parametrize("declared", [True, False])
def test_undeclared_source_is_not_certifiable(*, declared: bool) -> None:
    budget = EntropyBudget(sources=(EntropySource.SEEDED_RNG,)) if declared else EntropyBudget()
    chain = started(plan("build"), entropy=budget)
    use = EntropyUsed(source=EntropySource.SEEDED_RNG, magnitude=Magnitude.LOW, who="build", why="shuffles")
    chain.of_stage("build", 1, attempt_started(), turn_started(1), use, tool_called(1))
    trace = _failed(chain)
    assert trace.non_certifiable == (() if declared else (Uncertifiable.UNDECLARED_SOURCE,))
    assert [(each.who, each.why) for each in trace.groups.entropy] == [("build", "shuffles")]


def _failed(chain: Chain) -> ExecutionTrace:
    failed = AttemptFailed(reason=AttemptFailure.COMMAND_FAILED, detail="")
    chain.of_stage("build", 1, tool_returned(1), failed)
    chain.of_stage("build", None, stage_finished(StageOutcome.FAILED, 1))
    return finished(chain, RunOutcome.FAILED)
