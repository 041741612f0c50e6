"""Prefix chains say how far two lists of events agree, and nothing else does."""

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from fusiond.domain.digest import digest_bytes
from fusiond.domain.ids import NodeId
from fusiond.domain.steps.kinds import StepKind
from fusiond.domain.trace import TraceEvent
from fusiond.domain.trace_chains import chain_ends, links, root_of

NODE = NodeId("build")

events = st.builds(
    lambda kind, verdict, payload: (kind, verdict, payload),
    st.sampled_from([StepKind.TURN_STARTED, StepKind.TOOL_CALLED, StepKind.UNIT_GATE_FINISHED]),
    st.sampled_from(["", "passed", "failed"]),
    st.binary(max_size=1),
)
lists = st.lists(events, max_size=12)


def made(
    described: list[tuple[StepKind, str, bytes]], node: str = NODE, attempt: int = 1
) -> list[TraceEvent]:
    return [
        TraceEvent(
            node=NodeId(node),
            attempt=attempt,
            index=index,
            kind=kind,
            verdict=verdict,
            exact=digest_bytes(payload),
            seq=index,
            at_us=index,
        )
        for index, (kind, verdict, payload) in enumerate(described, 1)
    ]


def agreed(one: list[object], other: list[object]) -> int:
    for index, (here, there) in enumerate(zip(one, other, strict=False)):
        if here != there:
            return index
    return min(len(one), len(other))


@given(common=lists, left=lists, right=lists)
def test_links_are_equal_exactly_as_far_as_the_events_are(
    common: list[tuple[StepKind, str, bytes]],
    left: list[tuple[StepKind, str, bytes]],
    right: list[tuple[StepKind, str, bytes]],
) -> None:
    one, other = made(common + left), made(common + right)
    for place, signature in ((0, _exact), (1, _invariant)):
        here = [each[place] for each in links(one)]
        there = [each[place] for each in links(other)]
        wanted = agreed([signature(each) for each in one], [signature(each) for each in other])
        shorter = min(len(here), len(there))
        assert [here[i] == there[i] for i in range(shorter)] == [i < wanted for i in range(shorter)]
        assert bisect_left(range(shorter), 1, key=lambda i: int(here[i] != there[i])) == wanted


def _exact(event: TraceEvent) -> object:
    return event.kind, event.exact


def _invariant(event: TraceEvent) -> object:
    return event.kind, event.verdict


def test_a_chain_belongs_to_its_stage_and_attempt() -> None:
    described = [(StepKind.TURN_STARTED, "", b"a")]
    ends = chain_ends([*made(described), *made(described, attempt=2), *made(described, node="test")])
    assert [(each.node, each.attempt, each.events) for each in ends] == [
        ("build", 1, 1),
        ("build", 2, 1),
        ("test", 1, 1),
    ]
    assert len({each.exact for each in ends}) == len({each.invariant for each in ends}) == 3


def test_root_moves_with_every_part() -> None:
    ends = chain_ends(made([(StepKind.TURN_STARTED, "", b"a")]))
    other = chain_ends(made([(StepKind.TURN_STARTED, "", b"b")]))
    groups = [("tools", digest_bytes(b"1")), ("gates", digest_bytes(b"2"))]
    swapped = [("tools", digest_bytes(b"2")), ("gates", digest_bytes(b"1"))]
    roots = {root_of(ends, groups), root_of(other, groups), root_of(ends, swapped), root_of(ends, groups[:1])}
    assert len(roots) == 4
