"""The flows of `tests/golden/flows`: what they mean, and that their plans keep their names.

A plan hash that changes here changes for every flow that people have: raise
`RESOLVER` in `domain.plan` when that is meant, and write the new files.
"""

import json
from pathlib import Path

import pytest

from fusiond.codec.flowfile.explain import explain
from fusiond.codec.flowfile.graph_view import graph_mermaid, graph_text
from fusiond.codec.flowfile.pin import pin
from fusiond.codec.flowfile.plan_hash import plan_bytes, plan_hash
from fusiond.codec.flowfile.read import read_flow
from fusiond.codec.flowfile.schema import flow_schema_text
from fusiond.codec.records import structure
from fusiond.domain.flow import CodeAccess, FlowState, NodeKind, ResolvedFlow
from fusiond.domain.plan import resolve
from fusiond.domain.replay_policy import Determinism, EntropySource

FLOWS = Path(__file__).parents[3] / "golden" / "flows"
NAMES = ("smallest", "full")
FILES = {
    "policies/default.yaml": b"rules: []\n",
    "agents/planner.md": b"---\nmodel: any\n---\nYou plan.\n",
    "prompts/build.md": b"Build what {{ inputs.issue }} asks for, attempt {{ attempt.number }}.\n",
    "schemas/report.json": b'{"type": "object"}\n',
}


def plan(name: str, *, pinned: bool = False) -> ResolvedFlow:
    """Return the plan of a golden flow."""
    reading = read_flow((FLOWS / f"{name}.yaml").read_bytes())
    assert reading.problems == ()
    flow = reading.flow
    if pinned and flow is not None:
        flow = pin(flow, reading.files, FILES.__getitem__).flow
    assert flow is not None
    return resolve(flow, reading.explained)


@pytest.mark.parametrize("name", NAMES)
def test_explanation_is_as_written_down(name: str) -> None:
    assert explain(plan(name)) == (FLOWS / f"{name}.explained.yaml").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_graphs_are_as_written_down(name: str) -> None:
    assert graph_text(plan(name)) == (FLOWS / f"{name}.graph.txt").read_text()
    assert graph_mermaid(plan(name)) == (FLOWS / f"{name}.mmd").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_plan_keeps_its_hash(name: str) -> None:
    expected = json.loads((FLOWS / "plan_hashes.json").read_text())[name]
    assert plan_hash(plan(name)) == expected["declared"]
    assert plan_hash(plan(name, pinned=True)) == expected["pinned"]


@pytest.mark.parametrize("name", NAMES)
def test_plan_survives_storage(name: str) -> None:
    stored = plan_bytes(plan(name, pinned=True))
    again = structure(ResolvedFlow, json.loads(stored), strict=True)
    assert again == plan(name, pinned=True)
    assert plan_bytes(again) == stored


def test_schema_is_as_written_down() -> None:
    assert flow_schema_text() == (FLOWS / "flow.schema.json").read_text()


def test_smallest_flow_has_the_documented_defaults() -> None:
    flow = plan("smallest").flow
    (node,) = flow.nodes
    (gate,) = node.gates
    assert (flow.tenant, flow.state, flow.determinism) == ("local", FlowState.FROZEN, Determinism.BOUNDED)
    assert (flow.limits.repair_reruns, flow.limits.attempts, flow.limits.parallel) == (2, 2, 0)
    assert (flow.limits.wall_clock_us, flow.limits.cost_uusd) == (3_600_000_000, None)
    assert flow.entropy.sources == (EntropySource.EXTERNAL_ORACLE, EntropySource.HUMAN_INPUT)
    assert all(intent.inferred for intent in flow.entropy.intents)
    assert (node.kind, node.code, node.network, node.timeout_us) == (
        NodeKind.ACP,
        CodeAccess.WRITE,
        True,
        3_600_000_000,
    )
    assert (gate.name, gate.run, gate.timeout_us, gate.network) == ("gate-1", "pytest -q", 600_000_000, False)


def test_full_flow_means_what_it_says() -> None:
    resolved = plan("full")
    flow = resolved.flow
    nodes = {str(node.id): node for node in flow.nodes}
    assert resolved.order == ("plan", "build", "changelog", "accept", "ship")
    assert flow.limits.cost_uusd == 5_000_000
    assert flow.replay.envelope.min_claim_overlap_ppm == 800_000
    assert [(each.source, each.inferred) for each in flow.entropy.intents] == [
        (EntropySource.EXTERNAL_ORACLE, False),
        (EntropySource.HUMAN_INPUT, True),
    ]
    assert {name: node.code.value for name, node in nodes.items()} == {
        "plan": "read",
        "build": "write",
        "changelog": "read",
        "accept": "none",
        "ship": "none",
    }
    assert [(each.name, each.output, each.optional) for each in nodes["build"].inputs] == [
        ("notes", "notes", True),
        ("plan", "plan", False),
    ]
    assert nodes["ship"].dependencies == ("accept", "changelog")
