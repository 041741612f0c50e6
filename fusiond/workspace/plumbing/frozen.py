"""Bodies of git objects kept at hand: parsed trees, small blobs, facts, large blobs on disk.

Owns what is remembered and for how long. Objects never change, so nothing here is
ever out of date; every body was checked against its id when it was read.
"""

import hashlib
import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable
from typing import IO, Generic, TypeVar

from fusiond.domain.digest import Digest
from fusiond.domain.errors import CorruptError
from fusiond.domain.records import dataclass
from fusiond.ports.workspace import EntryKind
from fusiond.workspace.plumbing.objects import ObjectReader

WHOLE_BYTES = 1024 * 1024
"""Blobs up to this size are read into memory; larger ones are spooled to a file, once."""

_BLOB_BYTES = 32 * 1024 * 1024
_TREES = 4096
_FACTS = 65536
_SPOOLED = 4
_SNIFFED_BYTES = 8000
_MODES = {"40000": EntryKind.DIRECTORY, "120000": EntryKind.SYMLINK, "160000": EntryKind.SUBMODULE}

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEntry:
    """One entry of a git tree."""

    name: bytes
    kind: EntryKind
    object_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobFacts:
    """What reading a whole blob told: its size in bytes, its digest, whether it looks like text."""

    size: int
    digest: Digest
    is_text: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Bytes of a blob from some offset on, and its whole size."""

    total: int
    data: bytes


class Recent(Generic[Value]):
    """The values used last, up to a total weight.

    Args:
        most: the total weight.
        weigh: weight of one value.
        drop: told of each value that has to go.
    """

    def __init__(
        self,
        most: int,
        weigh: Callable[[Value], int] = lambda _: 1,
        drop: Callable[[Value], None] = lambda _: None,
    ) -> None:
        self._values: OrderedDict[str, Value] = OrderedDict()
        self._most = most
        self._weight = 0
        self._weigh = weigh
        self._drop = drop

    def recall(self, key: str) -> Value | None:
        """Return a value and count it as used, or None."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def keep(self, key: str, value: Value) -> None:
        """Keep a value, and let go of those used longest ago."""
        previous = self._values.pop(key, None)
        if previous is not None:
            self._weight -= self._weigh(previous)
            self._drop(previous)
        self._values[key] = value
        self._weight += self._weigh(value)
        while self._weight > self._most and len(self._values) > 1:
            _, oldest = self._values.popitem(last=False)
            self._weight -= self._weigh(oldest)
            self._drop(oldest)

    def clear(self) -> None:
        """Let go of everything."""
        for value in self._values.values():
            self._drop(value)
        self._values.clear()
        self._weight = 0


class FrozenObjects:
    """Trees and blobs by id.

    Args:
        reader: where they come from.
        directory: where large blobs are spooled, in files without a name.
    """

    def __init__(self, reader: ObjectReader, directory: str) -> None:
        self._reader = reader
        self._directory = directory
        self._trees: Recent[tuple[TreeEntry, ...]] = Recent(_TREES)
        self._facts: Recent[BlobFacts] = Recent(_FACTS)
        self._bodies: Recent[bytes] = Recent(_BLOB_BYTES, len)
        self._spools: Recent[IO[bytes]] = Recent(_SPOOLED, drop=_close)

    async def tree(self, object_id: str) -> tuple[TreeEntry, ...]:
        """Return the entries of a tree in git's order. NotFoundError, CorruptError."""
        found = self._trees.recall(object_id)
        if found is None:
            found = parse_tree(await self._reader.read(object_id, "tree"), len(object_id) // 2)
            self._trees.keep(object_id, found)
        return found

    async def facts(self, object_id: str) -> BlobFacts:
        """Return a blob's facts; reads it whole the first time. NotFoundError, CorruptError."""
        found = self._facts.recall(object_id)
        if found is None:
            state, sniffed, size = hashlib.sha256(), bytearray(), 0

            def take(piece: bytes) -> None:
                nonlocal size
                size += len(piece)
                state.update(piece)
                sniffed.extend(piece[: _SNIFFED_BYTES - len(sniffed)])

            await self._reader.feed(object_id, "blob", take)
            found = BlobFacts(size=size, digest=Digest(state.hexdigest()), is_text=0 not in sniffed)
            self._facts.keep(object_id, found)
        return found

    async def part(self, object_id: str, offset: int, limit: int) -> Part:
        """Return up to `limit` bytes of a blob from `offset` on. NotFoundError, CorruptError."""
        body = self._bodies.recall(object_id)
        spool = self._spools.recall(object_id) if body is None else None
        if body is None and spool is None:
            body, spool = await self._load(object_id)
        if body is not None:
            return Part(total=len(body), data=body[offset : offset + limit])
        assert spool is not None
        total = os.fstat(spool.fileno()).st_size
        return Part(total=total, data=os.pread(spool.fileno(), limit, offset))

    async def _load(self, object_id: str) -> tuple[bytes | None, IO[bytes] | None]:
        sink = _Sink(self._directory)
        try:
            await self._reader.feed(object_id, "blob", sink.take)
        except BaseException:
            sink.drop()
            raise
        if sink.file is None:
            body = b"".join(sink.pieces)
            self._bodies.keep(object_id, body)
            return body, None
        sink.file.flush()
        self._spools.keep(object_id, sink.file)
        return None, sink.file

    def clear(self) -> None:
        """Let go of everything, and close what is open."""
        for each in (self._trees, self._facts, self._bodies, self._spools):
            each.clear()


class _Sink:
    """Takes a body in pieces: in memory while it is small, in a file without a name after that."""

    def __init__(self, directory: str) -> None:
        self.pieces: list[bytes] = []
        self.file: IO[bytes] | None = None
        self._directory = directory
        self._size = 0

    def take(self, piece: bytes) -> None:
        self._size += len(piece)
        if self.file is None and self._size > WHOLE_BYTES:
            # Closed by whoever takes it over, or by `drop`.
            self.file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115
            self.file.writelines(self.pieces)
            self.pieces.clear()
        if self.file is None:
            self.pieces.append(piece)
        else:
            self.file.write(piece)

    def drop(self) -> None:
        if self.file is not None:
            self.file.close()


def _close(file: IO[bytes]) -> None:
    file.close()


def parse_tree(body: bytes, id_bytes: int) -> tuple[TreeEntry, ...]:
    """Parse a tree object's body; object ids in it have `id_bytes` bytes. CorruptError."""
    entries: list[TreeEntry] = []
    at = 0
    while at < len(body):
        space = body.find(b" ", at)
        end = body.find(b"\0", space)
        if space < 0 or end < 0 or end + 1 + id_bytes > len(body):
            raise CorruptError("a tree object that cannot be parsed", cure="run `git fsck`")
        mode = body[at:space].decode(errors="replace")
        at = end + 1 + id_bytes
        entries.append(
            TreeEntry(
                name=body[space + 1 : end],
                kind=_MODES.get(mode, EntryKind.FILE),
                object_id=body[end + 1 : at].hex(),
            )
        )
    return tuple(entries)
