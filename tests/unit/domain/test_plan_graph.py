"""Dependency graphs: one order for one graph, cycles spelled out, levels, ancestors."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.domain.errors import InvalidError
from fusiond.domain.graph import ancestors, cycles, levels, spelled, topological_order
from fusiond.domain.ids import NodeId

Edges = dict[NodeId, list[NodeId]]


def graph(**needs: str) -> Edges:
    """Return a graph of nodes with one letter each."""
    return {NodeId(node): [NodeId(each) for each in needed] for node, needed in needs.items()}


@st.composite
def acyclic(draw: st.DrawFn) -> Edges:
    """Return a graph without cycles, its nodes in any order."""
    names = draw(st.lists(st.from_regex(r"[a-z]{1,3}", fullmatch=True).map(NodeId), max_size=8, unique=True))
    found: Edges = {}
    for index, name in enumerate(names):
        before = st.lists(st.sampled_from(names[:index]), unique=True) if index else st.just([])
        found[name] = draw(before)
    return dict(draw(st.permutations(list(found.items()))))


ANY = st.dictionaries(
    st.sampled_from("abcdef").map(NodeId),
    st.lists(st.sampled_from("abcdef").map(NodeId), max_size=4),
    max_size=6,
)


@given(acyclic())
def test_order_depends_on_the_graph_alone(edges: Edges) -> None:
    order = topological_order(edges)
    turned = {node: list(reversed(edges[node])) for node in reversed(edges)}
    assert topological_order(turned) == order


@given(acyclic())
def test_every_node_comes_once_and_after_all_it_waits_for(edges: Edges) -> None:
    order = topological_order(edges)
    assert sorted(order) == sorted(edges)
    for node, needs in edges.items():
        assert all(order.index(needed) < order.index(node) for needed in needs)


@given(acyclic())
def test_of_what_could_come_next_the_first_by_name_does(edges: Edges) -> None:
    done: list[NodeId] = []
    for node in topological_order(edges):
        ready = [each for each in edges if each not in done and set(edges[each]) <= set(done)]
        assert node == min(ready)
        done.append(node)


@given(acyclic())
def test_a_graph_in_order_has_no_cycle(edges: Edges) -> None:
    assert cycles(edges) == ()


@given(ANY)
def test_a_graph_has_an_order_or_cycles(edges: Edges) -> None:
    known = {node: [each for each in needs if each in edges] for node, needs in edges.items()}
    found = cycles(known)
    for cycle in found:
        assert cycle[0] == cycle[-1] == min(cycle)
        assert all(later in known[earlier] for earlier, later in pairwise(cycle))
    if found:
        with pytest.raises(InvalidError, match=spelled(found[0])):
            topological_order(known)
    else:
        assert len(topological_order(known)) == len(known)


def test_a_cycle_is_spelled_from_its_first_node_in_the_direction_of_waiting() -> None:
    assert [spelled(cycle) for cycle in cycles(graph(c="a", a="b", b="c"))] == ["a -> b -> c -> a"]


def test_of_a_knot_the_shortest_cycle_is_named_once() -> None:
    knot = graph(a="bc", b="a", c="b")
    assert [spelled(cycle) for cycle in cycles(knot)] == ["a -> b -> a"]


def test_separate_knots_are_each_named() -> None:
    assert len(cycles(graph(a="b", b="a", c="d", d="c", e="a"))) == 2


def test_a_node_that_waits_for_itself_is_a_cycle() -> None:
    assert [spelled(cycle) for cycle in cycles(graph(a="a"))] == ["a -> a"]


def test_a_missing_node_has_no_order_and_is_no_cycle() -> None:
    assert cycles(graph(a="z")) == ()
    with pytest.raises(InvalidError, match="a waits for z, which is no node"):
        topological_order(graph(a="z"))


@given(acyclic())
def test_levels_grow_along_edges_by_the_longest_chain(edges: Edges) -> None:
    found = levels(edges)
    for node, needs in edges.items():
        assert found[node] == max((found[needed] + 1 for needed in needs), default=0)


def test_ancestors_are_found_through_others() -> None:
    assert ancestors(graph(a="", b="a", c="b", d=""), NodeId("c")) == {"a", "b"}
    assert ancestors(graph(a="b", b="a"), NodeId("a")) == {"a", "b"}
    assert ancestors(graph(), NodeId("a")) == set()
