"""Identities: run ids sort by time and come back as they were; everything else is refused by name."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusiond.domain.errors import InvalidError
from fusiond.domain.ids import (
    CROCKFORD,
    RUN_ID_RANDOM_BITS,
    AttemptId,
    AttemptNumber,
    NodeId,
    RunId,
    StageId,
    is_name,
    is_node_id,
    is_object_id,
    is_tenant,
    make_run_id,
    parse_attempt_number,
    parse_node_id,
    parse_run_id,
)

few = settings(max_examples=40)

LAST_US = (1 << 55) - 1
"""The last microsecond that a run id can tell: 8 characters of 5 bits, in units of 2**15 µs."""

UNIT_US = 1 << 15

times = st.integers(0, LAST_US)
randoms = st.integers(0, (1 << RUN_ID_RANDOM_BITS) - 1)


def test_the_alphabet_is_crockfords() -> None:
    assert len(CROCKFORD) == len(set(CROCKFORD)) == 32
    assert list(CROCKFORD) == sorted(CROCKFORD)
    assert not set(CROCKFORD) & set("ilou")


@pytest.mark.parametrize(
    "now_us,random_bits,expected",
    [
        (0, 0, "0000000000000"),
        (UNIT_US, 1, "0000000100001"),
        (31 * UNIT_US, 31, "0000000z0000z"),
        (32 * UNIT_US, 32, "0000001000010"),
        (LAST_US, (1 << 25) - 1, "zzzzzzzzzzzzz"),
    ],
)
def test_a_run_id_is_time_then_chance(now_us: int, random_bits: int, expected: str) -> None:
    assert make_run_id(now_us, random_bits) == expected


@few
@given(times, randoms)
def test_a_made_run_id_parses_to_itself(now_us: int, random_bits: int) -> None:
    made = make_run_id(now_us, random_bits)
    assert parse_run_id(made) == made
    assert re.fullmatch("[0-9a-hjkmnp-tv-z]{13}", made)


@few
@given(times, randoms, times, randoms)
def test_run_ids_sort_by_time(left_us: int, left: int, right_us: int, right: int) -> None:
    first, second = sorted([(left_us, left), (right_us, right)])
    if first[0] // UNIT_US < second[0] // UNIT_US:
        assert make_run_id(*first) < make_run_id(*second)


@few
@given(times, randoms, times, randoms)
def test_run_ids_differ_with_time_or_chance(left_us: int, left: int, right_us: int, right: int) -> None:
    same = (left_us // UNIT_US, left) == (right_us // UNIT_US, right)
    assert (make_run_id(left_us, left) == make_run_id(right_us, right)) is same


@pytest.mark.parametrize(
    "now_us,random_bits", [(-1, 0), (LAST_US + 1, 0), (0, -1), (0, 1 << RUN_ID_RANDOM_BITS)]
)
def test_what_a_run_id_cannot_hold_is_refused(now_us: int, random_bits: int) -> None:
    with pytest.raises(InvalidError) as refused:
        make_run_id(now_us, random_bits)
    assert refused.value.expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "01hzy3v8k00a",
        "01hzy3v8k00abc",
        "01HZY3V8K00AB",
        "01hzy3v8k00ai",
        "01hzy3v8k00au",
        "01hzy3v8k00ab\n",
        "01hzy3v8k00a\u0663",
        "../../../../a",
    ],
)
def test_what_is_no_run_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="is no run id"):
        parse_run_id(text)


@pytest.mark.parametrize("text", ["a", "build", "a-", "a0-9", "a" * 40])
def test_node_ids(text: str) -> None:
    assert is_node_id(text)
    assert parse_node_id(text) == text


@pytest.mark.parametrize("text", ["", "A", "0a", "-a", "a_b", "a.b", "a" * 41, "a\n", "é", "a/b"])
def test_what_is_no_node_id_is_refused(text: str) -> None:
    assert not is_node_id(text)
    with pytest.raises(InvalidError, match="is no node id"):
        parse_node_id(text)


@pytest.mark.parametrize("text", ["a", "a_b-0", "a" * 64])
def test_names(text: str) -> None:
    assert is_name(text)


@pytest.mark.parametrize("text", ["", "0", "A", "_a", "a.b", "a b", "a\n", "a" * 65])
def test_what_is_no_name(text: str) -> None:
    assert not is_name(text)


@pytest.mark.parametrize("text", ["local", "0", "a.b_c-d", "a" * 64])
def test_tenants(text: str) -> None:
    assert is_tenant(text)


@pytest.mark.parametrize("text", ["", ".", "-a", "A", "a/b", "a\n", "a" * 65])
def test_what_is_no_tenant(text: str) -> None:
    assert not is_tenant(text)


@pytest.mark.parametrize("text", ["0" * 40, "f" * 64])
def test_object_ids(text: str) -> None:
    assert is_object_id(text)


@pytest.mark.parametrize(
    "text", ["", "HEAD", "0" * 39, "0" * 41, "0" * 63, "F" * 40, "g" * 40, "0" * 40 + "\n"]
)
def test_object_ids_are_full_and_lower_case(text: str) -> None:
    assert not is_object_id(text)


def test_attempts_are_numbered_from_one() -> None:
    assert parse_attempt_number(1) == 1
    for value in (0, -1):
        with pytest.raises(InvalidError):
            parse_attempt_number(value)


def test_stages_and_attempts_are_written_after_what_they_belong_to() -> None:
    stage = StageId(RunId("01hzy3v8k00ab"), NodeId("build"))
    assert str(stage) == "01hzy3v8k00ab.build"
    assert str(AttemptId(stage, AttemptNumber(2))) == "01hzy3v8k00ab.build/2"
    assert AttemptId(stage, AttemptNumber(2)) < AttemptId(stage, AttemptNumber(10))
