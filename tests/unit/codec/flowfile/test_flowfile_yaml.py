"""From bytes to positioned values: what is no text, what is no YAML, and where that is said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.codec.flowfile.read import read_flow
from fusiond.codec.flowfile.reading.compose import compose
from fusiond.codec.flowfile.reading.report import Report
from fusiond.codec.flowfile.reading.source import source_of
from fusiond.codec.flowfile.reading.tree import Mapping, Scalar, ScalarType, Sequence, YamlNode, type_of


@pytest.mark.parametrize(
    "data,line,column,code,part",
    [
        (b"", 1, 1, "empty", "found an empty file"),
        (b"# only a comment\n", 1, 1, "empty", "found an empty file"),
        (b"\xef\xbb\xbf", 1, 1, "empty", "found an empty file"),
        (b"---\n...\n", 2, 1, "type", "found nothing"),
        (b"\xff\xfef\x00", 1, 1, "encoding", "a UTF-16 byte order mark"),
        (b"\xfe\xff\x00f", 1, 1, "encoding", "a UTF-16 byte order mark"),
        (b"flow: f\nx: \xe9\n", 2, 4, "encoding", "byte 0xe9, which is not UTF-8"),
        (b"flow: \xc3\xa9\xff", 1, 8, "encoding", "byte 0xff"),
        (b"flow: f\n\x00", 2, 1, "character", "U+0000"),
        (b"flow: \x1b[31m", 1, 7, "character", "U+001B"),
        (b"flow: f\x7f", 1, 8, "character", "U+007F"),
        ("# a\u2028flow: f".encode(), 1, 4, "character", "U+2028"),
        ("flow: \x85f".encode(), 1, 7, "character", "U+0085"),
        ("flow: \ufefff".encode(), 1, 7, "character", "U+FEFF"),
        ("flow: \ufffe".encode(), 1, 7, "character", "U+FFFE"),
        (b"flow: f\nnodes:\n\ta: 1\n", 3, 1, "syntax", "a tab in the indentation, expected YAML, indented with spaces"),
        (b"flow: f\nnodes:\n  \ta: 1\n", 3, 3, "syntax", "a tab in the indentation"),
        (b"flow: 'f", 1, 9, "syntax", "text that is not YAML"),
        (b"flow: f: g", 1, 8, "syntax", "mapping values are not allowed here"),
        (b"flow: [a", 1, 9, "syntax", "while parsing a flow sequence"),
        (b"flow: @f", 1, 7, "syntax", "cannot start any token"),
        (b'flow: "\\UFFFFFFFF"', 1, 1, "syntax", "text that is not YAML"),
        (b"%YAML 1.1\n---\nflow: f\n", 2, 1, "syntax", "%YAML 1.1, expected YAML 1.2"),
        (b"flow: f\n---\nflow: g\n", 2, 1, "documents", "a second document, expected one document"),
        (b"flow: &a &b f", 1, 10, "syntax", "text that is not YAML"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_at_all(data: bytes, line: int, column: int, code: str, part: str) -> None:
    reading = read_flow(data)
    assert reading.flow is None
    (problem,) = reading.problems
    assert (problem.line, problem.column, problem.code.value) == (line, column, code)
    assert part in f"found {problem.found}, expected {problem.expected}"


def test_refused_characters_are_reported_once_a_line() -> None:
    problems = read_flow(b"a: \x01\x02\n\x03\nb: c\n\x04").problems
    assert [(problem.line, problem.column) for problem in problems] == [(1, 4), (2, 1), (4, 1)]


LINES = st.lists(
    st.tuples(st.text(st.sampled_from("ab\u2028é"), max_size=4), st.sampled_from(["\n", "\r\n", "\r"]))
)


@given(LINES)
def test_places_count_lines_as_editors_do(lines: list[tuple[str, str]]) -> None:
    # An empty line after a bare carriage return would make one line end of two.
    texts = [(f"x{text}", end) for text, end in lines]
    source = source_of("".join(text + end for text, end in texts))
    index = 0
    for number, (text, end) in enumerate(texts, start=1):
        assert source.place(index) == (number, 1)
        assert source.place(index + len(text) - 1) == (number, len(text))
        index += len(text) + len(end)
    assert source.place(index) == (len(texts) + 1, 1)


@pytest.mark.parametrize(
    "text,kind",
    [
        *[(text, ScalarType.NOTHING) for text in ("", "~", "null", "Null", "NULL")],
        *[(text, ScalarType.FLAG) for text in ("true", "False", "TRUE")],
        *[(text, ScalarType.INTEGER) for text in ("0", "-1", "+5", "017", "0o17", "0xfF")],
        *[(text, ScalarType.DECIMAL) for text in ("1.0", ".5", "5.", "1e9", "-1.5E-3", ".inf", "-.Inf", ".NAN")],
        *[
            (text, ScalarType.TEXT)
            for text in ("yes", "on", "nULL", "tRUE", "1_000", "0b1", "1:30", "2026-11-05", ".", "-", "e5", "0x", "1e")
        ],
    ],
)  # fmt: skip
def test_scalars_have_the_types_of_the_core_schema(text: str, kind: ScalarType) -> None:
    assert type_of(text, plain=True) is kind
    assert type_of(text, plain=False) is ScalarType.TEXT


def composed(text: str) -> YamlNode:
    """Return the value of a text that is YAML."""
    report = Report(source_of(text))
    node = compose(report)
    assert report.problems() == ()
    assert node is not None
    return node


def test_values_stand_where_they_are_written() -> None:
    text = 'a: [x, "y"]\nb:\n  c: |\n    text\n'
    top = composed(text)
    assert isinstance(top, Mapping)
    (a, listed), (b, inner) = top.entries
    assert isinstance(listed, Sequence)
    assert isinstance(inner, Mapping)
    assert [text[node.at] for node in (a, listed, *listed.items, b, inner)] == ["a", "[", "x", '"', "b", "c"]
    (_, block) = inner.entries[0]
    assert isinstance(block, Scalar)
    assert (text[block.at], block.text) == ("|", "text\n")


def test_an_anchor_may_be_given_again() -> None:
    top = composed("a: &x 1\nb: *x\nc: &x 2\nd: *x\n")
    assert isinstance(top, Mapping)
    assert [value.text for _, value in top.entries if isinstance(value, Scalar)] == ["1", "1", "2", "2"]


def test_a_problem_inside_an_alias_is_reported_at_its_anchor() -> None:
    text = "flow: f\nnodes:\n  a:\n    run: x\n    gates: &g [{name: X, run: t}]\n  b:\n    run: y\n    gates: *g\n"
    problems = read_flow(text.encode()).problems
    assert [(problem.line, problem.path) for problem in problems] == [
        (5, "nodes.a.gates[0].name"),
        (5, "nodes.b.gates[0].name"),
    ]
