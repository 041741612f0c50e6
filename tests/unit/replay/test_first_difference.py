"""Where two bodies begin to differ."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.lines import SHOWN_CHARS, first_difference


@pytest.mark.parametrize(
    "expected, observed, where, shown",
    [
        (b"a\nb\nc\n", b"a\nx\nc\n", "line 2", ("b", "x")),
        (b"a\n", b"a\nb\n", "line 2", ("", "b")),
        (b"a", b"a\n", "line 2", ("", "")),
        (b"a\r\n", b"a\n", "line 1", ("a\r", "a")),
        (b"", b"a", "line 1", ("", "a")),
        ("zażółć\n".encode(), b"zazolc\n", "line 1", ("zażółć", "zazolc")),
        (b"a\0b", b"a\0c", "byte 2", ("62", "63")),
        (b"\xff\xfe", b"\xff", "byte 1", ("fe", "")),
        (b"a" * 1_000, b"b" * 1_000, "line 1", ("a" * SHOWN_CHARS, "b" * SHOWN_CHARS)),
    ],
)
def test_place_and_both_sides(expected: bytes, observed: bytes, where: str, shown: tuple[str, str]) -> None:
    found = first_difference(expected, observed)
    assert found is not None
    assert (found.where, (found.expected, found.observed)) == (where, shown)


@given(body=st.binary(max_size=20), other=st.binary(max_size=20))
def test_only_equal_bodies_have_no_difference(body: bytes, other: bytes) -> None:
    assert (first_difference(body, other) is None) is (body == other)
