"""What happened in two runs, held against each other: stages, gates, code, artifacts, events, claims.

Pure. Every function yields differences of one record group; `explained` puts them into
order, says which follow from which, and which the flow declared.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeVar

from fusiond.domain.acceptability import PERMITTED, Difference, DifferenceClass, DifferenceKind
from fusiond.domain.evolve import replace
from fusiond.domain.graph import Graph, ancestors
from fusiond.domain.ids import NodeId
from fusiond.domain.replay_policy import Acceptability, Envelope
from fusiond.domain.trace import ExecutionTrace, TracedArtifact, TraceEvent

T = TypeVar("T")
Alike = Callable[[TracedArtifact, TracedArtifact], bool]
"""Says whether two artifacts of one place count as equal under their output's `compare:`."""

Place = tuple[NodeId | None, int]

_PPM = 1_000_000


def same_bytes(one: TracedArtifact, other: TracedArtifact) -> bool:
    """Return whether two artifacts are equal byte for byte: `compare: bytes`, the default."""
    return (one.digest, one.media_type) == (other.digest, other.media_type)


def differences(
    expected: ExecutionTrace,
    observed: ExecutionTrace,
    acceptability: Acceptability,
    alike: Alike = same_bytes,
) -> Iterator[Difference]:
    """Yield everything in which two runs came out differently under an acceptability.

    Args:
        expected: the measure.
        observed: what is held against it.
        acceptability: decides which signature events have; in strict mode `exact_match`.
        alike: judges artifacts whose flow says how they are compared.
    """
    yield from _stages(expected, observed)
    yield from _gates(expected, observed)
    yield from _arbitrations(expected, observed)
    yield from _packets(expected, observed)
    yield from _interventions(expected, observed)
    yield from _revisions(expected, observed)
    yield from _artifacts(expected, observed, alike)
    yield from _events(expected, observed, acceptability)
    yield from _claims(expected, observed, acceptability)


def _paired(
    one: Iterable[T], other: Iterable[T], key: Callable[[T], Hashable]
) -> Iterator[tuple[T | None, T | None]]:
    left = {key(each): each for each in one}
    right = {key(each): each for each in other}
    for place in dict.fromkeys((*left, *right)):
        yield left.get(place), right.get(place)


def _one_sided(here: object, there: object) -> DifferenceClass:
    if there is None:
        return DifferenceClass.MISSING
    return DifferenceClass.EXTRA if here is None else DifferenceClass.DIVERGED


def _stages(expected: ExecutionTrace, observed: ExecutionTrace) -> Iterator[Difference]:
    pairs = _paired(expected.groups.stages, observed.groups.stages, lambda each: each.node)
    for one, other in pairs:
        some = one or other
        if some is None or (one and other and one.outcome is other.outcome):
            continue
        both = one is not None and other is not None
        yield Difference(
            kind=DifferenceKind.STAGE_FAILED if both else DifferenceKind.STAGE_END_MISSING,
            found=_one_sided(one, other),
            node=some.node,
            expected="" if one is None else one.outcome,
            observed="" if other is None else other.outcome,
        )
    if expected.outcome is not observed.outcome:
        yield Difference(
            kind=DifferenceKind.STAGE_FAILED,
            found=DifferenceClass.DIVERGED,
            name="run",
            expected=expected.outcome,
            observed=observed.outcome,
        )


def _gates(expected: ExecutionTrace, observed: ExecutionTrace) -> Iterator[Difference]:
    pairs = _paired(
        expected.groups.gates,
        observed.groups.gates,
        lambda each: (each.node, each.attempt, each.round, each.gate),
    )
    for one, other in pairs:
        some = one or other
        if some is not None and one != other:
            yield Difference(
                kind=DifferenceKind.GATE_VERDICT,
                found=_one_sided(one, other),
                node=some.node,
                attempt=some.attempt,
                name=f"{some.gate} in round {some.round}",
                expected="" if one is None else _gate_text(one.outcome, one.exit_code, one.signal),
                observed="" if other is None else _gate_text(other.outcome, other.exit_code, other.signal),
            )


def _gate_text(outcome: str, exit_code: int | None, signal: int | None) -> str:
    if signal is not None:
        return f"{outcome} (signal {signal})"
    return outcome if exit_code in (None, 0) else f"{outcome} (exit code {exit_code})"


def _arbitrations(expected: ExecutionTrace, observed: ExecutionTrace) -> Iterator[Difference]:
    # Of several attempts the last one was decided over for the stage.
    one = {each.node: each for each in expected.groups.verifications}
    other = {each.node: each for each in observed.groups.verifications}
    for node in dict.fromkeys((*one, *other)):
        here, there = _decided(one.get(node)), _decided(other.get(node))
        if here != there:
            yield Difference(
                kind=DifferenceKind.ARBITRATION,
                found=_one_sided(here or None, there or None),
                node=node,
                expected=here,
                observed=there,
            )


