"""What makes a result summary valid, and the one the supervisor writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.codec.summary import (
    MAX_BYTES,
    MAX_FRONT_MATTER_BYTES,
    MAX_LISTED,
    summary_problems,
    supervisor_summary,
)
from fusiond.domain.artifacts import FrozenArtifact, ProblemCode
from fusiond.domain.digest import digest_bytes
from fusiond.domain.display import display_safe
from fusiond.domain.ids import OutputName
from tests.fakes.freezing import attempt


@pytest.mark.parametrize(
    "text",
    [
        "Done.",
        "1",
        "# Title\n\n---\n\nA rule is no front matter.",
        "---\nstatus: done\n---\nDone.",
        "---\nstatus: done\n...\nDone.",
        "---\r\nstatus: done\r\n---\r\nDone.",
        "---\n---\nNothing to say up front.",
        "---\n# only a comment\n---\nDone.",
        "---\na: {b: [1, 2, {c: d}]}\ne: !tag value\nf: &x 1\ng: *x\n---\nDone.",
        "\ufeffDone.",
        "\u65e5",
    ],
)
def test_a_summary_that_says_something_is_valid(text: str) -> None:
    assert summary_problems(text.encode()) == ()


@pytest.mark.parametrize(
    "text,found",
    [
        ("", "no visible text"),
        (" \n\t\r\n", "no visible text"),
        ("\u200b\u00ad\u3164\u2800\ufeff", "no visible text"),
        ("---\na: 1\n---\n \n", "no visible text after"),
        ("---\na: 1\nDone.", "does not end"),
        ("---\n- a\n---\nDone.", "no mapping"),
        ("---\ntext\n---\nDone.", "no mapping"),
        ("---\n''\n---\nDone.", "no mapping"),
        ("---\na: [\n---\nDone.", "no YAML"),
        ("---\na: 1\n b: 2\n---\nDone.", "no YAML"),
        ("---\na: 1\na: 2\n---\nDone.", "twice"),
        ("---\n[a]: 1\n---\nDone.", "no text"),
        ("---\n? {a: b}\n: 1\n---\nDone.", "no text"),
        ('---\na: "\\UFFFFFFFF"\n---\nDone.', "no YAML"),
        ("---\na: " + "[" * 1000 + "]" * 1000 + "\n---\nDone.", "nested"),
        ("---\na:\n" + "".join(" " * depth + "- \n" for depth in range(1, 60)) + "---\nDone.", "nested"),
        ("---\na: " + "x" * MAX_FRONT_MATTER_BYTES + "\n---\nDone.", "too long"),
        ("x" * (MAX_BYTES + 1), f"{MAX_BYTES + 1} bytes"),
    ],
)
def test_what_is_wrong_with_a_summary(text: str, found: str) -> None:
    problems = summary_problems(text.encode())
    assert [each.code for each in problems] == [ProblemCode.SUMMARY_INVALID]
    assert found in problems[0].found


def test_bytes_that_are_no_text() -> None:
    assert "offset 4" in summary_problems(b"Done\xff")[0].found


def test_front_matter_and_text_are_both_judged() -> None:
    assert len(summary_problems(b"---\n- a\n---\n")) == 2


@given(st.one_of(st.binary(max_size=80), st.text("-\n:#[]{}&*!|>'\"% aé\t", max_size=60).map(str.encode)))
def test_any_bytes_are_judged(data: bytes) -> None:
    for each in summary_problems(data):
        assert display_safe(each.found) == each.found


@given(st.text("-\n:#[]{}&*!|>'\"% a\\U0\t", max_size=60))
def test_any_front_matter_is_judged(text: str) -> None:
    summary_problems(f"---\n{text}\n---\nDone.".encode())


def artifacts(count: int) -> list[FrozenArtifact]:
    return [
        FrozenArtifact(
            output=OutputName("o"), path=f"{index}", media_type="text/plain", size=1, digest=digest_bytes(b"")
        )
        for index in range(count)
    ]


@pytest.mark.parametrize("count", [0, 1, MAX_LISTED, MAX_LISTED + 1])
def test_the_supervisors_summary_is_valid_and_bounded(count: int) -> None:
    data = supervisor_summary(attempt(), artifacts(count))
    assert summary_problems(data) == ()
    assert b"recorded_by: supervisor" in data
    assert data.count(b"\n- ") == min(count, MAX_LISTED + 1)
