"""Rules of what a flow promises: protected gates, determinism, entropy, verification."""

from collections.abc import Collection

from fusiond.codec.flowfile.problems import FlowProblemCode, KeyPath, near_miss, one_of
from fusiond.codec.flowfile.reading.report import Report
from fusiond.codec.flowfile.reading.tree import quoted
from fusiond.codec.flowfile.sections.contracts import EntropyDraft
from fusiond.codec.flowfile.sections.flow import FlowDraft
from fusiond.codec.flowfile.sections.gates import Adapter, Level
from fusiond.codec.flowfile.sections.inferred import certain_uses, inferred_intents
from fusiond.codec.flowfile.sections.presumed import AGENTS
from fusiond.domain.flow import AcpWork, ProtectedWork
from fusiond.domain.replay_policy import Determinism, EntropySource, Magnitude

_MAGNITUDES = list(Magnitude)


def check_governance(draft: FlowDraft, profiles: Collection[str], report: Report) -> None:
    """Report promises that the flow's own nodes contradict.

    Args:
        draft: the flow.
        profiles: known agent profiles; empty where they are not known.
        report: takes the problems.
    """
    _check_gates(draft, report)
    _check_profiles(draft, profiles, report)
    _check_determinism(draft, report)
    if draft.entropy is not None:
        _check_sources(draft, draft.entropy, report)
        _check_slices(draft.entropy, report)
        _check_intents(draft, draft.entropy, report)
    both = set(draft.verification.fail_on) & set(draft.verification.escalate_on)
    for spot in report.items(("verification", "escalate_on")):
        if spot.text in both:
            report.wrong(spot, "a rule that is not in fail_on as well", code=FlowProblemCode.DUPLICATE)


def _check_gates(draft: FlowDraft, report: Report) -> None:
    gates = {gate.name: gate for gate in draft.protected_gates}
    works = {node.id: node.work for node in draft.nodes if isinstance(node.work, ProtectedWork)}
    for node, work in works.items():
        path: KeyPath = ("nodes", node, "protected")
        if work.gate and work.gate not in gates:
            found, suggestion = f"the unknown gate {quoted(work.gate)}", near_miss(work.gate, list(gates))
            expected = one_of("protected gates", list(gates))
            report.at(path, FlowProblemCode.UNKNOWN_GATE, found, expected, suggestion=suggestion)
    for gate in draft.protected_gates:
        path = ("protected_gates", gate.name)
        judged = {work.gate for work in works.values()}
        if gate.name not in judged and judged <= gates.keys():
            found, expected = "a gate that no node judges", "a node with protected: that names it"
            cure = "a merge waits for the receipt of every protected gate"
            report.at(path, FlowProblemCode.UNUSED_GATE, found, expected, cure=cure)
        if gate.adapter == Adapter.NONE and gate.min_level == Level.EVIDENCED:
            expected = "an adapter, or min_level: sealed; without a test report nothing is evidenced"
            report.at((*path, "adapter"), FlowProblemCode.VALUE, "min_level evidenced, no adapter", expected)


def _check_profiles(draft: FlowDraft, profiles: Collection[str], report: Report) -> None:
    for node in draft.nodes:
        profile = node.work.profile if isinstance(node.work, AcpWork) else None
        if not profiles or profile is None or profile in profiles:
            continue
        path: KeyPath = ("nodes", node.id, "acp", "profile")
        path = path if report.spot(path) else path[:-1]
        found, suggestion = f"the unknown profile {quoted(profile)}", near_miss(profile, list(profiles))
        expected, cure = one_of("profiles", list(profiles)), "give any other agent as command: […]"
        report.at(path, FlowProblemCode.UNKNOWN_PROFILE, found, expected, suggestion=suggestion, cure=cure)


def _check_determinism(draft: FlowDraft, report: Report) -> None:
    agents = [node.id for node in draft.nodes if node.kind in AGENTS]
    if draft.determinism is Determinism.STRICT and agents:
        found = f'"strict" with the agent {agents[0]}'
        expected = (
            "bounded, probabilistic or unconstrained: a model's answer does not come out the same again"
        )
        report.at(("determinism",), FlowProblemCode.DETERMINISM, found, expected, suggestion="bounded")


def _check_sources(draft: FlowDraft, entropy: EntropyDraft, report: Report) -> None:
    if entropy.sources is None:
        return
    for source, (node, why) in certain_uses(draft.nodes).items():
        if source not in entropy.sources:
            found = f"no {source}, although {why}"
            path, expected = ("entropy", "sources"), f"{source} among the sources, for node {node}"
            report.at(path, FlowProblemCode.ENTROPY, found, expected)
    for spot in report.items(("entropy", "intents")):
        place = report.spot((*spot.path, "source"))
        if place and place.text in set(EntropySource) - set(entropy.sources):
            report.wrong(place, "one of entropy.sources", code=FlowProblemCode.ENTROPY)
    for each in entropy.per_source:
        slice_place = report.spot(("entropy", "per_source", each.source))
        if slice_place and each.source in set(EntropySource) - set(entropy.sources):
            found, expected = quoted(each.source), "one of entropy.sources"
            report.add(FlowProblemCode.ENTROPY, slice_place.key, slice_place.path, found, expected)


def _check_slices(entropy: EntropyDraft, report: Report) -> None:
    for each in entropy.per_source:
        spot = report.spot(("entropy", "per_source", each.source, "max"))
        most = entropy.max_magnitude
        if spot and most and _MAGNITUDES.index(each.max_magnitude) > _MAGNITUDES.index(most):
            report.wrong(spot, f"at most max_magnitude, {most}", code=FlowProblemCode.ENTROPY)


def _check_intents(draft: FlowDraft, entropy: EntropyDraft, report: Report) -> None:
    """Report intents that say they were inferred and could not have been."""
    possible = inferred_intents(draft.nodes)
    for spot, intent in zip(report.items(("entropy", "intents")), entropy.intents or (), strict=False):
        if intent.inferred and intent not in possible:
            expected = "no such key in an intent that a person wrote"
            report.at((*spot.path, "inferred"), FlowProblemCode.ENTROPY, "true", expected)
