"""The log: one JSON object a line whatever is logged, bounded on disk, never failing its caller."""

import json
import logging
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.daemon.logs import FIELD_CHARS, JsonLines, RotatingFile, fields

Line = dict[str, object]


def record(message: str, *arguments: object, **extra: object) -> logging.LogRecord:
    """Return a record as the logging library makes it."""
    made = logging.LogRecord("fusiond.x", logging.INFO, "", 1, message, arguments, None)
    made.__dict__.update(extra)
    return made


def formatted(made: logging.LogRecord) -> Line:
    """Return the line of a record, read back."""
    line = JsonLines().format(made)
    assert line.isascii()
    assert line.isprintable()
    parsed: Line = json.loads(line)
    return parsed


def test_line_says_when_how_grave_where_from_and_what() -> None:
    line = formatted(record("ready", **fields(pid=7, draining=False, why=None)))
    assert set(line) == {"at", "level", "from", "message", "pid", "draining", "why"}
    assert (line["level"], line["from"], line["message"]) == ("info", "fusiond.x", "ready")
    assert (line["pid"], line["draining"], line["why"]) == (7, False, None)
    assert str(line["at"]).endswith("+00:00")


def test_field_cannot_take_a_lines_own_name() -> None:
    line = formatted(record("ready", **fields(message="forged", level="error")))
    assert (line["message"], line["message_"]) == ("ready", "forged")
    assert (line["level"], line["level_"]) == ("info", "error")


@given(st.text(max_size=50))
def test_any_text_is_one_printable_line(text: str) -> None:
    line = formatted(record("%s", text, **fields(text=text)))
    assert line["message"] == line["text"] == text


def test_half_a_surrogate_pair_is_kept_escaped() -> None:
    assert formatted(record("m", **fields(name="a\udcff")))["name"] == "a\udcff"


def test_long_text_is_cut_and_says_so() -> None:
    text = str(formatted(record("m", **fields(text="x" * 10_000)))["text"])
    assert text.startswith("x" * FIELD_CHARS)
    assert text.endswith(f"({10_000 - FIELD_CHARS} more characters)")


def test_error_comes_with_its_trace() -> None:
    made = record("failed")
    try:
        raise ValueError("inside\nand out")
    except ValueError as error:
        made.exc_info = (ValueError, error, error.__traceback__)
    assert "ValueError: inside\nand out" in str(formatted(made)["trace"])


@contextmanager
def log_file(path: Path, *, max_bytes: int = 10_000, keep: int = 2) -> Iterator[RotatingFile]:
    """Open a log and close it."""
    handler = RotatingFile(str(path), max_bytes=max_bytes, keep=keep)
    handler.setFormatter(JsonLines())
    try:
        yield handler
    finally:
        handler.close()
        handler.close()


def messages(path: Path) -> list[object]:
    """Return the messages in a log file."""
    return [json.loads(line)["message"] for line in path.read_text().splitlines()]


def test_lines_are_appended_over_restarts(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    for life in ("one", "two"):
        with log_file(path) as log:
            log.emit(record(life))
    assert messages(path) == ["one", "two"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_full_file_is_set_aside_and_the_oldest_dropped(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    with log_file(path, max_bytes=1_000, keep=2) as log:
        for number in range(100):
            log.emit(record(str(number)))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["daemon.log", "daemon.log.1", "daemon.log.2"]
    assert all(each.stat().st_size <= 1_000 for each in tmp_path.iterdir())
    kept = [m for name in ("daemon.log.2", "daemon.log.1", "daemon.log") for m in messages(tmp_path / name)]
    assert kept == [str(number) for number in range(100 - len(kept), 100)]


def test_size_is_counted_over_restarts(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    for _ in range(30):
        with log_file(path, max_bytes=1_000) as log:
            log.emit(record("again"))
    assert path.stat().st_size <= 1_000


def test_line_longer_than_a_file_is_still_written(tmp_path: Path) -> None:
    with log_file(tmp_path / "daemon.log", max_bytes=100) as log:
        log.emit(record("x" * 500))
        log.emit(record("y"))
    assert messages(tmp_path / "daemon.log.1") == ["x" * 500]
    assert messages(tmp_path / "daemon.log") == ["y"]


@pytest.mark.parametrize("kind", ["link", "fifo", "directory"])
def test_what_is_no_file_of_ours_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "daemon.log"
    if kind == "link":
        path.symlink_to(tmp_path / "precious")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(OSError):
        RotatingFile(str(path), max_bytes=1_000, keep=1)
    assert not (tmp_path / "precious").exists()


def test_lines_that_the_disk_refuses_are_counted_and_told_later(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with log_file(path) as log:
            log.emit(record("before"))
            # No room at all, as on a full disk.
            resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, hard))
            log.emit(record("lost"))
            log.emit(record("lost too"))
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            log.emit(record("after"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert messages(path) == ["before", "lines lost", "after"]
    assert json.loads(path.read_text().splitlines()[1])["lines"] == 2


def test_record_that_cannot_be_formatted_fails_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with log_file(tmp_path / "daemon.log") as log:
        log.emit(record("%d", "not a number"))
        log.emit(record("after"))
    assert messages(tmp_path / "daemon.log") == ["after"]
    assert "Logging error" in capsys.readouterr().err
