"""Dependency graphs of nodes: order, cycles, ancestors, levels.

A graph is a map from each node to the nodes it waits for. Owns nothing about
flows, so that readers and the resolver judge by the same rules.
"""

import heapq
from collections.abc import Collection, Mapping

from fusiond.domain.errors import InvalidError
from fusiond.domain.ids import NodeId

Graph = Mapping[NodeId, Collection[NodeId]]
"""Each node with the nodes it waits for."""


def topological_order(graph: Graph) -> tuple[NodeId, ...]:
    """Return the nodes so that each comes after all it waits for.

    Of the nodes that could come next, the lexically first does, so that the order
    depends on the graph alone.

    Raises:
        InvalidError: a node waits for one that is not there, or there is a cycle.
    """
    waiting = {node: set(needs) for node, needs in graph.items()}
    dependents = _dependents(graph)
    ready = [node for node, needs in waiting.items() if not needs]
    heapq.heapify(ready)
    order: list[NodeId] = []
    while ready:
        node = heapq.heappop(ready)
        order.append(node)
        for dependent in dependents[node]:
            waiting[dependent].discard(node)
            if not waiting[dependent]:
                heapq.heappush(ready, dependent)
    if len(order) < len(graph):
        raise InvalidError(f"cycle: {spelled(cycles(graph)[0])}", expected="a graph without cycles")
    return tuple(order)


def _dependents(graph: Graph) -> dict[NodeId, list[NodeId]]:
    dependents: dict[NodeId, list[NodeId]] = {node: [] for node in graph}
    for node, needs in graph.items():
        for needed in set(needs):
            if needed not in dependents:
                raise InvalidError(f"{node} waits for {needed}, which is no node", expected="a node")
            dependents[needed].append(node)
    return dependents


def cycles(graph: Graph) -> tuple[tuple[NodeId, ...], ...]:
    """Return one shortest cycle of each knot of nodes that wait for one another.

    Each starts and ends with the same node, the lexically first of its knot, and
    each node waits for the one after it. Nodes that are not in the graph are ignored.
    """
    found: list[tuple[NodeId, ...]] = []
    covered: set[NodeId] = set()
    for node in sorted(graph):
        if node in covered:
            continue
        if cycle := _shortest_cycle(graph, node):
            found.append(cycle)
            covered |= ancestors(graph, node) & _dependents_of_all(graph, node)
    return tuple(found)


def _shortest_cycle(graph: Graph, start: NodeId) -> tuple[NodeId, ...] | None:
    paths: list[tuple[NodeId, ...]] = [(start,)]
    seen: set[NodeId] = set()
    while paths:
        longer: list[tuple[NodeId, ...]] = []
        for path in paths:
            for needed in sorted(graph.get(path[-1], ())):
                if needed == start:
                    return (*path, start)
                if needed not in seen:
                    seen.add(needed)
                    longer.append((*path, needed))
        paths = longer
    return None


def _dependents_of_all(graph: Graph, node: NodeId) -> set[NodeId]:
    reversed_graph: dict[NodeId, list[NodeId]] = {}
    for dependent, needs in graph.items():
        for needed in needs:
            reversed_graph.setdefault(needed, []).append(dependent)
    return ancestors(reversed_graph, node)


def ancestors(graph: Graph, node: NodeId) -> set[NodeId]:
    """Return every node that `node` waits for, directly or through others.

    `node` itself is among them only where it is part of a cycle.
    """
    found: set[NodeId] = set()
    open_nodes = list(graph.get(node, ()))
    while open_nodes:
        each = open_nodes.pop()
        if each not in found:
            found.add(each)
            open_nodes.extend(graph.get(each, ()))
    return found


def levels(graph: Graph) -> dict[NodeId, int]:
    """Return for each node the length of the longest chain of nodes it waits for.

    Nodes of level 0 wait for none; nodes of one level never wait for one another.

    Raises:
        InvalidError: as `topological_order`.
    """
    found: dict[NodeId, int] = {}
    for node in topological_order(graph):
        found[node] = max((found[needed] + 1 for needed in graph[node]), default=0)
    return found


def spelled(cycle: Collection[NodeId]) -> str:
    """Return a cycle as people read it: `a -> b -> a`."""
    return " -> ".join(cycle)
