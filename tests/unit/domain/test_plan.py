"""Plans: one for one flow whatever the order of its entries, and what `decide` is told of each stage."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.domain.errors import InvalidError
from fusiond.domain.flow import (
    AcpWork,
    ApprovalWork,
    CodeAccess,
    Flow,
    FlowState,
    GateSpec,
    Limits,
    Node,
    NodeInput,
    NodeKind,
    NodeLimits,
    OutputSpec,
    ProtectedWork,
    RunWork,
    Toolchain,
)
from fusiond.domain.ids import GateName, NodeId, OutputName, TenantId
from fusiond.domain.plan import RESOLVER, plan_stages, resolve
from fusiond.domain.replay_policy import Determinism, EntropyBudget, EntropySource, ReplayContract
from fusiond.domain.steps.run import StagePlan


def gate(name: str) -> GateSpec:
    """Return a gate."""
    return GateSpec(name=GateName(name), run="true", timeout_us=1, output_cap_bytes=1)


def output(name: str) -> OutputSpec:
    """Return an output."""
    return OutputSpec(name=OutputName(name), path=name, max_size_bytes=1)


def node(name: str, *needs: str) -> Node:
    """Return a command that waits for nodes."""
    return Node(
        id=NodeId(name), work=RunWork(run="true"), needs=tuple(map(NodeId, needs)), code=CodeAccess.READ
    )


def flow(*nodes: Node) -> Flow:
    """Return a flow of these nodes."""
    return Flow(
        name="f",
        tenant=TenantId("local"),
        state=FlowState.FROZEN,
        determinism=Determinism.STRICT,
        replay=ReplayContract(),
        entropy=EntropyBudget(),
        limits=Limits(repair_reruns=2, attempts=3, parallel=1, wall_clock_us=1),
        nodes=nodes,
    )


RICH = flow(
    replace(
        node("c", "b", "a"),
        inputs=(
            NodeInput(name="y", node=NodeId("a"), output=OutputName("p")),
            NodeInput(name="x", node=NodeId("a")),
        ),
        env=("B", "A"),
    ),
    replace(node("a"), outputs=(output("p"), output("o")), gates=(gate("z"), gate("b"))),
    node("b", "a"),
)
RICH = replace(
    RICH,
    toolchains=(Toolchain(name="node", version=">=20"), Toolchain(name="go", version=">=1")),
    env=("Z", "Y", "Z"),
    entropy=EntropyBudget(sources=(EntropySource.HUMAN_INPUT, EntropySource.DATA)),
)


def test_order_is_topological_and_by_name() -> None:
    plan = resolve(flow(node("z"), node("b", "z"), node("a", "z"), node("c", "a", "b")))
    assert plan.order == ("z", "a", "b", "c")
    assert plan.resolver == RESOLVER


@given(st.permutations(range(3)), st.permutations(range(2)))
def test_a_plan_does_not_depend_on_the_order_of_entries(nodes: list[int], pair: list[int]) -> None:
    turned = replace(
        RICH,
        nodes=tuple(
            replace(
                each,
                needs=tuple(reversed(each.needs)),
                inputs=tuple(reversed(each.inputs)),
                outputs=tuple(reversed(each.outputs)),
                env=tuple(reversed(each.env)),
            )
            for each in (RICH.nodes[index] for index in nodes)
        ),
        toolchains=tuple(RICH.toolchains[index] for index in pair),
        entropy=replace(RICH.entropy, sources=tuple(RICH.entropy.sources[index] for index in pair)),
        env=tuple(reversed(RICH.env)),
    )
    assert resolve(turned) == resolve(RICH)


def test_a_plan_of_a_plan_is_the_same_plan() -> None:
    plan = resolve(RICH, [("b", "default"), ("a", "default")])
    assert resolve(plan.flow, plan.explained) == plan
    assert plan.explained == (("a", "default"), ("b", "default"))


def test_what_has_an_order_keeps_it() -> None:
    nodes = {each.id: each for each in resolve(RICH).flow.nodes}
    assert [each.name for each in nodes[NodeId("a")].gates] == ["z", "b"]


def test_names_that_are_said_twice_are_kept_once() -> None:
    assert resolve(RICH).flow.env == ("Y", "Z")


def test_cycles_and_missing_nodes_are_refused() -> None:
    with pytest.raises(InvalidError, match="cycle: a -> b -> a"):
        resolve(flow(node("a", "b"), node("b", "a")))
    with pytest.raises(InvalidError, match="a waits for z, which is no node"):
        resolve(flow(node("a", "z")))


def test_a_stage_tells_what_it_waits_for_and_is_judged_by() -> None:
    first, second, third = plan_stages(resolve(RICH))
    assert (first.node, second.node, third.node) == ("a", "b", "c")
    assert first == StagePlan(
        node=NodeId("a"),
        kind=NodeKind.RUN,
        needs=(),
        gates=(GateName("z"), GateName("b")),
        code=CodeAccess.READ,
        attempts=3,
    )
    assert third.needs == ("a", "b")


def test_attempts_are_the_flows_unless_a_node_narrows_them_and_judges_have_one() -> None:
    narrow = replace(node("a"), limits=NodeLimits(attempts=1))
    agent = replace(node("b"), work=AcpWork(profile="codex", prompt="x"), code=CodeAccess.WRITE)
    judge = replace(node("c", "b"), work=ProtectedWork(gate="g"), code=CodeAccess.NONE)
    person = replace(node("d", "b"), work=ApprovalWork(ask="ok?"), code=CodeAccess.NONE)
    stages = plan_stages(resolve(flow(narrow, agent, judge, person)))
    assert [(stage.node, stage.kind.value, stage.attempts) for stage in stages] == [
        ("a", "run", 1),
        ("b", "acp", 3),
        ("c", "protected", 1),
        ("d", "approval", 1),
    ]
