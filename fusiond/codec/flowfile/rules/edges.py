"""Rules of edges: what `needs`, `inputs` and `show` name must be there, and never in a circle."""

from fusiond.codec.flowfile.problems import FlowProblemCode, KeyPath, near_miss, one_of
from fusiond.codec.flowfile.reading.report import Report
from fusiond.codec.flowfile.reading.tree import quoted
from fusiond.codec.flowfile.sections.flow import FlowDraft
from fusiond.codec.flowfile.sections.nodes import InputDraft, NodeDraft
from fusiond.codec.flowfile.sections.presumed import presumed_code
from fusiond.domain.artifacts import CHANGES
from fusiond.domain.flow import CodeAccess, NodeKind
from fusiond.domain.graph import ancestors, cycles, spelled
from fusiond.domain.ids import NodeId, is_node_id

Edges = dict[NodeId, dict[NodeId, KeyPath]]
"""For each node the nodes it waits for, each with the place that says so first."""


def check_edges(draft: FlowDraft, report: Report) -> None:
    """Report every reference that names nothing or may not stand where it does."""
    nodes = {node.id: node for node in draft.nodes}
    edges: Edges = {NodeId(node.id): {} for node in draft.nodes}
    for node in draft.nodes:
        _check_needs(node, nodes, edges, report)
        for each in node.inputs:
            _check_input(node, each, nodes, edges, report)
    for cycle in cycles(edges):
        place = edges[cycle[0]][cycle[1]]
        report.at(
            place, FlowProblemCode.CYCLE, f"the cycle {spelled(cycle)}", "nodes that wait for no circle"
        )
    for node in draft.nodes:
        _check_shown(node, nodes, edges, report)


def _check_needs(node: NodeDraft, nodes: dict[str, NodeDraft], edges: Edges, report: Report) -> None:
    path: KeyPath = ("nodes", node.id, "needs")
    for spot in report.items(path):
        if is_node_id(spot.text) and _is_other_node(spot.text, node, nodes, spot.path, report):
            edges[NodeId(node.id)].setdefault(NodeId(spot.text), spot.path)
    if node.kind is NodeKind.PROTECTED and not report.items(path):
        expected = "at least one node: a protected gate judges the merge of what it needs"
        report.at(path, FlowProblemCode.MISSING_KEY, "nothing", expected)


def _is_other_node(
    name: str, node: NodeDraft, nodes: dict[str, NodeDraft], path: KeyPath, report: Report
) -> bool:
    if name == node.id:
        found, expected = f"{quoted(name)}, the node itself", "another node"
        report.at(path, FlowProblemCode.SELF_DEPENDENCY, found, expected)
        return False
    declared = report.names(("nodes",))
    if name not in declared:
        others = [each for each in declared if each != node.id]
        found, suggestion = f"the unknown node {quoted(name)}", near_miss(name, others)
        cure = "a flow's own inputs are read in prompts, as {{ inputs.NAME }}" if name == "inputs" else ""
        code, expected = FlowProblemCode.UNKNOWN_NODE, one_of("nodes", others)
        report.at(path, code, found, expected, suggestion=suggestion, cure=cure)
        return False
    # A node that is declared but could not be read is in the report already.
    return name in nodes


def _check_input(
    node: NodeDraft, each: InputDraft, nodes: dict[str, NodeDraft], edges: Edges, report: Report
) -> None:
    path: KeyPath = ("nodes", node.id, "inputs", each.name)
    if each.match is not None:
        path = (*path, "from")
        needed = {spot.text for spot in report.items(("nodes", node.id, "needs"))}
        known = bool(each.node) and _is_other_node(each.node, node, nodes, path, report)
        if known and each.node not in needed:
            expected = f"a node in needs: extra artifacts make no dependency; add {each.node} to needs"
            report.at(path, FlowProblemCode.NOT_NEEDED, quoted(each.node), expected)
        return
    if not _is_other_node(each.node, node, nodes, path, report):
        return
    edges[NodeId(node.id)].setdefault(NodeId(each.node), path)
    _check_output(nodes[each.node], each.output or "", path, report)


def _check_output(node: NodeDraft, output: str, path: KeyPath, report: Report) -> None:
    """Report a reference to an output that its node does not have."""
    if node.kind is None:
        return
    names = _referable(node, report)
    if output in names or (output == "*" and names):
        return
    found = f"the unknown output {quoted(f'{node.id}.{output}')}"
    near = near_miss(output, names)
    suggestion = f"{node.id}.{near}" if near else ""
    expected = one_of(f"outputs of {node.id}:", names)
    report.at(path, FlowProblemCode.UNKNOWN_OUTPUT, found, expected, suggestion=suggestion)


def _referable(node: NodeDraft, report: Report) -> list[str]:
    """Return the names under which a node's frozen artifacts may be referenced."""
    writes = presumed_code(node.kind, node.code) is CodeAccess.WRITE
    return [*report.names(("nodes", node.id, "outputs")), *([CHANGES] if writes else [])]


def _check_shown(node: NodeDraft, nodes: dict[str, NodeDraft], edges: Edges, report: Report) -> None:
    """Report what an approval shows although it need not be there yet when it asks."""
    before = ancestors(edges, NodeId(node.id))
    for spot in report.items(("nodes", node.id, "approval", "show")):
        name, dot, output = spot.text.partition(".")
        if not is_node_id(name) or not _is_other_node(name, node, nodes, spot.path, report):
            continue
        if dot:
            _check_output(nodes[name], output, spot.path, report)
        if name not in before:
            expected = "a node that this one waits for, directly or through others"
            report.at(spot.path, FlowProblemCode.NOT_NEEDED, quoted(spot.text), expected)
