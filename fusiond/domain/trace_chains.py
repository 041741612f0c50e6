"""Prefix chains over a trace's events, and the root over everything compared.

`link[n] = H(link[n - 1], signature[n])`: two traces agree on their first n events of an
attempt exactly when their links at n are equal, so the first difference is found by a
binary search over links (`evidence.md`, DuckDB store).
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from fusiond.domain.digest import ZERO, Digest, digest_fields
from fusiond.domain.ids import NodeId
from fusiond.domain.trace import ChainEnd, TraceEvent

EXACT_TAG = "fusion.trace.exact.v1"
INVARIANT_TAG = "fusion.trace.invariant.v1"
ROOT_TAG = "fusion.trace.root.v1"


def exact_link(before: Digest, event: TraceEvent) -> Digest:
    """Return the link that follows `before` under exact_match: kind, stage and payload, in order."""
    return digest_fields(
        EXACT_TAG, (before.encode(), event.kind.encode(), event.exact.encode(), *_stage(event))
    )


def invariant_link(before: Digest, event: TraceEvent) -> Digest:
    """Return the link under invariant_preserving: kind, stage and what was judged, in order."""
    return digest_fields(
        INVARIANT_TAG, (before.encode(), event.kind.encode(), event.verdict.encode(), *_stage(event))
    )


def _stage(event: TraceEvent) -> tuple[bytes, bytes]:
    return (event.node or "").encode(), str(event.attempt).encode()


def links(events: Iterable[TraceEvent]) -> Iterator[tuple[Digest, Digest]]:
    """Yield the exact and the invariant link of each event of one (node, attempt)."""
    exact = invariant = ZERO
    for event in events:
        exact, invariant = exact_link(exact, event), invariant_link(invariant, event)
        yield exact, invariant


def chain_ends(events: Sequence[TraceEvent]) -> tuple[ChainEnd, ...]:
    """Return the last links of every (node, attempt), in the order of the events."""
    ends: list[ChainEnd] = []
    for (node, attempt), grouped in groupby(events, key=_place):
        of_place = tuple(grouped)
        *_, (exact, invariant) = links(of_place)
        ends.append(
            ChainEnd(node=node, attempt=attempt, events=len(of_place), exact=exact, invariant=invariant)
        )
    return tuple(ends)


def _place(event: TraceEvent) -> tuple[NodeId | None, int]:
    return event.node, event.attempt


def root_of(chains: Iterable[ChainEnd], groups: Iterable[tuple[str, Digest]]) -> Digest:
    """Return the root over the last links, in order, and one digest for every other record group."""
    fields = [each.exact.encode() for each in chains]
    for name, digest in groups:
        fields += [name.encode(), digest.encode()]
    return digest_fields(ROOT_TAG, fields)