def _decided(verification: object) -> str:
    arbitration = getattr(verification, "arbitration", None)
    if arbitration is None:
        return ""
    engines = zip(arbitration.engines, arbitration.statuses, strict=True)
    return f"{arbitration.decision} ({', '.join(f'{engine} {status}' for engine, status in engines)})"


def _packets(expected: ExecutionTrace, observed: ExecutionTrace) -> Iterator[Difference]:
    pairs = _paired(
        expected.groups.receipts, observed.groups.receipts, lambda each: (each.node, each.attempt, each.gate)
    )
    for one, other in pairs:
        some = one or other
        if some is None:
            continue
        packets = ("" if one is None else one.packet, "" if other is None else other.packet)
        verdicts = ("" if one is None else one.verdict, "" if other is None else other.verdict)
        for kind, (here, there) in (
            (DifferenceKind.GATE_PACKET, packets),
            (DifferenceKind.GATE_VERDICT, verdicts),
        ):
            if here != there:
                yield Difference(
                    kind=kind,
                    found=_one_sided(one, other),
                    node=some.node,
                    attempt=some.attempt,
                    name=some.gate,
                    expected=here,
                    observed=there,
                )


def _interventions(expected: ExecutionTrace, observed: ExecutionTrace) -> Iterator[Difference]:
    one, other = expected.groups.interventions, observed.groups.interventions
    if one != other:
        yield Difference(
            kind=DifferenceKind.HUMAN_INTERVENTION,
            found=_one_sided(one or None, other or None),
            expected=", ".join(each.what for each in one),
            observed=", ".join(each.what for each in other),
        )


def _revisions(expected: ExecutionTrace, observed: ExecutionTrace) -> Iterator[Difference]:
    pairs = _paired(
        expected.groups.revisions,
        observed.groups.revisions,
        lambda each: (each.node, each.attempt, each.round),
    )
    for one, other in pairs:
        # A round that only one of them had is a difference of events.
        if one is not None and other is not None and one.tree != other.tree:
            yield Difference(
                kind=DifferenceKind.CODE_REVISION,
                found=DifferenceClass.DIVERGED,
                node=one.node,
                attempt=one.attempt,
                name=f"code before round {one.round}",
                expected=one.tree,
                observed=other.tree,
            )
    if expected.result_tree != observed.result_tree:
        yield Difference(
            kind=DifferenceKind.CODE_REVISION,
            found=_one_sided(expected.result_tree, observed.result_tree),
            name="result",
            expected=expected.result_tree or "",
            observed=observed.result_tree or "",
        )


def _artifacts(expected: ExecutionTrace, observed: ExecutionTrace, alike: Alike) -> Iterator[Difference]:
    pairs = _paired(
        expected.groups.artifacts,
        observed.groups.artifacts,
        lambda each: (each.node, each.attempt, each.output, each.path),
    )
    for one, other in pairs:
        some = one or other
        if some is None or (one and other and alike(one, other)):
            continue
        both = one is not None and other is not None
        yield Difference(
            kind=DifferenceKind.ARTIFACT_CONTENT if both else DifferenceKind.ARTIFACT_SET,
            found=_one_sided(one, other),
            node=some.node,
            attempt=some.attempt,
            name=some.path if some.output is None else f"{some.output} ({some.path})",
            expected="" if one is None else one.digest,
            observed="" if other is None else other.digest,
        )


def _events(
    expected: ExecutionTrace, observed: ExecutionTrace, acceptability: Acceptability
) -> Iterator[Difference]:
    if acceptability is Acceptability.STATISTICALLY_BOUNDED:
        yield from _event_sets(expected.events, observed.events)
        return
    exactly = acceptability is Acceptability.EXACT_MATCH
    one, other = _by_place(expected.events), _by_place(observed.events)
    for place in dict.fromkeys((*one, *other)):
        yield from _sequences(place, one.get(place, ()), other.get(place, ()), exactly=exactly)


def _by_place(events: Iterable[TraceEvent]) -> dict[Place, tuple[TraceEvent, ...]]:
    grouped = groupby(events, key=lambda event: (event.node, event.attempt))
    return {place: tuple(of_place) for place, of_place in grouped}


def _sequences(
    place: Place, one: Sequence[TraceEvent], other: Sequence[TraceEvent], *, exactly: bool
) -> Iterator[Difference]:
    node, attempt = place
    kinds, others = [each.kind for each in one], [each.kind for each in other]
    if kinds != others:
        index = _first_difference(kinds, others)
        same = Counter(kinds) == Counter(others)
        yield Difference(
            kind=DifferenceKind.EVENT_ORDER if same else DifferenceKind.EVENT_SET,
            found=_one_sided(one or None, other or None),
            node=node,
            attempt=attempt,
            name=f"event {index + 1}",
            expected=kinds[index] if index < len(kinds) else "",
            observed=others[index] if index < len(others) else "",
        )
        return
    for here, there in zip(one, other, strict=True) if exactly else ():
        if here.exact != there.exact:
            yield Difference(
                kind=DifferenceKind.EVENT_PAYLOAD,
                found=DifferenceClass.DIVERGED,
                node=node,
                attempt=attempt,
                name=f"event {here.index} ({here.kind})",
                expected=here.verdict or here.exact,
                observed=there.verdict or there.exact,
            )


