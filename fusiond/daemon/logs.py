"""The daemon's log: one JSON object a line, bounded, in `.fusion/daemon.log`.

Owns the form of a line and the rotation of the file. Untrusted text goes into
fields, never into the message; everything is escaped to printable ASCII, so
no line can forge another or steer a terminal (`governance.md`, Terminal safety).
"""

import json
import logging
import os
import stat
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from fusiond.execution.logged import FACTS_ATTRIBUTE

Value = str | int | bool | None

FIELD_CHARS = 2_048
TRACE_CHARS = 16_384


def fields(**facts: Value) -> dict[str, Mapping[str, Value]]:
    """Return what `extra=` of a logging call takes to give the line structured fields."""
    return {FACTS_ATTRIBUTE: facts}


class JsonLines(logging.Formatter):
    """Formats a record as one line of printable ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="microseconds")
        line: dict[str, Value] = {
            "at": moment,
            "level": record.levelname.lower(),
            "from": record.name,
            "message": _cut(record.getMessage(), FIELD_CHARS),
        }
        given: Mapping[str, Value] = getattr(record, FACTS_ATTRIBUTE, {})
        for name, value in given.items():
            line[name if name not in line else f"{name}_"] = (
                _cut(value, FIELD_CHARS) if isinstance(value, str) else value
            )
        if record.exc_info and record.exc_info[1] is not None:
            line["trace"] = _cut("".join(traceback.format_exception(record.exc_info[1])), TRACE_CHARS)
        # JSON escapes all but one of the control characters.
        return json.dumps(line, ensure_ascii=True).replace("\x7f", "\\u007f")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}... ({len(text) - most} more characters)"


class RotatingFile(logging.Handler):
    """Appends lines to a file, which is set aside as `.1`, `.2` … when it is full.

    The file is opened without following a link and with mode 0600. A line that
    cannot be written (full disk) is counted, and the number is said in the next
    line that can.

    Args:
        path: of the newest file.
        max_bytes: size at which it is set aside.
        keep: how many older files are kept, at least 1.
    """

    def __init__(self, path: str, *, max_bytes: int, keep: int) -> None:
        super().__init__()
        self._path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._lost = 0
        self._descriptor = _open(path)
        self._size = os.fstat(self._descriptor).st_size

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:
            # The boundary of the log: a line that cannot be made must not fail what it is about.
            self.handleError(record)
            return
        if self._lost:
            line = f'{{"level": "warning", "message": "lines lost", "lines": {self._lost}}}\n{line}'
        try:
            self._write(f"{line}\n".encode("ascii"))
        except OSError:
            self._lost += 1
        else:
            self._lost = 0

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        super().close()

    def _write(self, data: bytes) -> None:
        if self._size and self._size + len(data) > self._max_bytes:
            self._rotate()
        written = os.write(self._descriptor, data)
        self._size += written
        if written < len(data):
            raise OSError("the line was written in part")

    def _rotate(self) -> None:
        for number in range(self._keep - 1, 0, -1):
            older = Path(f"{self._path}.{number}")
            if older.exists():
                older.rename(f"{self._path}.{number + 1}")
        Path(self._path).rename(f"{self._path}.1")
        fresh = _open(self._path)
        os.close(self._descriptor)
        self._descriptor = fresh
        self._size = 0


def _open(path: str) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no regular file")
    return descriptor


def start_logging(path: str, *, level: str, max_bytes: int, keep: int, also_stderr: bool) -> logging.Handler:
    """Send everything that is logged to `path`; return the handler, to be closed at the end.

    Args:
        path: of the log file.
        level: the least level that is kept, such as `INFO`.
        max_bytes: see `RotatingFile`.
        keep: see `RotatingFile`.
        also_stderr: in the foreground, say it there too.

    Raises:
        OSError: the file cannot be opened, or is a link.
    """
    root = logging.getLogger()
    root.setLevel(level)
    handler = RotatingFile(path, max_bytes=max_bytes, keep=keep)
    handler.setFormatter(JsonLines())
    root.addHandler(handler)
    if also_stderr:
        shown = logging.StreamHandler(sys.stderr)
        shown.setFormatter(JsonLines())
        root.addHandler(shown)
    return handler
