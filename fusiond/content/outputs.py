"""Captured output becoming content: live log, kept bytes, true offsets.

The launcher leaves a log in which the middle may be a hole. What is kept is
head and tail without it, so that equal bytes are one content wherever their
hole was; offsets are mapped when a page is read.
"""

import hashlib
import os
import stat
from pathlib import Path

from fusiond.content.objects import CHUNK_BYTES, Objects, write_all
from fusiond.domain.digest import ContentRef, Digest
from fusiond.domain.errors import InvalidError
from fusiond.domain.ids import RunId
from fusiond.domain.steps.turn import OutputRef

# Without O_NONBLOCK a FIFO in a log's place would keep the thread for ever.
_LOG = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FRESH = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

Hole = tuple[int, int]


def adopt_log(objects: Objects, run: RunId, log: Path, hole: Hole | None, token: str) -> OutputRef:
    """Make a finished log content of its run, durably; the log is gone afterwards.

    Raises:
        OSError: the disk refuses; the log is where it was.
        InvalidError: the log is no regular file, or the hole does not lie inside it.
    """
    descriptor = os.open(log, _LOG)
    try:
        facts = os.fstat(descriptor)
        _check(log, facts, hole)
        total = facts.st_size
        if hole is None:
            ref = ContentRef(digest=_hash_whole(descriptor), size=total)
            os.fchmod(descriptor, 0o400)
            os.fsync(descriptor)
            objects.keep(run, log, ref)
        else:
            ref = _copy_kept(objects, run, descriptor, hole, token)
    finally:
        os.close(descriptor)
    log.unlink()
    return OutputRef(content=ref, total_bytes=total, hole=hole)


def _check(log: Path, facts: os.stat_result, hole: Hole | None) -> None:
    if not stat.S_ISREG(facts.st_mode):
        raise InvalidError(f"the log {log.name} is no regular file", expected="a file that the launcher made")
    if hole is not None and not 0 <= hole[0] <= hole[0] + hole[1] <= facts.st_size:
        raise InvalidError(
            f"the log {log.name} has {facts.st_size} bytes and no room for the hole {hole[0]}+{hole[1]}",
            expected="a hole inside the log",
        )


def _hash_whole(descriptor: int) -> Digest:
    with os.fdopen(os.dup(descriptor), "rb") as stream:
        return Digest(hashlib.file_digest(stream, "sha256").hexdigest())


def _copy_kept(objects: Objects, run: RunId, descriptor: int, hole: Hole, token: str) -> ContentRef:
    start, length = hole
    fresh = objects.temporary / token
    state, kept = hashlib.sha256(), 0
    target = os.open(fresh, _FRESH, 0o400)
    try:
        for first, end in ((0, start), (start + length, os.fstat(descriptor).st_size)):
            offset = first
            while offset < end and (data := os.pread(descriptor, min(CHUNK_BYTES, end - offset), offset)):
                state.update(data)
                write_all(target, data)
                offset += len(data)
                kept += len(data)
        os.fsync(target)
        ref = ContentRef(digest=Digest(state.hexdigest()), size=kept)
        objects.keep(run, fresh, ref)
    finally:
        os.close(target)
        fresh.unlink(missing_ok=True)
    return ref


def span(output: OutputRef, offset: int, limit: int) -> tuple[int, int, int]:
    """Map a page of true offsets to kept bytes.

    Returns:
        The true offset at which the page starts (moved out of a hole), the place
        in the kept bytes, and how many bytes the page may have. A page never
        reaches over the hole.
    """
    offset = min(max(offset, 0), output.total_bytes)
    if output.hole is None:
        return offset, offset, min(limit, output.total_bytes - offset)
    start, length = output.hole
    if offset < start:
        return offset, offset, min(limit, start - offset)
    offset = max(offset, start + length)
    return offset, offset - length, min(limit, output.total_bytes - offset)
