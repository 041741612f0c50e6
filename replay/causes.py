"""Differences in the order in which people read them: first divergence first, each with its cause upstream.

Pure. Finding differences is `replay.guard` and `replay.compare`.
"""

from collections.abc import Iterable, Sequence

from fusiond.domain.acceptability import PERMITTED, Difference, DifferenceClass, DifferenceKind
from fusiond.domain.evolve import replace
from fusiond.domain.graph import Graph, ancestors
from fusiond.domain.ids import NodeId
from fusiond.domain.replay_policy import Acceptability
from fusiond.domain.trace import ExecutionTrace


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

    causes = {node: _cause(node, moved, graph) for node in moved}

    def classed(difference: Difference) -> Difference:
        if difference.node is not None:
            cause = causes[difference.node]
        else:
            cause = next(iter(moved), None) if difference.kind in _OF_THE_RUN else None
        if cause is not None:
            return replace(difference, found=DifferenceClass.DOWNSTREAM, cause=cause)
        if difference.found is DifferenceClass.DIVERGED and difference.kind in PERMITTED[acceptability]:
            return replace(difference, found=DifferenceClass.DECLARED)
        return difference

    return tuple(sorted(map(classed, every), key=rank))


def _graph(expected: ExecutionTrace, observed: ExecutionTrace) -> Graph:
    needs = {each.node: each.needs for each in (*observed.groups.stages, *expected.groups.stages)}
    return {node: tuple(each for each in before if each in needs) for node, before in needs.items()}


def _cause(node: NodeId, moved: Sequence[NodeId], graph: Graph) -> NodeId | None:
    """Return the first node upstream that differs too."""
    upstream = ancestors(graph, node) - {node}
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
