"""Moves a command's output from its pipe into the log file, keeping head and tail past a cap.

Owns the log's bytes and the accounting of what was not kept. The command never holds the log: through
a descriptor of its own it could cut or rewrite it.
"""

import errno
import fcntl
import os
from _collections_abc import Callable  # collections.abc would bring all of collections

from fusiond.sandbox.inside import kernel

Punch = Callable[[int, int, int], bool]

PIPE_BYTES = 1 << 20
_PUMP_BYTES = 64 << 20
_BLOCK_BYTES = 64 << 10  # no file system of ours has larger ones
_SMALLEST_SLACK = 64 << 10
_LARGEST_SLACK = 8 << 20


class Capture:
    """One pipe, one log.

    Args:
        pipe: read end, made non-blocking here.
        log: regular file open for writing, empty, its position at 0; nobody else writes it.
        cap: bytes that may stay on disk, split evenly between head and tail.
        punch: gives blocks of the log back; see `kernel.punch_hole`.
    """

    def __init__(self, pipe: int, log: int, cap: int, punch: Punch = kernel.punch_hole) -> None:
        os.set_blocking(pipe, False)
        self.pipe = pipe
        self._punch_hole = punch
        self.total = 0
        self.over_limit = False
        self.trouble = ""
        self._sink = log
        self._log = log
        self._cap = cap
        self._head = cap // 2
        self._tail = cap - self._head
        self._slack = min(max(cap // 8, _SMALLEST_SLACK), _LARGEST_SLACK)
        self._hole_end = self._head
        self._kept: int | None = None
        self._splices = hasattr(os, "splice")

    @property
    def hole(self) -> tuple[int, int] | None:
        """Offset and length of what was not kept, in the output's own offsets."""
        start, end = (self._head, self._hole_end) if self._kept is None else (self._kept, self.total)
        return (start, end - start) if end > start else None

    def pump(self, at_most: int = _PUMP_BYTES) -> bool:
        """Move what is waiting.

        Args:
            at_most: bytes after which to return, so that deadlines are seen in between.

        Returns:
            False when every writer has closed its end.
        """
        limit = self.total + at_most
        while self.total < limit:
            try:
                moved = self._move()
            except BlockingIOError:
                return True
            if moved == 0:
                return False
            self.total += moved
            if self._kept is None and self.total - self._tail - self._hole_end > self._slack:
                self._punch()
        return True

    def drain(self) -> None:
        """Move what was in the pipe when its writers died, and leave exactly head and tail."""
        self.pump(_pipe_size(self.pipe))
        if self._kept is None and self.total > self._cap:
            self._punch()

    def _move(self) -> int:
        """Move one pipe's worth; a log that cannot take it is given up and the rest counted."""
        try:
            return self._splice() if self._splices else self._copy()
        except BlockingIOError:
            raise
        except OSError as error:
            if self._splices and error.errno == errno.EINVAL:
                self._splices = False  # some file systems cannot be spliced into
            elif self._kept is None:
                self.trouble = f"storage: the output log cannot be written: {error.strerror}"
                self._discard_from(self.total)
            else:
                raise
        return self._move()

    def _splice(self) -> int:
        return os.splice(self.pipe, self._sink, PIPE_BYTES)

    def _copy(self) -> int:
        block = memoryview(os.read(self.pipe, PIPE_BYTES))
        written = 0
        while written < len(block):
            try:
                written += os.write(self._sink, block[written:])
            except OSError as error:
                self.trouble = f"storage: the output log cannot be written: {error.strerror}"
                self._discard_from(self.total + written)
        return len(block)

    def _punch(self) -> None:
        end = self.total - self._tail
        if end <= self._hole_end:
            return
        # A block comes back only when one punch covers all of it: begin where the last one's began.
        start = max(self._head, self._hole_end - self._hole_end % _BLOCK_BYTES)
        try:
            punched = self._punch_hole(self._log, start, end - start)
        except OSError as error:
            self.trouble = f"storage: the output log cannot be kept short: {error.strerror}"
            punched = False
        if punched:
            self._hole_end = end
            return
        self.over_limit = True
        kept = self._cap if self._hole_end == self._head else self._head
        os.ftruncate(self._log, kept)
        self._discard_from(kept)

    def _discard_from(self, offset: int) -> None:
        self._kept = offset
        self._sink = os.open(os.devnull, os.O_WRONLY)


def open_pipe() -> tuple[int, int]:
    """Return read and write end of a pipe as large as an ordinary user may have.

    A user with many pipes is granted fewer bytes; a small pipe is slower, never wrong.
    """
    read_end, write_end = os.pipe()
    try:
        fcntl.fcntl(read_end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    except PermissionError:
        return read_end, write_end
    return read_end, write_end


def _pipe_size(descriptor: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ)
