"""From a flow to its plan: canonical order of everything that has none, and the order of nodes.

A plan is a pure function of the flow: two files that declare the same things in
another order resolve to the same plan (`flow.md`, Inputs and outputs). Owns no
defaults and no pinning; `codec.flowfile` fills both in before.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from fusiond.domain.flow import Flow, Node, NodeKind, ResolvedFlow
from fusiond.domain.graph import topological_order
from fusiond.domain.replay_policy import EntropyBudget
from fusiond.domain.steps.run import StagePlan
from fusiond.domain.verification import VerificationPolicy

RESOLVER = "fusion.resolver.v1"
"""Version of the rules that fill defaults in and order a flow; part of every plan."""

Word = TypeVar("Word", bound=str)


def resolve(flow: Flow, explained: Iterable[tuple[str, str]] = ()) -> ResolvedFlow:
    """Fix the order of a flow.

    Args:
        flow: with every default filled in. Where the order of its entries means
            nothing, the plan has them sorted: nodes, inputs, outputs, names of any kind.
            Gates, arguments, intents and what an approval shows keep theirs.
        explained: `path, reason` of each value that a rule and not the file gave.

    Raises:
        InvalidError: a cycle, or a node that waits for one that is not there.
    """
    order = topological_order({node.id: node.dependencies for node in flow.nodes})
    return ResolvedFlow(
        flow=_canonical_flow(flow), order=order, resolver=RESOLVER, explained=tuple(sorted(explained))
    )


def _canonical_flow(flow: Flow) -> Flow:
    return replace(
        flow,
        inputs=tuple(sorted(flow.inputs, key=lambda each: each.name)),
        datasets=tuple(sorted(flow.datasets, key=lambda each: each.name)),
        entropy=_canonical_entropy(flow.entropy),
        verification=_canonical_verification(flow.verification),
        protected_gates=tuple(sorted(flow.protected_gates, key=lambda each: each.name)),
        toolchains=tuple(sorted(flow.toolchains, key=lambda each: each.name)),
        env=_sorted(flow.env),
        nodes=tuple(sorted((_canonical_node(node) for node in flow.nodes), key=lambda each: each.id)),
    )


def _canonical_node(node: Node) -> Node:
    return replace(
        node,
        inputs=tuple(sorted(node.inputs, key=lambda each: each.name)),
        needs=_sorted(node.needs),
        outputs=tuple(sorted(node.outputs, key=lambda each: each.name)),
        env=_sorted(node.env),
    )


def _canonical_entropy(entropy: EntropyBudget) -> EntropyBudget:
    return replace(
        entropy,
        sources=_sorted(entropy.sources),
        per_source=tuple(sorted(entropy.per_source, key=lambda each: each.source)),
    )


def _canonical_verification(policy: VerificationPolicy) -> VerificationPolicy:
    return replace(policy, fail_on=_sorted(policy.fail_on), escalate_on=_sorted(policy.escalate_on))


def _sorted(words: Iterable[Word]) -> tuple[Word, ...]:
    return tuple(sorted(set(words)))


def plan_stages(plan: ResolvedFlow) -> tuple[StagePlan, ...]:
    """Return what `decide` must know of each stage, in the plan's order."""
    nodes = {node.id: node for node in plan.flow.nodes}
    return tuple(_stage(nodes[node], plan.flow.limits.attempts) for node in plan.order)


def _stage(node: Node, flow_attempts: int) -> StagePlan:
    return StagePlan(
        node=node.id,
        kind=node.kind,
        needs=node.dependencies,
        gates=tuple(gate.name for gate in node.gates),
        code=node.code,
        attempts=_attempts(node, flow_attempts),
    )


def _attempts(node: Node, flow_attempts: int) -> int:
    """Return how often a stage may be tried: a judgement and a decision are made once."""
    if node.kind in {NodeKind.PROTECTED, NodeKind.APPROVAL}:
        return 1
    return node.limits.attempts or flow_attempts
