"""A node of a plan written out as a flow file declares it; the rest of the flow is `explain`."""

from fusiond.codec.flowfile.shape.layout import (
    Inline,
    Items,
    Pairs,
    Tree,
    cost,
    duration,
    flag,
    named,
    number,
    pairs,
    prose,
    word,
    words,
)
from fusiond.codec.flowfile.shape.units import SIZE
from fusiond.domain.flow import (
    AcpWork,
    AgentWork,
    ApprovalWork,
    CompareSpec,
    Comparison,
    GateSpec,
    Node,
    NodeInput,
    NodeKind,
    NodeLimits,
    OutputSpec,
    PinnedFile,
    ProtectedWork,
    RunWork,
    SetupSpec,
    Work,
)


def file_path(file: PinnedFile | None) -> Inline | None:
    """Return the path of a file that a flow names, or nothing."""
    return None if file is None else word(file.path)


def explained_node(node: Node) -> Pairs:
    """Return a node as a flow file declares it, with every default."""
    needs = words(node.needs) if node.needs else None
    work = _work(node.work)
    if node.kind in {NodeKind.PROTECTED, NodeKind.APPROVAL}:
        return pairs({**work, "needs": needs})
    return pairs(
        {
            **work,
            "inputs": named({each.name: _input(each) for each in node.inputs}),
            "needs": needs,
            "setup": explained_setup(node.setup),
            "gates": Items(tuple(_gate(each) for each in node.gates)) if node.gates else None,
            "outputs": named({each.name: _output(each) for each in node.outputs}),
            "code": word(node.code),
            "network": flag(value=node.network),
            "env": words(node.env) if node.env else None,
            "timeout": duration(node.timeout_us),
            "limits": _node_limits(node.limits),
        }
    )


def _work(work: Work) -> dict[str, Tree | None]:
    match work:
        case RunWork():
            return {"run": prose(work.run)}
        case AgentWork():
            return {"agent": file_path(work.definition), **_prompt(work)}
        case AcpWork():
            agent = pairs({"command": words(work.command)}) if work.profile is None else word(work.profile)
            return {"acp": agent, **_prompt(work)}
        case ProtectedWork():
            return {"protected": word(work.gate)}
        case ApprovalWork():
            return {"approval": pairs({"ask": prose(work.ask), "show": words(work.show)})}


def _prompt(work: AgentWork | AcpWork) -> dict[str, Tree | None]:
    prompt = None if work.prompt is None else prose(work.prompt)
    return {"prompt": prompt, "prompt_file": file_path(work.prompt_file)}


def _input(each: NodeInput) -> Tree:
    if each.match is None:
        return word(f"{each.node}.{each.output or '*'}")
    return pairs({"from": word(each.node), "match": word(each.match), "optional": flag(value=each.optional)})


def _gate(gate: GateSpec) -> Pairs:
    return pairs(
        {
            "name": word(gate.name),
            "run": prose(gate.run),
            "timeout": duration(gate.timeout_us),
            "network": flag(value=gate.network),
            "output_cap": Inline(SIZE.show(gate.output_cap_bytes)),
        }
    )


def _output(output: OutputSpec) -> Pairs:
    return pairs(
        {
            "path": None if output.path is None else word(output.path),
            "collect": None if output.collect is None else word(output.collect),
            "media_type": None if output.media_type is None else word(output.media_type),
            "max_size": Inline(SIZE.show(output.max_size_bytes)),
            "schema": file_path(output.schema),
            "optional": flag(value=output.optional),
            "compare": _compare(output.compare),
        }
    )


def _compare(compare: CompareSpec) -> Tree:
    if compare.how is Comparison.JSON and compare.ignore:
        return pairs({"json": pairs({"ignore": words(compare.ignore)})})
    return word(compare.how)


def explained_setup(setup: SetupSpec | None) -> Pairs | None:
    """Return a setup with every default, or nothing where there is none."""
    if setup is None:
        return None
    return pairs(
        {
            "run": prose(setup.run),
            "key": words(setup.key),
            "network": flag(value=setup.network),
            "timeout": duration(setup.timeout_us),
        }
    )


def _node_limits(limits: NodeLimits) -> Pairs | None:
    if limits == NodeLimits():
        return None
    return pairs(
        {
            "attempts": number(limits.attempts),
            "wall_clock": duration(limits.wall_clock_us),
            "tokens": number(limits.tokens),
            "cost_usd": cost(limits.cost_uusd),
            "tool_calls": number(limits.tool_calls),
        }
    )
