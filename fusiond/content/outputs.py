"""Captured output becoming content: live log, kept bytes, true offsets.

The launcher leaves a log in which the middle may be a hole. What is kept is
head and tail without it, so that equal bytes are one content wherever their
hole was; offsets are mapped when a page is read.
"""

import hashlib
import os
from pathlib import Path

from fusiond.content.objects import CHUNK_BYTES, Objects, write_all
from fusiond.domain.digest import ContentRef, Digest
from fusiond.domain.ids import RunId
from fusiond.domain.steps.turn import OutputRef

_LOG = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_FRESH = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

Hole = tuple[int, int]


def adopt_log(objects: Objects, run: RunId, log: Path, hole: Hole | None, token: str) -> OutputRef:
    """Make a finished log content of its run, durably; the log is gone afterwards."""
    descriptor = os.open(log, _LOG)
    try:
        total = os.fstat(descriptor).st_size
        if hole is None:
            digest = _hash_whole(descriptor)
            os.fchmod(descriptor, 0o400)
            os.fsync(descriptor)
            objects.keep(run, log, digest)
            kept = total
        else:
            digest, kept = _copy_kept(objects, run, descriptor, hole, token)
    finally:
        os.close(descriptor)
    log.unlink()
    return OutputRef(content=ContentRef(digest=digest, size=kept), total_bytes=total, hole=hole)


def _hash_whole(descriptor: int) -> Digest:
    with os.fdopen(os.dup(descriptor), "rb") as stream:
        return Digest(hashlib.file_digest(stream, "sha256").hexdigest())


def _copy_kept(objects: Objects, run: RunId, descriptor: int, hole: Hole, token: str) -> tuple[Digest, int]:
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
        objects.keep(run, fresh, Digest(state.hexdigest()))
    finally:
        os.close(target)
        fresh.unlink(missing_ok=True)
    return Digest(state.hexdigest()), kept


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
