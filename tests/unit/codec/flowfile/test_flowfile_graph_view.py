"""A plan's graph as text and as a Mermaid flowchart."""

from fusiond.codec.flowfile.graph_view import graph_mermaid, graph_text
from fusiond.domain.flow import ResolvedFlow
from fusiond.domain.plan import resolve
from tests.unit.codec.flowfile.marked import good


def plan(nodes: str) -> ResolvedFlow:
    """Return the plan of a flow with these nodes."""
    return resolve(good(f"flow: f\nnodes:\n{nodes}"))


DIAMOND = """\
  end: {run: make, inputs: {l: left.o, r: right.*}}
  left: {run: x, needs: [top], outputs: {o: {path: o}, n: {path: n, optional: true}}}
  right: {acp: codex, prompt: x, needs: [top], gates: [t], outputs: {o: {path: o}}}
  top: {run: x}
"""


def test_levels_hold_what_may_run_at_once() -> None:
    assert graph_text(plan(DIAMOND)) == (
        "f: 4 nodes in 3 levels\n\n"
        "level 1\n  top  run: x\n\n"
        "level 2\n  left  run: x\n    after top\n    makes n?, o\n"
        "  right  acp: codex, writes code\n    after top\n    gates gate-1\n    makes o\n\n"
        "level 3\n  end  run: make\n    after left (o), right (*)\n"
    )


def test_mermaid_numbers_nodes_and_labels_edges() -> None:
    assert graph_mermaid(plan(DIAMOND)) == (
        "flowchart TD\n"
        '  n1["top<br/>run"]\n  n2["left<br/>run"]\n  n3("right<br/>acp")\n  n4["end<br/>run"]\n'
        '  n1 --> n2\n  n1 --> n3\n  n2 -->|"o"| n4\n  n3 -->|"all"| n4\n'
    )


def test_every_kind_has_a_shape() -> None:
    gate = "protected_gates: {g: {run: [x], inputs: [t], adapter: go}}\n"
    nodes = "  a: {agent: a.md}\n  b: {approval: {ask: ok?}}\n  c: {protected: g, needs: [a]}\n"
    text = graph_mermaid(resolve(good(f"flow: f\n{gate}nodes:\n{nodes}")))
    assert 'n1("a<br/>agent")' in text
    assert 'n2{"b<br/>approval"}' in text
    assert 'n3{{"c<br/>protected"}}' in text


def test_commands_are_shown_safely_and_short() -> None:
    text = graph_text(plan('  a: {run: "a\\e[2Jb\\n%s"}\n' % ("x" * 100)))
    assert "run: a<U+001B>[2Jb<U+000A>xxx" in text
    assert "more characters)" in text
    assert len(text.splitlines()) == 4


def test_extras_are_shown_by_their_glob() -> None:
    nodes = "  a: {run: x}\n  b: {run: x, needs: [a], inputs: {l: {from: a, match: 'l/*', optional: true}}}\n"
    assert "after a (l/*?)" in graph_text(plan(nodes))
    assert '|"extras"|' in graph_mermaid(plan(nodes))
