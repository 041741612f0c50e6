"""Whatever the bytes: reading a flow file gives a flow or problems, never an exception, within bounds."""

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fusiond.codec.flowfile.problems import FlowProblemCode
from fusiond.codec.flowfile.read import FlowReading, read_flow
from fusiond.codec.flowfile.reading.compose import MAX_DEPTH, MAX_NODES
from fusiond.codec.flowfile.reading.source import MAX_FILE_BYTES
from fusiond.codec.flowfile.render import problem_lines
from tests.unit.codec.flowfile.marked import read

FRAGMENTS = st.sampled_from(
    [
        *(
            "flow:",
            "nodes:",
            "inputs:",
            "limits:",
            "entropy:",
            "replay:",
            "policy:",
            "protected_gates:",
            "env:",
        ),
        *(
            "run:",
            "acp:",
            "agent:",
            "protected:",
            "approval:",
            "needs:",
            "outputs:",
            "gates:",
            "prompt:",
            "show:",
        ),
        *(
            "a",
            "b",
            "a.b",
            "x: y",
            "- ",
            "  ",
            "    ",
            "\n",
            "\n\n",
            "[",
            "]",
            "{",
            "}",
            ",",
            ":",
            "? ",
            "| ",
            ">-",
        ),
        *(
            "&a ",
            "*a",
            "<<: *a",
            "!!str",
            "!x",
            "%YAML 1.1",
            "---",
            "...",
            '"',
            "'",
            "\\",
            "#",
            "\t",
            "\r\n",
            "~",
        ),
        *(
            "1",
            "-1",
            "1e9",
            "0x10",
            "1.5",
            ".inf",
            "true",
            "null",
            "30s",
            "64KiB",
            "{{ inputs.a }}",
            "{{",
            "}}",
        ),
        *(
            '"\\UFFFFFFFF"',
            '"\\ud800"',
            '"\\0"',
            "\u2028",
            "\x85",
            "\ufeff",
            "é",
            "\U0001f600",
            "path: a/../b",
        ),
    ]
)
NOISE = st.lists(FRAGMENTS | st.text(max_size=6), max_size=40).map("".join)
KEYS = [
    *(
        "flow",
        "nodes",
        "a",
        "b",
        "run",
        "acp",
        "prompt",
        "needs",
        "inputs",
        "outputs",
        "o",
        "path",
        "collect",
    ),
    *(
        "gates",
        "name",
        "limits",
        "approval",
        "ask",
        "show",
        "entropy",
        "sources",
        "intents",
        "replay",
        "mode",
    ),
    *("envelope", "setup", "key", "env", "from", "match", "optional", "default", "type"),
]
PLAUSIBLE = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.sampled_from(KEYS),
        st.sampled_from(
            ["", " a", " b.o", " [a]", " {a: b}", " 1", " '{{ x }}'", " |\n          text", " &x a", " *x"]
        ),
    ),
    max_size=14,
).map(lambda lines: "".join(f"{'  ' * depth}{key}:{value}\n" for depth, key, value in lines))


def assert_settled(reading: FlowReading, size: int) -> None:
    """Assert that a reading is either a flow or problems, each with a real place."""
    assert (reading.flow is None) == bool(reading.problems)
    for problem in reading.problems:
        assert problem.line >= 1
        assert problem.column >= 1
        assert problem.line <= size + 1
        assert problem.found
        assert problem.expected
    shown = "".join(problem_lines(reading.problems, "f.yaml"))
    assert not {unicodedata.category(character) for character in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}


@given(st.binary(max_size=200))
@example(b"")
@example(b"\xef\xbb\xbfflow: a")
@example(b"\xff\xfef\x00")
def test_any_bytes(data: bytes) -> None:
    assert_settled(read_flow(data), len(data))


@given(NOISE)
@settings(max_examples=150)
def test_any_mixture_of_what_flows_are_made_of(text: str) -> None:
    data = text.encode(errors="surrogatepass")
    assert_settled(read_flow(data), len(data))


@given(PLAUSIBLE)
@settings(max_examples=150)
def test_any_arrangement_of_known_keys(text: str) -> None:
    assert_settled(read_flow(text.encode()), len(text))


def codes(text: str) -> list[FlowProblemCode]:
    """Return the codes of a flow's problems."""
    return [problem.code for problem in read(text).problems]


def bomb(levels: int, width: int) -> str:
    """Return lists of aliases, each `width` times as large as the one before."""
    lines = ["a0: &a0 [x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        bomb(10, 10),
        bomb(22, 2),
        f"a: &a {'x' * 500_000}\nb: [{', '.join(['*a'] * 20)}]",
        f"a: [{'x, ' * MAX_NODES}]",
    ],
    ids=["wide", "slow growth", "long text", "many values"],
)
def test_expansion_is_bounded(text: str) -> None:
    assert codes(text) == [FlowProblemCode.EXPANSION]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "{a: " * 100_000,
        "- " * 100_000,
        "? " * 100_000,
        "".join(f"{' ' * n}a:\n" for n in range(MAX_DEPTH + 2)),
        "".join(f"a{n}: &a{n} [{f'*a{n - 1}' if n else ''}]\n" for n in range(MAX_DEPTH + 2)),
    ],
    ids=["lists", "maps", "dashes", "keys", "blocks", "aliases"],
)
def test_depth_is_bounded(text: str) -> None:
    assert codes(text) == [FlowProblemCode.DEPTH]


def test_a_file_at_the_bound_is_read_and_one_byte_more_is_not() -> None:
    flow = b'flow: f\nnodes:\n  a:\n    run: "true"\n'
    full = flow + b"#" * (MAX_FILE_BYTES - len(flow))
    assert read_flow(full).problems == ()
    (problem,) = read_flow(full + b"#").problems
    assert (problem.code, problem.found) == (FlowProblemCode.SIZE, f"{MAX_FILE_BYTES + 1} bytes")
