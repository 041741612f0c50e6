"""Canonical JSON: golden vectors, and that nothing inexact or ambiguous gets in or out."""

import json
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.codec.canonical import JsonValue, canonical, parse_json
from fusiond.domain.errors import InvalidError, TooLargeError

VECTORS: list[tuple[JsonValue, bytes]] = [
    (None, b"null"),
    (True, b"true"),
    (0, b"0"),
    (-(2**63), b"-9223372036854775808"),
    (2**64 - 1, b"18446744073709551615"),
    ("", b'""'),
    ('tab\t quote" slash/ back\\', b'"tab\\t quote\\" slash/ back\\\\"'),
    ("\x00\x1f\x7f", b'"\\u0000\\u001f\x7f"'),
    ([], b"[]"),
    ({}, b"{}"),
    ([1, [2, {"a": []}]], b'[1,[2,{"a":[]}]]'),
    ((1, ("a",)), b'[1,["a"]]'),
    ({"b": 1, "a": 2, "A": 3, "": 4}, b'{"":4,"A":3,"a":2,"b":1}'),
    # By code point: U+FF21 before U+1F600, which UTF-16 would sort the other way round.
    ({"\U0001f600": 1, "\uff21": 2}, '{"\uff21":2,"\U0001f600":1}'.encode()),
    # The composed and the decomposed letter stay two different keys.
    ({"\u00e9": 1, "e\u0301": 2}, '{"e\u0301":2,"\u00e9":1}'.encode()),
    (MappingProxyType({"b": MappingProxyType({"d": 1}), "a": 0}), b'{"a":0,"b":{"d":1}}'),
]

PARSED_ALIKE: st.SearchStrategy[JsonValue] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**63), max_value=2**64 - 1)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)


def parse(text: str | bytes, *, max_bytes: int = 10_000, max_depth: int = 16) -> JsonValue:
    """Read with bounds that only the tests of bounds care about."""
    data = text.encode() if isinstance(text, str) else text
    return parse_json(data, max_bytes=max_bytes, max_depth=max_depth)


@pytest.mark.parametrize("value,data", VECTORS)
def test_value_has_one_byte_form(value: JsonValue, data: bytes) -> None:
    assert canonical(value) == data


@pytest.mark.parametrize(
    "inexact",
    [
        1.0,
        float("nan"),
        float("inf"),
        b"bytes",
        {1, 2},
        pytest.param(object(), id="object"),
        2**64,
        -(2**63) - 1,
    ],
    ids=repr,
)
def test_what_is_not_exact_json_has_no_byte_form(inexact: JsonValue) -> None:
    for value in (inexact, [0, inexact], {"a": {"b": (inexact,)}}):
        with pytest.raises(InvalidError, match="no canonical JSON"):
            canonical(value)


@pytest.mark.parametrize("keys", [{1: 2}, {None: 2}, {b"a": 1}, {("a",): 1}])
def test_keys_are_strings(keys: dict[str, JsonValue]) -> None:
    with pytest.raises(InvalidError):
        canonical(keys)


def test_half_a_surrogate_pair_has_no_byte_form() -> None:
    with pytest.raises(InvalidError):
        canonical(["\ud83d"])


def test_nesting_without_end_is_refused() -> None:
    value: list[JsonValue] = []
    value.append(value)
    deep: JsonValue = []
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(InvalidError):
        canonical(deep)


@given(PARSED_ALIKE)
def test_reading_gives_back_what_was_written(value: JsonValue) -> None:
    data = canonical(value)
    assert parse_json(data, max_bytes=len(data), max_depth=100) == value
    assert canonical(json.loads(data)) == data


