"""From a draft without problems to a flow with every default filled in and explained.

Owns the defaults that depend on other values; a default that is one value is in
the table of its section.
"""

from fusiond.codec.flowfile.problems import KeyPath
from fusiond.codec.flowfile.reading.report import Report
from fusiond.codec.flowfile.sections.contracts import (
    EntropyDraft,
    LimitsDraft,
    ReplayDraft,
    SliceDraft,
)
from fusiond.codec.flowfile.sections.flow import FlowDraft
from fusiond.codec.flowfile.sections.inferred import inferred_intents
from fusiond.codec.flowfile.sections.nodes import InputDraft, NodeDraft
from fusiond.codec.flowfile.sections.presumed import AGENTS, JUDGES, presumed_code
from fusiond.domain.flow import (
    Flow,
    Limits,
    Node,
    NodeInput,
    PinnedFile,
)
from fusiond.domain.ids import NodeId, OutputName, TenantId
from fusiond.domain.replay_policy import (
    Acceptability,
    Determinism,
    EntropyBudget,
    EntropyIntent,
    EntropySlice,
    EntropySource,
    Magnitude,
    ReplayContract,
    ReplayMode,
)

_MAGNITUDES = list(Magnitude)
_MODES = {
    Determinism.STRICT: ReplayMode.STRICT,
    Determinism.BOUNDED: ReplayMode.BOUNDED,
    Determinism.PROBABILISTIC: ReplayMode.BOUNDED,
    Determinism.UNCONSTRAINED: ReplayMode.OBSERVATIONAL,
}


def fill_in(draft: FlowDraft, report: Report) -> Flow | None:
    """Return the flow that a draft means, and explain in the report what the draft did not say.

    Args:
        draft: without problems; None is returned where a section is missing all the same.
        report: takes the explanations.
    """
    if draft.replay is None or draft.entropy is None or draft.limits is None:
        return None
    determinism = _determinism(draft, report)
    limits = _limits(draft.limits)
    return Flow(
        name=draft.name,
        tenant=TenantId(draft.tenant),
        state=draft.state,
        inputs=draft.inputs,
        datasets=draft.datasets,
        determinism=determinism,
        replay=_replay(draft.replay, determinism, report),
        entropy=_entropy(draft, draft.entropy, report),
        limits=limits,
        policy=draft.policy if isinstance(draft.policy, PinnedFile) else None,
        policy_inline=draft.policy if isinstance(draft.policy, str) else None,
        verification=draft.verification,
        protected_gates=draft.protected_gates,
        toolchains=draft.toolchains,
        env=draft.env,
        nodes=tuple(node for each in draft.nodes if (node := _node(each, draft, limits, report))),
    )


def _determinism(draft: FlowDraft, report: Report) -> Determinism:
    if draft.determinism is not None:
        return draft.determinism
    agents = any(node.kind in AGENTS for node in draft.nodes)
    report.explain(("determinism",), "there are agents" if agents else "there are no agents")
    return Determinism.BOUNDED if agents else Determinism.STRICT


def _limits(draft: LimitsDraft) -> Limits:
    return Limits(
        repair_reruns=draft.repair_reruns,
        attempts=draft.attempts,
        parallel=draft.parallel,
        wall_clock_us=draft.wall_clock_us,
        tokens=draft.tokens,
        cost_uusd=draft.cost_uusd,
        tool_calls=draft.tool_calls,
    )


def _replay(draft: ReplayDraft, determinism: Determinism, report: Report) -> ReplayContract:
    mode = draft.mode
    if mode is None:
        mode = _MODES[determinism]
        report.explain(("replay", "mode"), f"determinism is {determinism}")
    acceptability = draft.acceptability
    if acceptability is None:
        acceptability = _acceptability(mode, determinism)
        report.explain(("replay", "acceptability"), f"mode is {mode}, determinism is {determinism}")
    return ReplayContract(mode=mode, acceptability=acceptability, envelope=draft.envelope)


def _acceptability(mode: ReplayMode, determinism: Determinism) -> Acceptability:
    if mode is ReplayMode.STRICT:
        return Acceptability.EXACT_MATCH
    if determinism in {Determinism.STRICT, Determinism.BOUNDED}:
        return Acceptability.INVARIANT_PRESERVING
    return Acceptability.STATISTICALLY_BOUNDED


