"""A plan written out as a flow file: every value, and a comment where a rule and not the file gave it.

Reading the text again gives the same plan (`fusion flow check --explain`).
"""

from fusiond.codec.flowfile.shape.layout import (
    Inline,
    Items,
    Lines,
    Pairs,
    Tree,
    flag,
    laid_out,
    pairs,
    prose,
    word,
    words,
)
from fusiond.codec.flowfile.shape.units import COST, DURATION, SCORE, SIZE
from fusiond.domain.flow import (
    AcpWork,
    AgentWork,
    ApprovalWork,
    CompareSpec,
    Comparison,
    Flow,
    FlowInput,
    GateSpec,
    InputType,
    Limits,
    Node,
    NodeInput,
    NodeKind,
    NodeLimits,
    OutputSpec,
    PinnedFile,
    ProtectedGateSpec,
    ProtectedWork,
    ResolvedFlow,
    RunWork,
    SetupSpec,
    Work,
)
from fusiond.domain.replay_policy import EntropyBudget, ReplayContract
from fusiond.domain.verification import VerificationPolicy


def explain(plan: ResolvedFlow) -> str:
    """Return a plan as the text of a flow file, nodes in the plan's order."""
    comments = {
        path: reason if reason == "default" else f"default: {reason}" for path, reason in plan.explained
    }
    return laid_out(_flow(plan), comments)


def _flow(plan: ResolvedFlow) -> Pairs:
    flow = plan.flow
    nodes = {node.id: node for node in flow.nodes}
    return pairs(
        {
            "flow": word(flow.name),
            "tenant": word(flow.tenant),
            "state": word(flow.state),
            "inputs": _named({each.name: _flow_input(each) for each in flow.inputs}),
            "datasets": _named(
                {
                    each.name: pairs(
                        {
                            "path": word(each.path),
                            "version": word(each.version),
                            "state": word(each.state),
                        }
                    )
                    for each in flow.datasets
                }
            ),
            "toolchains": _named({each.name: word(each.version) for each in flow.toolchains}),
            "env": words(flow.env) if flow.env else None,
            "determinism": word(flow.determinism),
            "replay": _replay(flow.replay),
            "entropy": _entropy(flow.entropy),
            "limits": _limits(flow.limits),
            "policy": _policy(flow),
            "verification": _verification(flow.verification),
            "protected_gates": _named({each.name: _protected(each) for each in flow.protected_gates}),
            "nodes": pairs({node: _node(nodes[node]) for node in plan.order}),
        }
    )


def _named(entries: dict[str, Tree]) -> Pairs | None:
    return Pairs(tuple(entries.items())) if entries else None


def _count(value: int | None) -> Inline | None:
    return None if value is None else Inline(str(value))


def _duration(value_us: int | None) -> Inline | None:
    return None if value_us is None else Inline(DURATION.show(value_us))


def _cost(value_uusd: int | None) -> Inline | None:
    return None if value_uusd is None else Inline(COST.show(value_uusd))


def _path(file: PinnedFile | None) -> Inline | None:
    return None if file is None else word(file.path)


def _flow_input(each: FlowInput) -> Pairs:
    # The default of a JSON input is JSON already.
    written = Inline if each.type is InputType.JSON else prose
    return pairs(
        {
            "type": word(each.type),
            "optional": flag(value=each.optional),
            "default": None if each.default is None else written(each.default),
        }
    )


def _replay(replay: ReplayContract) -> Pairs:
    envelope = {
        "min_claim_overlap": Inline(SCORE.show(replay.envelope.min_claim_overlap_ppm)),
        "max_contradiction_delta": _count(replay.envelope.max_contradiction_delta),
    }
    return pairs(
        {
            "mode": word(replay.mode),
            "acceptability": word(replay.acceptability),
            "envelope": pairs(envelope),
        }
    )


def _entropy(entropy: EntropyBudget) -> Pairs:
    per_source: dict[str, Tree] = {
        each.source: pairs({"max": word(each.max_magnitude), "on_exhaustion": word(each.on_exhaustion)})
        for each in entropy.per_source
    }
    intents = [
        pairs(
            {
                "source": word(each.source),
                "max": word(each.max_magnitude),
                "justification": prose(each.justification),
                "inferred": flag(value=True) if each.inferred else None,
            }
        )
        for each in entropy.intents
    ]
    return pairs(
        {
            "sources": words(entropy.sources),
            "max_magnitude": word(entropy.max_magnitude),
            "on_exhaustion": word(entropy.on_exhaustion),
            "per_source": _named(per_source),
            "intents": Items(tuple(intents)) if intents else None,
        }
    )


