"""Head and tail of an output stay at their true offsets, whatever its size and pieces."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusiond.sandbox.inside.capture import Capture, Punch, open_pipe
from fusiond.sandbox.inside.kernel import punch_hole


@contextmanager
def capturing(log: Path, cap: int, punch: Punch = punch_hole) -> Iterator[tuple[Capture, int]]:
    """Open a capture into a new log; yield it with the write end of its pipe."""
    read_end, write_end = open_pipe()
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        yield Capture(read_end, descriptor, cap, punch), write_end
    finally:
        for each in (read_end, write_end, descriptor):
            os.close(each)


def feed(capture: Capture, write_end: int, pieces: list[bytes]) -> bytes:
    """Write the pieces, moving after each; return them joined."""
    for piece in pieces:
        assert os.write(write_end, piece) == len(piece)
        assert capture.pump()
    capture.drain()
    return b"".join(pieces)


@settings(max_examples=60)
@given(
    sizes=st.lists(st.integers(1, 60_000), max_size=20),
    cap=st.integers(0, 200_000),
    seed=st.integers(0, 2**32),
)
def test_head_and_tail_are_true(sizes: list[int], cap: int, seed: int, tmp_path_factory: object) -> None:
    assert isinstance(tmp_path_factory, pytest.TempPathFactory)
    log, random = tmp_path_factory.getbasetemp() / "log", Random(seed)
    with capturing(log, cap) as (capture, write_end):
        written = feed(capture, write_end, [random.randbytes(size) for size in sizes])
    kept = log.read_bytes()
    assert capture.total == len(kept) == len(written)
    if len(written) <= cap:
        assert (kept, capture.hole) == (written, None)
        return
    offset, length = cap // 2, len(written) - cap
    assert capture.hole == (offset, length)
    assert kept == written[:offset] + bytes(length) + written[offset + length :]
    # Of head and tail at most one block each is kept in part; the file system's own index may take one.
    assert log.stat().st_blocks * 512 <= cap + 3 * 4096


def test_disk_use_is_bounded_meanwhile(tmp_path: Path) -> None:
    # An eighth of the cap is the slack; one piece comes before it is noticed.
    cap, piece = 1 << 20, b"z" * 60_000
    log = tmp_path / "log"
    with capturing(log, cap) as (capture, write_end):
        for _ in range(200):
            os.write(write_end, piece)
            capture.pump()
            assert log.stat().st_blocks * 512 <= cap + cap // 8 + len(piece) + 3 * 4096


def never(_descriptor: int, _offset: int, _length: int) -> bool:
    """Stand for a file system without holes."""
    return False


def full(_descriptor: int, _offset: int, _length: int) -> bool:
    """Stand for one that fails."""
    raise OSError(28, "No space left on device")


def test_file_system_without_holes_ends_at_the_limit(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with capturing(log, 100_000, never) as (capture, write_end):
        written = feed(capture, write_end, [b"a" * 60_000, b"b" * 60_000, b"c" * 60_000, b"d" * 60_000])
        assert capture.over_limit
        assert capture.trouble == ""
        assert (capture.total, capture.hole) == (240_000, (100_000, 140_000))
    assert log.read_bytes() == written[:100_000]


def test_hole_that_cannot_be_made_later_keeps_the_head_alone(tmp_path: Path) -> None:
    answers = iter([True, False])

    def once(descriptor: int, offset: int, length: int) -> bool:
        return next(answers) and punch_hole(descriptor, offset, length)

    log = tmp_path / "log"
    with capturing(log, 100_000, once) as (capture, write_end):
        written = feed(capture, write_end, [bytes([n]) * 60_000 for n in range(1, 9)])
        assert capture.over_limit
        assert capture.hole == (50_000, len(written) - 50_000)
    assert log.read_bytes() == written[:50_000]


def test_disk_that_fails_while_punching_is_trouble(tmp_path: Path) -> None:
    with capturing(tmp_path / "log", 1000, full) as (capture, write_end):
        feed(capture, write_end, [b"x" * 60_000] * 4)
        assert capture.trouble.startswith("storage:")


def test_log_that_takes_nothing_is_trouble_and_the_output_still_counted() -> None:
    read_end, write_end = open_pipe()
    log = os.open("/dev/full", os.O_WRONLY)
    capture = Capture(read_end, log, 1 << 20)
    feed(capture, write_end, [b"x" * 50_000] * 3)
    assert capture.trouble == "storage: the output log cannot be written: No space left on device"
    assert (capture.total, capture.hole) == (150_000, (0, 150_000))
    for each in (read_end, write_end, log):
        os.close(each)


def test_log_that_cannot_be_spliced_into_is_written(tmp_path: Path) -> None:
    # The kernel refuses to splice into a file that is open for appending.
    read_end, write_end = open_pipe()
    log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    capture = Capture(read_end, log, 1 << 20)
    written = feed(capture, write_end, [b"one\n", b"two\n" * 1000])
    for each in (read_end, write_end, log):
        os.close(each)
    assert (tmp_path / "log").read_bytes() == written


def test_end_of_the_pipe_is_told(tmp_path: Path) -> None:
    read_end, write_end = open_pipe()
    log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    capture = Capture(read_end, log, 1 << 20)
    os.write(write_end, b"last")
    os.close(write_end)
    assert not capture.pump()
    assert capture.total == 4
    os.close(read_end)
    os.close(log)
