"""The documents between daemon and launcher come back as they were sent, or are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.domain.launch import Isolation, LaunchEnd
from fusiond.sandbox.inside import fields, order
from fusiond.sandbox.launcher import result_of

KEYS = st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=8)
VALUES = st.binary(max_size=40).filter(lambda value: b"\0" not in value)
PAIRS = st.lists(st.tuples(KEYS, VALUES), max_size=12)
ENDS = [order.EXITED, order.TIMED_OUT, order.OUTPUT_LIMIT, order.CANCELLED, order.SANDBOX_FAILURE]


@given(PAIRS)
def test_pairs_come_back(pairs: list[tuple[str, bytes]]) -> None:
    assert fields.unpack(fields.pack(pairs)) == pairs


@given(st.binary(max_size=60))
def test_any_bytes_are_pairs_or_refused(document: bytes) -> None:
    try:
        pairs = fields.unpack(document)
    except ValueError:
        return
    assert fields.pack(pairs) == document


@pytest.mark.parametrize("pair", [("a\0b", b""), ("a", b"x\0y")])
def test_nul_is_never_packed(pair: tuple[str, bytes]) -> None:
    with pytest.raises(ValueError, match="NUL"):
        fields.pack([pair])


@given(
    end=st.sampled_from(ENDS),
    status=st.none() | st.integers(0, 0xFFFF),
    trouble=st.text(max_size=30),
    hole=st.none() | st.tuples(st.integers(0, 2**50), st.integers(1, 2**50)),
    numbers=st.tuples(*[st.integers(0, 2**50)] * 3),
)
def test_reports_come_back(
    end: str, status: int | None, trouble: str, hole: tuple[int, int] | None, numbers: tuple[int, int, int]
) -> None:
    report = order.Report(end=end, status=status, trouble=trouble)
    report.hole = hole
    report.output_bytes, report.survivors, report.duration_us = numbers
    back = order.unpack_report(report.pack())
    assert (back.end, back.status, back.hole) == (end, status, hole)
    assert (back.output_bytes, back.survivors, back.duration_us) == numbers
    assert back.trouble == trouble.replace("\0", "")


def test_report_stays_smaller_than_a_pipe() -> None:
    assert len(order.Report(end=order.EXITED, trouble="\u20ac" * 100_000).pack()) < 4096


def test_order_keeps_arguments_in_order_and_the_last_of_a_variable() -> None:
    once = [
        (name, b"1")
        for name in ("timeout_us", "grace_us", "cap_bytes", "whole_namespace", "log", "report", "control")
    ]
    pairs = [("argv", b"a"), ("env", b"X=1=2"), ("argv", b""), ("env", b"X=3"), ("env", b"Y="), ("cwd", b"/")]
    task = order.Order([*pairs, *once])
    assert task.argv == [b"a", b""]
    assert task.env == {b"X": b"3", b"Y": b""}
    assert task.whole_namespace


@pytest.mark.parametrize("end", ENDS)
def test_every_end_of_a_report_is_one_of_the_ports(end: str) -> None:
    result = result_of(order.Report(end=end, status=0), Isolation.SUBREAPER)
    assert result.end is LaunchEnd(end)


@pytest.mark.parametrize(
    "status,end,exit_code,signal",
    [
        (0, LaunchEnd.EXITED, 0, None),
        (7 << 8, LaunchEnd.EXITED, 7, None),
        (137 << 8, LaunchEnd.EXITED, 137, None),
        (9, LaunchEnd.SIGNALLED, None, 9),
        (11 | 0x80, LaunchEnd.SIGNALLED, None, 11),
    ],
)
def test_raw_status_tells_exit_from_signal(
    status: int, end: LaunchEnd, exit_code: int | None, signal: int | None
) -> None:
    result = result_of(order.Report(end=order.EXITED, status=status), Isolation.BUBBLEWRAP)
    assert (result.end, result.exit_code, result.signal) == (end, exit_code, signal)


def test_forced_end_has_neither_exit_code_nor_signal() -> None:
    result = result_of(order.Report(end=order.TIMED_OUT, status=9), Isolation.BUBBLEWRAP)
    assert (result.end, result.exit_code, result.signal) == (LaunchEnd.TIMED_OUT, None, None)
