"""A plan written out as a flow file: every value, and a comment where a rule and not the file gave it.

Reading the text again gives the same plan (`fusion flow check --explain`).
"""

from fusiond.codec.flowfile.explain_node import explained_node, explained_setup, file_path
from fusiond.codec.flowfile.shape.layout import (
    Inline,
    Items,
    Lines,
    Pairs,
    Tree,
    cost,
    duration,
    flag,
    laid_out,
    named,
    number,
    pairs,
    prose,
    word,
    words,
)
from fusiond.codec.flowfile.shape.units import SCORE
from fusiond.domain.flow import Flow, FlowInput, InputType, Limits, ProtectedGateSpec, ResolvedFlow
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
            "inputs": named({each.name: _flow_input(each) for each in flow.inputs}),
            "datasets": named(
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
            "toolchains": named({each.name: word(each.version) for each in flow.toolchains}),
            "env": words(flow.env) if flow.env else None,
            "determinism": word(flow.determinism),
            "replay": _replay(flow.replay),
            "entropy": _entropy(flow.entropy),
            "limits": _limits(flow.limits),
            "policy": _policy(flow),
            "verification": _verification(flow.verification),
            "protected_gates": named({each.name: _protected(each) for each in flow.protected_gates}),
            "nodes": pairs({node: explained_node(nodes[node]) for node in plan.order}),
        }
    )


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
        "max_contradiction_delta": number(replay.envelope.max_contradiction_delta),
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
            "per_source": named(per_source),
            "intents": Items(tuple(intents)) if intents else None,
        }
    )


def _limits(limits: Limits) -> Pairs:
    return pairs(
        {
            "repair_reruns": number(limits.repair_reruns),
            "attempts": number(limits.attempts),
            "parallel": number(limits.parallel),
            "wall_clock": duration(limits.wall_clock_us),
            "tokens": number(limits.tokens),
            "cost_usd": cost(limits.cost_uusd),
            "tool_calls": number(limits.tool_calls),
        }
    )


def _policy(flow: Flow) -> Inline | Lines | None:
    if flow.policy_inline is None:
        return file_path(flow.policy)
    first, *rest = flow.policy_inline.split("\n")
    return Lines("", (first, *rest)) if rest else Inline(first)


def _verification(policy: VerificationPolicy) -> Pairs:
    quorum = pairs({"quorum": number(policy.quorum)}) if policy.quorum else None
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
            "setup": explained_setup(gate.setup),
        }
    )
