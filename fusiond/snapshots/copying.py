"""One pass over a file: read, hash, check and, when it is frozen, write.

Owns the guarantee that everything said about a copy is said about the very
bytes that were copied: the digest is of what was written, whatever the source
did meanwhile. A look at the source's times before and after is a courtesy.
"""

import hashlib
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from fusiond.domain.digest import Digest, digest_fields
from fusiond.snapshots.disk import Disk
from fusiond.snapshots.formats import FormatCheck
from fusiond.snapshots.kernel import start_writing_back

CHUNK_BYTES = 256 * 1024
"""A page is checked in these units."""

SMALL_BYTES = CHUNK_BYTES
"""Up to here a file is read in one piece."""

BLOCK_BYTES = 1024 * 1024
LARGE_BYTES = 16 * 1024 * 1024
"""From here on two threads that hash cost less than they save."""

WRITE_BACK_BYTES = 16 * 1024 * 1024

_BUFFERS = 4
_HASH_BYTES = 32


class SourceError(Exception):
    """The source cannot be read any further; the disk that is written to is not at fault."""


class Copied(NamedTuple):
    """What passed by.

    `chunk_hashes` are the SHA-256 of the body's chunks, end to end, where the body
    has more than one; `changed` says that the source did not hold still.
    """

    size: int
    digest: Digest
    chunk_hashes: bytes = b""
    changed: bool = False


def chunks_digest(chunk_hashes: bytes) -> Digest:
    """Return the digest that stands for the hashes of all chunks of one body."""
    return digest_fields("fusion.chunks.v1", (str(CHUNK_BYTES).encode(), chunk_hashes))


def pass_over(
    source: int,
    status: os.stat_result,
    limit: int,
    target: int | None,
    check: FormatCheck | None,
    disk: Disk,
) -> Copied:
    """Read a file to its end, or until it is past `limit` bytes.

    Args:
        source: descriptor to read from, at offset 0.
        status: of `source`, taken when it was opened.
        limit: bytes; one more than that is the most that is read of a larger file.
        target: descriptor to write to, or None where the file is only hashed; chunks
            are hashed only of what is copied.
        check: is shown every byte; None where the format does not matter.
        disk: writes.

    Raises:
        SourceError: the source's disk fails.
        OSError: what `disk` raises.
    """
    if status.st_size <= SMALL_BYTES:
        data = _read_small(source, status.st_size)
        if len(data) <= SMALL_BYTES:
            if target is not None:
                disk.write_all(target, data)
            if check is not None:
                check.feed(data)
            digest = Digest(hashlib.sha256(data).hexdigest())
            return Copied(len(data), digest, b"", len(data) != status.st_size)
        # It grew under our hands. What was read so far is read again.
        os.lseek(source, 0, os.SEEK_SET)
    one = _Pass(source, limit, target, check, disk)
    size = one.threaded() if status.st_size >= LARGE_BYTES else one.plain()
    hashes = one.chunk_hashes if target is not None and size > CHUNK_BYTES else b""
    return Copied(size, Digest(one.whole.hexdigest()), hashes, _moved(source, status, size))


def _read_small(source: int, size: int) -> bytes:
    try:
        data = os.read(source, size + 1)
        if len(data) == size:
            return data
        while 0 < len(data) <= SMALL_BYTES:
            more = os.read(source, SMALL_BYTES + 1 - len(data))
            if not more:
                break
            data += more
    except OSError as error:
        raise SourceError(error.strerror) from error
    return data


def _moved(source: int, before: os.stat_result, size: int) -> bool:
    """Say whether a file that took several reads was touched between the first and the last."""
    after = os.fstat(source)
    times = (before.st_mtime_ns, before.st_ctime_ns) != (after.st_mtime_ns, after.st_ctime_ns)
    return times or size != after.st_size


class _Pass:
    """A pass over a file of many blocks."""

    def __init__(
        self, source: int, limit: int, target: int | None, check: FormatCheck | None, disk: Disk
    ) -> None:
        self.whole = hashlib.sha256()
        self._source = source
        self._limit = limit
        self._target = target
        self._check = check
        self._disk = disk
        self._chunks: list[bytes] = []

    @property
    def chunk_hashes(self) -> bytes:
        """The hashes of all chunks so far, end to end."""
        return b"".join(self._chunks)

    def plain(self) -> int:
        """Do everything in this thread; return the size."""
        block = memoryview(bytearray(BLOCK_BYTES))
        size = 0
        while size <= self._limit and (view := self._fill(block, size)):
            self.whole.update(view)
            self._hash_chunks(view)
            self._pass_on(view, size)
            size += len(view)
        return size

    def threaded(self) -> int:
        """Hash in two other threads while this one reads and writes; return the size."""
        blocks = [memoryview(bytearray(BLOCK_BYTES)) for _ in range(_BUFFERS)]
        busy: list[list[Future[None]]] = [[] for _ in blocks]
        size, turn = 0, 0
        with ThreadPoolExecutor(1) as whole, ThreadPoolExecutor(1) as chunks:
            while size <= self._limit:
                for each in busy[turn]:
                    each.result()
                view = self._fill(blocks[turn], size)
                if not view:
                    break
                busy[turn] = [whole.submit(self.whole.update, view), chunks.submit(self._hash_chunks, view)]
                self._pass_on(view, size)
                size += len(view)
                turn = (turn + 1) % _BUFFERS
        for each in (future for futures in busy for future in futures):
            each.result()
        return size

    def _fill(self, block: memoryview, size: int) -> memoryview:
        """Fill the block unless the file or the limit ends, so that chunks stay aligned."""
        wanted = min(len(block), self._limit + 1 - size)
        got = 0
        while got < wanted:
            try:
                read = os.readv(self._source, [block[got:wanted]])
            except OSError as error:
                raise SourceError(error.strerror) from error
            if read == 0:
                break
            got += read
        return block[:got]

    def _hash_chunks(self, view: memoryview) -> None:
        if self._target is not None:
            for start in range(0, len(view), CHUNK_BYTES):
                self._chunks.append(hashlib.sha256(view[start : start + CHUNK_BYTES]).digest())

    def _pass_on(self, view: memoryview, offset: int) -> None:
        if self._target is not None:
            self._disk.write_all(self._target, view)
            end = offset + len(view)
            if end % WRITE_BACK_BYTES == 0:
                start_writing_back(self._target, end - WRITE_BACK_BYTES, WRITE_BACK_BYTES)
        if self._check is not None:
            self._check.feed(view)


def hash_of_chunk(chunk_hashes: bytes, index: int) -> bytes:
    """Return the hash of one chunk out of the hashes of all."""
    return chunk_hashes[index * _HASH_BYTES : (index + 1) * _HASH_BYTES]