def _entropy(draft: FlowDraft, entropy: EntropyDraft, report: Report) -> EntropyBudget:
    intents = _intents(draft, entropy, report)
    sources = entropy.sources
    if sources is None:
        named = {each.source for each in intents} | {each.source for each in entropy.per_source}
        sources = tuple(source for source in EntropySource if source in named)
        report.explain(("entropy", "sources"), "what nodes, intents and slices name")
    most = entropy.max_magnitude
    if most is None:
        used = [each.max_magnitude for each in intents]
        used += [each.max_magnitude for each in entropy.per_source]
        most = max(used, key=_MAGNITUDES.index, default=Magnitude.LOW)
        report.explain(("entropy", "max_magnitude"), "the most that an intent needs")
    return EntropyBudget(
        sources=sources,
        max_magnitude=most,
        on_exhaustion=entropy.on_exhaustion,
        per_source=tuple(_slice(each, entropy, report) for each in entropy.per_source),
        intents=intents,
    )


def _intents(draft: FlowDraft, entropy: EntropyDraft, report: Report) -> tuple[EntropyIntent, ...]:
    """Return the declared intents, then one for each use that the flow admits and gives no reason for."""
    declared = entropy.intents or ()
    reasoned = {each.source for each in declared}
    inferred = tuple(
        each
        for each in inferred_intents(draft.nodes)
        if each.source not in reasoned and (entropy.sources is None or each.source in entropy.sources)
    )
    for index, _ in enumerate(inferred, start=len(declared)):
        report.explain(("entropy", "intents", index), "inferred from the kinds of nodes")
    return (*declared, *inferred)


def _slice(draft: SliceDraft, entropy: EntropyDraft, report: Report) -> EntropySlice:
    if draft.on_exhaustion is None:
        report.explain(("entropy", "per_source", draft.source, "on_exhaustion"), "as for every source")
    return EntropySlice(
        source=EntropySource(draft.source),
        max_magnitude=draft.max_magnitude,
        on_exhaustion=draft.on_exhaustion or entropy.on_exhaustion,
    )


def _node(draft: NodeDraft, flow: FlowDraft, limits: Limits, report: Report) -> Node | None:
    if draft.work is None:
        return None
    path: KeyPath = ("nodes", draft.id)
    network = draft.network
    if network is None:
        network = draft.kind in AGENTS
    timeout_us = draft.timeout_us
    if timeout_us is None and draft.kind not in JUDGES:
        timeout_us = draft.limits.wall_clock_us or limits.wall_clock_us
    if draft.kind not in JUDGES:
        _explain_node(draft, path, report)
    return Node(
        id=NodeId(draft.id),
        work=draft.work,
        inputs=tuple(_input(each, flow, (*path, "inputs"), report) for each in draft.inputs),
        needs=tuple(NodeId(each) for each in draft.needs),
        outputs=draft.outputs,
        gates=draft.gates,
        setup=draft.setup,
        code=presumed_code(draft.kind, draft.code),
        network=network,
        env=draft.env,
        timeout_us=timeout_us,
        limits=draft.limits,
    )


def _explain_node(draft: NodeDraft, path: KeyPath, report: Report) -> None:
    agent = draft.kind in AGENTS
    if draft.code is None:
        report.explain((*path, "code"), "agents write" if agent else "commands read")
    if draft.network is None:
        reason = "agents reach their model" if agent else "commands reach nothing unless they say so"
        report.explain((*path, "network"), reason)
    if draft.timeout_us is None:
        report.explain((*path, "timeout"), "the wall clock")


def _input(draft: InputDraft, flow: FlowDraft, path: KeyPath, report: Report) -> NodeInput:
    optional = draft.optional
    if optional is None:
        optional = _is_optional(draft, flow)
        if optional:
            report.explain((*path, draft.name), "optional, as the output is")
    named = draft.output not in {None, "*"}
    return NodeInput(
        name=draft.name,
        node=NodeId(draft.node),
        output=OutputName(draft.output) if named and draft.output else None,
        match=draft.match,
        optional=optional,
    )


def _is_optional(draft: InputDraft, flow: FlowDraft) -> bool:
    outputs = (output for node in flow.nodes if node.id == draft.node for output in node.outputs)
    return any(output.name == draft.output and output.optional for output in outputs)
