"""Which non-determinism follows from a node's kind (`flow.md`, The smallest useful flow).

A certain use is one that every run of the node has; a flow that declares its
sources must name those. The other inferred ones may come up in a run.
"""

from collections.abc import Iterable

from fusiond.codec.flowfile.sections.nodes import NodeDraft
from fusiond.codec.flowfile.sections.presumed import AGENTS
from fusiond.domain.flow import NodeKind
from fusiond.domain.replay_policy import EntropyIntent, EntropySource, Magnitude

EVIDENCE_MEDIA_TYPE = "application/vnd.fusion.evidence+json"
"""Media type of declared evidence (`flow.md`, Inputs and outputs)."""

_MAGNITUDES = {
    EntropySource.EXTERNAL_ORACLE: Magnitude.HIGH,
    EntropySource.HUMAN_INPUT: Magnitude.LOW,
    EntropySource.DATA: Magnitude.MEDIUM,
}

Uses = dict[EntropySource, tuple[str, str]]
"""For each source the first node, in name order, that uses it, and why in words."""


def certain_uses(nodes: Iterable[NodeDraft]) -> Uses:
    """Return the sources that every run of these nodes uses."""
    uses: Uses = {}
    for node in sorted(nodes, key=lambda each: each.id):
        if node.kind in AGENTS:
            uses.setdefault(EntropySource.EXTERNAL_ORACLE, (node.id, f"a model answers in {node.id}"))
        if node.kind is NodeKind.APPROVAL:
            uses.setdefault(EntropySource.HUMAN_INPUT, (node.id, f"a person decides in {node.id}"))
    return uses


def _possible_uses(nodes: Iterable[NodeDraft]) -> Uses:
    uses: Uses = {}
    for node in sorted(nodes, key=lambda each: each.id):
        if node.kind in AGENTS:
            uses.setdefault(EntropySource.HUMAN_INPUT, (node.id, f"a person may be asked about {node.id}"))
        if node.network and node.kind is NodeKind.RUN:
            uses.setdefault(EntropySource.DATA, (node.id, f"{node.id} may read the network"))
        if any(gate.network for gate in node.gates):
            uses.setdefault(EntropySource.DATA, (node.id, f"a gate of {node.id} may read the network"))
        if any(output.media_type == EVIDENCE_MEDIA_TYPE for output in node.outputs):
            uses.setdefault(EntropySource.DATA, (node.id, f"{node.id} retrieves evidence"))
    return uses


def inferred_intents(nodes: Iterable[NodeDraft]) -> tuple[EntropyIntent, ...]:
    """Return one intent for each source that the nodes use or may use, in the order of sources."""
    listed = tuple(nodes)
    uses = _possible_uses(listed) | certain_uses(listed)
    return tuple(
        EntropyIntent(
            source=source, max_magnitude=_MAGNITUDES[source], justification=uses[source][1], inferred=True
        )
        for source in EntropySource
        if source in uses
    )