def _limits(limits: Limits) -> Pairs:
    return pairs(
        {
            "repair_reruns": _count(limits.repair_reruns),
            "attempts": _count(limits.attempts),
            "parallel": _count(limits.parallel),
            "wall_clock": _duration(limits.wall_clock_us),
            "tokens": _count(limits.tokens),
            "cost_usd": _cost(limits.cost_uusd),
            "tool_calls": _count(limits.tool_calls),
        }
    )


def _node_limits(limits: NodeLimits) -> Pairs | None:
    if limits == NodeLimits():
        return None
    return pairs(
        {
            "attempts": _count(limits.attempts),
            "wall_clock": _duration(limits.wall_clock_us),
            "tokens": _count(limits.tokens),
            "cost_usd": _cost(limits.cost_uusd),
            "tool_calls": _count(limits.tool_calls),
        }
    )


def _policy(flow: Flow) -> Inline | Lines | None:
    if flow.policy_inline is None:
        return _path(flow.policy)
    first, *rest = flow.policy_inline.split("\n")
    return Lines("", (first, *rest)) if rest else Inline(first)


def _verification(policy: VerificationPolicy) -> Pairs:
    quorum = pairs({"quorum": _count(policy.quorum)}) if policy.quorum else None
    return pairs(
        {
            "arbitration": quorum or word(policy.arbitration),
            "fail_on": words(policy.fail_on),
            "escalate_on": words(policy.escalate_on),
        }
    )


def _protected(gate: ProtectedGateSpec) -> Pairs:
    return pairs(
        {
            "good": None if gate.good is None else word(gate.good),
            "scenarios": words(gate.scenarios),
            "run": words(gate.run),
            "inputs": words(gate.inputs),
            "adapter": word(gate.adapter),
            "expect_base": word(gate.expect_base),
            "min_level": word(gate.min_level),
            "setup": _setup(gate.setup),
        }
    )


def _setup(setup: SetupSpec | None) -> Pairs | None:
    if setup is None:
        return None
    return pairs(
        {
            "run": prose(setup.run),
            "key": words(setup.key),
            "network": flag(value=setup.network),
            "timeout": _duration(setup.timeout_us),
        }
    )


def _node(node: Node) -> Pairs:
    needs = words(node.needs) if node.needs else None
    work = _work(node.work)
    if node.kind in {NodeKind.PROTECTED, NodeKind.APPROVAL}:
        return pairs({**work, "needs": needs})
    return pairs(
        {
            **work,
            "inputs": _named({each.name: _input(each) for each in node.inputs}),
            "needs": needs,
            "setup": _setup(node.setup),
            "gates": Items(tuple(_gate(each) for each in node.gates)) if node.gates else None,
            "outputs": _named({each.name: _output(each) for each in node.outputs}),
            "code": word(node.code),
            "network": flag(value=node.network),
            "env": words(node.env) if node.env else None,
            "timeout": _duration(node.timeout_us),
            "limits": _node_limits(node.limits),
        }
    )


def _work(work: Work) -> dict[str, Tree | None]:
    match work:
        case RunWork():
            return {"run": prose(work.run)}
        case AgentWork():
            return {"agent": _path(work.definition), **_prompt(work)}
        case AcpWork():
            agent = pairs({"command": words(work.command)}) if work.profile is None else word(work.profile)
            return {"acp": agent, **_prompt(work)}
        case ProtectedWork():
            return {"protected": word(work.gate)}
        case ApprovalWork():
            return {"approval": pairs({"ask": prose(work.ask), "show": words(work.show)})}


def _prompt(work: AgentWork | AcpWork) -> dict[str, Tree | None]:
    prompt = None if work.prompt is None else prose(work.prompt)
    return {"prompt": prompt, "prompt_file": _path(work.prompt_file)}


def _input(each: NodeInput) -> Tree:
    if each.match is None:
        return word(f"{each.node}.{each.output or '*'}")
    return pairs({"from": word(each.node), "match": word(each.match), "optional": flag(value=each.optional)})


def _gate(gate: GateSpec) -> Pairs:
    return pairs(
        {
            "name": word(gate.name),
            "run": prose(gate.run),
            "timeout": _duration(gate.timeout_us),
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
            "schema": _path(output.schema),
            "optional": flag(value=output.optional),
            "compare": _compare(output.compare),
        }
    )


def _compare(compare: CompareSpec) -> Tree:
    if compare.how is Comparison.JSON and compare.ignore:
        return pairs({"json": pairs({"ignore": words(compare.ignore)})})
    return word(compare.how)