def _first_difference(one: Sequence[str], other: Sequence[str]) -> int:
    for index, (here, there) in enumerate(zip(one, other, strict=False)):
        if here != there:
            return index
    return min(len(one), len(other))


def _event_sets(one: Iterable[TraceEvent], other: Iterable[TraceEvent]) -> Iterator[Difference]:
    here = Counter((each.node, each.kind) for each in one)
    there = Counter((each.node, each.kind) for each in other)
    for node, kind in dict.fromkeys((*here, *there)):
        counts = here[node, kind], there[node, kind]
        if counts[0] != counts[1]:
            yield Difference(
                kind=DifferenceKind.EVENT_SET,
                found=_one_sided(counts[0] or None, counts[1] or None),
                node=node,
                name=kind,
                expected=f"{counts[0]} times",
                observed=f"{counts[1]} times",
            )


def _claims(
    expected: ExecutionTrace, observed: ExecutionTrace, acceptability: Acceptability
) -> Iterator[Difference]:
    bounds = Envelope()
    if acceptability is Acceptability.STATISTICALLY_BOUNDED:
        bounds = expected.head.replay.envelope
    one, other = set(expected.claims), set(observed.claims)
    overlap = len(one & other) * _PPM // len(one) if one else _PPM
    exact = acceptability is not Acceptability.STATISTICALLY_BOUNDED
    if overlap < bounds.min_claim_overlap_ppm or (exact and one != other):
        yield Difference(
            kind=DifferenceKind.CLAIM_OVERLAP,
            found=DifferenceClass.DIVERGED,
            name="claims",
            expected=f"overlap of at least {bounds.min_claim_overlap_ppm} ppm",
            observed=f"{overlap} ppm; {len(one - other)} missing, {len(other - one)} extra",
        )
    if abs(expected.contradictions - observed.contradictions) > bounds.max_contradiction_delta:
        yield Difference(
            kind=DifferenceKind.CONTRADICTIONS,
            found=DifferenceClass.DIVERGED,
            name="contradictions",
            expected=str(expected.contradictions),
            observed=str(observed.contradictions),
        )


def explained(
    found: Iterable[Difference],
    expected: ExecutionTrace,
    observed: ExecutionTrace,
    acceptability: Acceptability,
) -> tuple[Difference, ...]:
    """Return differences in topological order, with what upstream explains them and what was declared.

    What binds the traces comes first, then nodes in order, then what the runs as a whole came to.
    """
    every = tuple(found)
    order = {node: place for place, node in enumerate(dict.fromkeys((*expected.nodes, *observed.nodes)))}
    moved = sorted({each.node for each in every if each.node is not None}, key=lambda node: order[node])
    graph = _graph(expected, observed)

    def rank(difference: Difference) -> int:
        if difference.node is not None:
            return order[difference.node]
        return len(order) if difference.kind in _OF_THE_RUN else -1

    def classed(difference: Difference) -> Difference:
        cause = _cause(difference, moved, graph)
        if cause is not None:
            return replace(difference, found=DifferenceClass.DOWNSTREAM, cause=cause)
        if difference.found is DifferenceClass.DIVERGED and difference.kind in PERMITTED[acceptability]:
            return replace(difference, found=DifferenceClass.DECLARED)
        return difference

    return tuple(sorted(map(classed, every), key=rank))


def _graph(expected: ExecutionTrace, observed: ExecutionTrace) -> Graph:
    needs = {each.node: each.needs for each in (*observed.groups.stages, *expected.groups.stages)}
    return {node: tuple(each for each in before if each in needs) for node, before in needs.items()}


def _cause(difference: Difference, moved: Sequence[NodeId], graph: Graph) -> NodeId | None:
    """Return the first node upstream that differs too; of a whole run, the first of all."""
    if difference.node is None:
        return next(iter(moved), None) if difference.kind in _OF_THE_RUN else None
    if difference.node not in graph:
        return None
    upstream = ancestors(graph, difference.node) - {difference.node}
    return next((each for each in moved if each in upstream), None)


_OF_THE_RUN = frozenset(
    {
        DifferenceKind.STAGE_FAILED,
        DifferenceKind.CODE_REVISION,
        DifferenceKind.EVENT_PAYLOAD,
        DifferenceKind.EVENT_ORDER,
        DifferenceKind.EVENT_SET,
        DifferenceKind.CLAIM_OVERLAP,
        DifferenceKind.CONTRADICTIONS,
    }
)
"""Kinds that, without a node, say what a whole run came to rather than what it was bound to."""