def test_order_of_keys_does_not_matter() -> None:
    assert canonical({"a": 1, "b": {"c": 2, "d": 3}}) == canonical({"b": {"d": 3, "c": 2}, "a": 1})


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "nul",
        "{",
        '{"a":}',
        "[1,]",
        "{'a':1}",
        "1 2",
        "[1]x",
        '"a',
        "01",
        "+1",
        ".5",
        "\x00",
        '"\n"',
        "// a",
    ],
)
def test_text_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="not JSON"):
        parse(text)


@pytest.mark.parametrize(
    "text", ['{"a":1,"a":1}', '[{"x":{"b":1,"c":2,"b":3}}]', '{"":1,"":2}', r'{"a":1,"\u0061":2}']
)
def test_duplicate_key_is_refused_at_any_depth(text: str) -> None:
    with pytest.raises(InvalidError, match="twice"):
        parse(text)


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a":-Infinity}', "1e999", "[-1e999]"])
def test_numbers_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="finite number"):
        _sentence(text)


def _sentence(text: str) -> None:
    try:
        parse(text)
    except InvalidError as error:
        raise InvalidError(error.sentence()) from error


@pytest.mark.parametrize("text", ["18446744073709551616", "-9223372036854775809", "[" + "9" * 5_000 + "]"])
def test_integer_beyond_64_bits_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="64 bits"):
        parse(text)


def test_numbers_keep_their_kind() -> None:
    values = parse("[1, 1.0, -0, 1e2, 18446744073709551615]")
    assert values == [1, 1.0, 0, 100.0, 2**64 - 1]
    assert isinstance(values, list)
    assert [type(each) for each in values] == [int, float, int, float, int]


@pytest.mark.parametrize(
    "data", [b"\xff", b'"\xc3"', "[1]".encode("utf-16"), "[1]".encode("utf-32"), b'"\xed\xa0\xbd"']
)
def test_bytes_that_are_not_utf8_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidError):
        parse(data)


def test_byte_order_mark_is_refused() -> None:
    with pytest.raises(InvalidError):
        parse(b"\xef\xbb\xbf[1]")


@pytest.mark.parametrize(
    "text", [r'"\ud83d"', r'["\udc00"]', r'{"\ud83d":1}', r'"\ud83d\ud83d"', r'"\uDE00\uD83D"']
)
def test_half_a_surrogate_pair_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="surrogate"):
        parse(text)


def test_whole_surrogate_pair_is_one_character() -> None:
    assert parse(r'"\ud83d\ude00 \\ud83d"') == "\U0001f600 \\ud83d"


def test_more_bytes_than_allowed_are_refused_unread() -> None:
    assert parse("[1]", max_bytes=3) == [1]
    with pytest.raises(TooLargeError):
        parse("[1] ", max_bytes=3)


@pytest.mark.parametrize("opening,closing", [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_depth_is_bounded(opening: str, closing: str) -> None:
    levels = opening.count("[") + opening.count("{")
    inside = opening * (12 // levels) + "1" + closing * (12 // levels)
    assert parse(inside, max_depth=12)
    with pytest.raises(InvalidError, match="nested too deeply"):
        parse(inside, max_depth=11)


def test_depth_is_checked_before_anything_recurses() -> None:
    for data in (b"[" * 900_000, b'{"a":' * 200_000, b'["' * 300_000, b'[[[[[[[[[[[[["\\"' * 60_000):
        with pytest.raises(InvalidError):
            parse(data, max_bytes=1_000_000)


def test_brackets_in_strings_are_no_levels() -> None:
    text = "[[[" * 50 + '\\" ]' + "\\"
    assert parse(json.dumps([text, {text: [1]}]), max_depth=3) == [text, {text: [1]}]


@given(st.text(st.sampled_from('[]{}",:\\ 1a\n'), max_size=60))
def test_any_text_is_read_as_json_reads_it_or_refused(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(InvalidError):
            parse(text, max_depth=60)
    else:
        try:
            assert parse(text, max_depth=60) == expected
        except InvalidError as error:
            assert "twice" in error.found or "64 bits" in error.found  # noqa: PT017 the only reasons left
