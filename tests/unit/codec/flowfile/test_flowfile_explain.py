"""Explaining a plan: the text says everything, and reading it again gives the same plan."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from fusiond.codec.flowfile.explain import explain
from fusiond.codec.flowfile.plan_hash import plan_hash
from fusiond.codec.flowfile.read import read_flow
from fusiond.codec.flowfile.reading.compose import compose
from fusiond.codec.flowfile.reading.report import Report
from fusiond.codec.flowfile.reading.source import decode
from fusiond.codec.flowfile.reading.tree import Mapping, Scalar
from fusiond.codec.flowfile.shape.layout import Pairs, laid_out, prose, word
from fusiond.domain.flow import ResolvedFlow
from fusiond.domain.plan import resolve
from tests.unit.codec.flowfile.flow_files import Document, documents, reordered, written
from tests.unit.codec.flowfile.marked import read

SMALLEST = "flow: f\nnodes:\n  a:\n    acp: codex\n    prompt: fix it\n    gates: [pytest -q]\n"


def planned(data: bytes) -> ResolvedFlow:
    """Return the plan of a flow file without problems."""
    reading = read_flow(data)
    assert reading.problems == ()
    assert reading.flow is not None
    return resolve(reading.flow, reading.explained)


@given(documents())
@settings(max_examples=25)
def test_an_explained_plan_reads_back_as_the_same_plan(document: Document) -> None:
    plan = planned(written(document))
    again = planned(explain(plan).encode())
    assert again.flow == plan.flow
    assert plan_hash(again) == plan_hash(plan)


@given(documents())
@settings(max_examples=10)
def test_an_explained_plan_leaves_nothing_to_explain_but_references(document: Document) -> None:
    again = planned(explain(planned(written(document))).encode())
    assert {reason for _, reason in again.explained} <= {"optional, as the output is"}
    assert explain(planned(explain(again).encode())) == explain(again)


@given(documents())
@settings(max_examples=10)
def test_a_plan_does_not_depend_on_the_order_of_keys(document: Document) -> None:
    turned = reordered(document)
    assert isinstance(turned, dict)
    assert plan_hash(planned(written(turned))) == plan_hash(planned(written(document)))


def test_every_default_is_marked_with_its_reason() -> None:
    lines = explain(planned(SMALLEST.encode())).splitlines()
    assert "determinism: bounded  # default: there are agents" in lines
    assert "  parallel: 0  # default: one attempt a core of the machine that runs it" in lines
    assert "      - name: gate-1  # default: a gate without a name is numbered" in lines
    assert "    # default: inferred from the kinds of nodes" in lines
    assert "flow: f" in lines


def texts() -> st.SearchStrategy[str]:
    """Return any text that a flow file can hold."""
    anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
    lines = st.lists(
        st.sampled_from(["", " ", "a", " b", "c ", "# d", "\td", "\u2028", "...", "---"]), min_size=2
    )
    return anything | lines.map("\n".join)


@given(texts())
@example("\U000e0001 tag")
@example("a\n\nb\n")
@example("a\nb\n\n")
@example("\na")
@example("\x85\u2028\ufeff\x7f\x1b")
def test_any_text_is_laid_out_so_that_it_reads_back(text: str) -> None:
    layout = laid_out(Pairs((("key", prose(text)), ("next", word(text)))), {"key": "a comment"})
    source, problems = decode(layout.encode())
    assert problems == []
    assert source is not None
    report = Report(source)
    top = compose(report)
    assert isinstance(top, Mapping)
    assert [value.text for _, value in top.entries if isinstance(value, Scalar)] == [text, text]
    assert report.clean


def test_a_text_of_several_lines_is_written_as_a_block() -> None:
    text = explain(planned(SMALLEST.replace("fix it", '"first\\n\\n  second\\n"').encode()))
    assert "    prompt: |\n      first\n\n        second\n    gates:\n" in text


def test_an_inline_policy_keeps_its_lists_and_its_numbers_and_sorts_its_keys() -> None:
    rules = "policy:\n  rules: [{name: b, limit: 1.50}, [x, true, null]]\n  mode: &m enforce\n  also: *m\n"
    reading = read(SMALLEST + rules)
    assert reading.flow is not None
    assert reading.flow.policy_inline == (
        '{\n  "also": "enforce",\n  "mode": "enforce",\n  "rules": [\n    {\n      "limit": 1.50,\n'
        '      "name": "b"\n    },\n    [\n      "x",\n      true,\n      null\n    ]\n  ]\n}'
    )


def test_the_order_of_keys_in_an_inline_policy_does_not_matter() -> None:
    def hashed(policy: Document) -> str:
        return plan_hash(planned(written({"flow": "f", "policy": policy, "nodes": {"a": {"run": "x"}}})))

    assert hashed({"b": None, "a": {"d": 1, "c": 2}}) == hashed({"a": {"c": 2, "d": 1}, "b": None})
