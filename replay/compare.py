"""What happened in two runs, held against each other: stages, gates, code, artifacts, events, claims.

Pure. Every function yields differences of one record group, each by itself; order and
causes are `replay.causes`.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeVar

from fusiond.domain.acceptability import Difference, DifferenceClass, DifferenceKind
from fusiond.domain.ids import NodeId
from fusiond.domain.replay_policy import Acceptability, Envelope
from fusiond.domain.steps.kinds import StepKind
from fusiond.domain.trace import (
    ExecutionTrace,
    StageEnd,
    TracedArtifact,
    TracedGate,
    TracedReceipt,
    TracedVerification,
    TraceEvent,
)

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
    in_the_end = acceptability is Acceptability.STATISTICALLY_BOUNDED
    yield from _stages(expected, observed)
    yield from _gates(expected, observed, last_round=in_the_end)
    yield from _arbitrations(expected, observed, last_attempt=in_the_end)
    yield from _protected(expected, observed)
    yield from _interventions(expected, observed)
    yield from _lasting(expected, observed)
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
        here, there = _stage_text(one), _stage_text(other)
        if some is None or here == there:
            continue
        both = one is not None and other is not None
        yield Difference(
            kind=DifferenceKind.STAGE_FAILED if both else DifferenceKind.STAGE_END_MISSING,
            found=_one_sided(one, other),
            node=some.node,
            expected=here,
            observed=there,
        )
    here = _with_paths(expected.outcome, expected.conflict_paths)
    there = _with_paths(observed.outcome, observed.conflict_paths)
    if here != there:
        yield Difference(
            kind=DifferenceKind.STAGE_FAILED,
            found=DifferenceClass.DIVERGED,
            name="run",
            expected=here,
            observed=there,
        )


def _stage_text(stage: StageEnd | None) -> str:
    if stage is None:
        return ""
    why = stage.block or stage.dependency
    return _with_paths(f"{stage.outcome} ({why})" if why else stage.outcome, stage.conflict_paths)


def _with_paths(outcome: str, paths: Sequence[str]) -> str:
    return f"{outcome}: {', '.join(paths)}" if paths else outcome


def _gates(expected: ExecutionTrace, observed: ExecutionTrace, *, last_round: bool) -> Iterator[Difference]:
    def place(gate: TracedGate) -> Hashable:
        return (gate.node, gate.gate) if last_round else (gate.node, gate.attempt, gate.round, gate.gate)

    for one, other in _paired(expected.groups.gates, observed.groups.gates, place):
        some = one or other
        if some is None or (one and other and one.outcome is other.outcome):
            continue
        yield Difference(
            kind=DifferenceKind.GATE_VERDICT,
            found=_one_sided(one, other),
            node=some.node,
            attempt=some.attempt,
            name=some.gate if last_round else f"{some.gate} in round {some.round}",
            expected=_gate_text(one),
            observed=_gate_text(other),
        )


def _gate_text(gate: TracedGate | None) -> str:
    if gate is None:
        return ""
    if gate.signal is not None:
        return f"{gate.outcome} (signal {gate.signal})"
    return gate.outcome if gate.exit_code in (None, 0) else f"{gate.outcome} (exit code {gate.exit_code})"


def _arbitrations(
    expected: ExecutionTrace, observed: ExecutionTrace, *, last_attempt: bool
) -> Iterator[Difference]:
    def place(verified: TracedVerification) -> Hashable:
        # Of several attempts the last one was decided over for the stage.
        return verified.node if last_attempt else (verified.node, verified.attempt)

    for one, other in _paired(expected.groups.verifications, observed.groups.verifications, place):
        some = one or other
        here, there = _decided(one, last=last_attempt), _decided(other, last=last_attempt)
        if some is not None and here != there:
            yield Difference(
                kind=DifferenceKind.ARBITRATION,
                found=_one_sided(here or None, there or None),
                node=some.node,
                attempt=some.attempt,
                expected=here,
                observed=there,
            )


def _decided(verified: TracedVerification | None, *, last: bool) -> str:
    if verified is None:
        return ""
    if last:
        return "".join(each.decision for each in verified.arbitrations[-1:])
    seen = [f"{each.engine} {each.status}" for each in verified.results]
    broken = [rule for each in verified.results for rule in each.rules_violated]
    decisions = ", ".join(each.decision for each in verified.arbitrations)
    return f"{decisions} ({', '.join(seen)}{'; violated: ' if broken else ''}{', '.join(broken)})"


def _protected(expected: ExecutionTrace, observed: ExecutionTrace) -> Iterator[Difference]:
    pairs = _paired(
        expected.groups.receipts, observed.groups.receipts, lambda each: (each.node, each.attempt, each.gate)
    )
    for one, other in pairs:
        some = one or other
        if some is None:
            continue
        packets = ("" if one is None else one.packet, "" if other is None else other.packet)
        for kind, (here, there) in (
            (DifferenceKind.GATE_PACKET, packets),
            (DifferenceKind.PROTECTED_VERDICT, (_receipt_text(one), _receipt_text(other))),
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


def _receipt_text(receipt: TracedReceipt | None) -> str:
    if receipt is None:
        return ""
    return f"{receipt.verdict} at level {receipt.level}{': ' if receipt.reason else ''}{receipt.reason}"


def _interventions(expected: ExecutionTrace, observed: ExecutionTrace) -> Iterator[Difference]:
    one, other = expected.groups.interventions, observed.groups.interventions
    if one != other:
        yield Difference(
            kind=DifferenceKind.HUMAN_INTERVENTION,
            found=_one_sided(one or None, other or None),
            expected="; ".join(each.what for each in one),
            observed="; ".join(each.what for each in other),
        )


def _lasting(expected: ExecutionTrace, observed: ExecutionTrace) -> Iterator[Difference]:
    here, there = Counter(expected.groups.lasting), Counter(observed.groups.lasting)
    for effect in dict.fromkeys((*here, *there)):
        if here[effect] != there[effect]:
            yield Difference(
                kind=DifferenceKind.LASTING_EFFECT,
                found=_one_sided(here[effect] or None, there[effect] or None),
                node=effect.node,
                attempt=effect.attempt,
                name=f"{effect.kind}: {effect.what}",
                expected=f"{here[effect]} times",
                observed=f"{there[effect]} times",
            )


def _revisions(expected: ExecutionTrace, observed: ExecutionTrace) -> Iterator[Difference]:
    pairs = _paired(
        expected.groups.revisions,
        observed.groups.revisions,
        lambda each: (each.node, each.attempt, each.when),
    )
    for one, other in pairs:
        # A round that only one of them had is a difference of events.
        if one is None or other is None:
            continue
        # Outputs that were frozen are compared one by one, as each of them says.
        outputs = ("", "") if one.frozen and other.frozen else (one.outputs, other.outputs)
        for kind, what, here, there in (
            (DifferenceKind.CODE_REVISION, "code", one.tree, other.tree),
            (DifferenceKind.ARTIFACT_CONTENT, "outputs", *outputs),
        ):
            if here != there:
                yield Difference(
                    kind=kind,
                    found=DifferenceClass.DIVERGED,
                    node=one.node,
                    attempt=one.attempt,
                    name=f"{what} {one.when}",
                    expected=here,
                    observed=there,
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
    statistical = acceptability is Acceptability.STATISTICALLY_BOUNDED
    if statistical:
        yield from _event_sets(expected.events, observed.events)
    one, other = _by_place(expected.events), _by_place(observed.events)
    for place in dict.fromkeys((*one, *other)):
        yield from _sequences(place, one.get(place, ()), other.get(place, ()), statistical=statistical)


def _by_place(events: Iterable[TraceEvent]) -> dict[Place, tuple[TraceEvent, ...]]:
    grouped = groupby(events, key=lambda event: (event.node, event.attempt))
    return {place: tuple(of_place) for place, of_place in grouped}


def _sequences(
    place: Place, one: Sequence[TraceEvent], other: Sequence[TraceEvent], *, statistical: bool
) -> Iterator[Difference]:
    node, attempt = place
    kinds, others = [each.kind for each in one], [each.kind for each in other]
    if kinds != others:
        if statistical:
            return
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
    for here, there in zip(one, other, strict=True):
        # Which calls an agent proposes may vary in numbers; what was decided over the same one may not.
        decided = here.kind is StepKind.TOOL_GATE_DECIDED and here.verdict != there.verdict
        if here.exact != there.exact:
            yield Difference(
                kind=DifferenceKind.TOOL_DECISION if decided else DifferenceKind.EVENT_PAYLOAD,
                found=DifferenceClass.DIVERGED,
                node=node,
                attempt=attempt,
                name=f"event {here.index} ({here.kind})",
                expected=here.verdict if decided else here.exact,
                observed=there.verdict if decided else there.exact,
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
