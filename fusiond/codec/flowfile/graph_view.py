"""A plan's graph for people: levels as text for a terminal, and a Mermaid flowchart."""

from fusiond.domain.display import display_safe
from fusiond.domain.flow import (
    AcpWork,
    AgentWork,
    ApprovalWork,
    CodeAccess,
    Node,
    NodeKind,
    ProtectedWork,
    ResolvedFlow,
    RunWork,
    Work,
)
from fusiond.domain.graph import levels
from fusiond.domain.ids import NodeId

MAX_WORK_CHARS = 48


def graph_text(plan: ResolvedFlow) -> str:
    """Return the plan's nodes by level: those of one level may run at once.

    A node's lines say what it runs, whether it writes code, what it waits for and by
    which inputs, its gates, and what it must produce (`?` where that is optional).
    """
    nodes = {node.id: node for node in plan.flow.nodes}
    level_of = levels({node.id: node.dependencies for node in plan.flow.nodes})
    depth = max(level_of.values(), default=-1) + 1
    parts = [f"{plan.flow.name}: {_counted(len(nodes), 'node')} in {_counted(depth, 'level')}"]
    for level in range(depth):
        parts += ["", f"level {level + 1}"]
        for node in (node for node in plan.order if level_of[node] == level):
            parts += _node_lines(nodes[node])
    return "\n".join(parts) + "\n"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _node_lines(node: Node) -> list[str]:
    access = ", writes code" if node.code is CodeAccess.WRITE else ""
    facts = {
        "after": ", ".join(_dependency(node, each) for each in node.dependencies),
        "gates": ", ".join(gate.name for gate in node.gates),
        "makes": ", ".join(f"{each.name}{'?' if each.optional else ''}" for each in node.outputs),
    }
    work = display_safe(_work_text(node.work), max_chars=MAX_WORK_CHARS)
    head = f"  {node.id}  {node.kind}: {work}{access}"
    return [head, *(f"    {name} {fact}" for name, fact in facts.items() if fact)]


def _work_text(work: Work) -> str:
    match work:
        case RunWork():
            return work.run
        case AgentWork():
            return work.definition.path
        case AcpWork():
            return work.profile or " ".join(work.command)
        case ProtectedWork():
            return work.gate
        case ApprovalWork():
            return work.ask


def _read_inputs(node: Node, dependency: NodeId) -> list[str]:
    inputs = [each for each in node.inputs if each.node == dependency]
    return [f"{each.output or each.match or '*'}{'?' if each.optional else ''}" for each in inputs]


def _dependency(node: Node, dependency: NodeId) -> str:
    read = _read_inputs(node, dependency)
    return f"{dependency} ({display_safe(', '.join(read))})" if read else dependency


_SHAPES = {
    NodeKind.RUN: ("[", "]"),
    NodeKind.AGENT: ("(", ")"),
    NodeKind.ACP: ("(", ")"),
    NodeKind.PROTECTED: ("{{", "}}"),
    NodeKind.APPROVAL: ("{", "}"),
}


def graph_mermaid(plan: ResolvedFlow) -> str:
    """Return the plan as a Mermaid flowchart; edges are labelled with the outputs that are read.

    Only well-formed ids and names get into the text, so nothing in it needs escaping.
    """
    nodes = {node.id: node for node in plan.flow.nodes}
    # Mermaid has words of its own, such as `end`, so nodes are numbered.
    number = {node: f"n{index}" for index, node in enumerate(plan.order, start=1)}
    parts = ["flowchart TD"]
    for node_id in plan.order:
        opening, closing = _SHAPES[nodes[node_id].kind]
        label = f"{node_id}<br/>{nodes[node_id].kind}"
        parts.append(f'  {number[node_id]}{opening}"{label}"{closing}')
    for node_id in plan.order:
        for each in nodes[node_id].dependencies:
            read = _labels(nodes[node_id], each)
            arrow = f'-->|"{read}"|' if read else "-->"
            parts.append(f"  {number[each]} {arrow} {number[node_id]}")
    return "\n".join(parts) + "\n"


def _labels(node: Node, dependency: NodeId) -> str:
    inputs = [each for each in node.inputs if each.node == dependency]
    return ", ".join(each.output or ("extras" if each.match else "all") for each in inputs)
