"""Reads objects of one repository by id, through one long-lived `git cat-file`.

Owns the dialogue with that process, its restarts, and the check that what it sent
has the id that was asked for. Names of revisions never come here.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import field

from fusiond.domain.errors import CorruptError, NotFoundError, TooLargeError
from fusiond.domain.ids import is_object_id
from fusiond.domain.records import dataclass
from fusiond.workspace.plumbing.git import Git, GitError, Place, end

MAX_WHOLE_BYTES = 64 * 1024 * 1024
"""The largest object that `read` takes into memory."""

EXCHANGE_S = 600.0
"""How long one exchange with the process may take, in seconds."""

_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Type (`blob`, `tree`, `commit`, `tag`) and size in bytes of an object."""

    type: str
    size: int


@dataclass(slots=True)
class ObjectReader:
    """Reads objects, one caller at a time.

    Args:
        git: runs git.
        place: the repository.
        generation: changes whenever the repository borrows from another place; the
            process learns of that only by being started again.
    """

    git: Git
    place: Place
    generation: Callable[[], int]
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _process: asyncio.subprocess.Process | None = field(default=None, init=False)
    _started: int = field(default=0, init=False)

    async def read(self, object_id: str, kind: str) -> bytes:
        """Return the body of an object of at most `MAX_WHOLE_BYTES`.

        Raises:
            NotFoundError: there is no such object of this kind.
            CorruptError: the stored bytes do not have this id.
            TooLargeError: it is larger than that.
        """
        pieces: list[bytes] = []
        await self.feed(object_id, kind, pieces.append, most=MAX_WHOLE_BYTES)
        return b"".join(pieces)

    async def feed(
        self, object_id: str, kind: str, sink: Callable[[bytes], object], *, most: int | None = None
    ) -> None:
        """Give the body of an object to `sink` in pieces; nothing may be used before this returns.

        Args:
            object_id: which object.
            kind: its type.
            sink: called with each piece, in order.
            most: the largest size accepted, in bytes.

        Raises:
            NotFoundError, CorruptError, TooLargeError: as `read`.
        """
        _checked(object_id)
        async with self._dialogue() as process:
            _send(process, f"contents {object_id}\n")
            found = await _answer(process, object_id)
            if found is not None and most is not None and found.size > most:
                # Ends the process as well, which is cheaper than reading the body for nothing.
                raise TooLargeError(f"object {object_id} has {found.size} bytes", expected=f"{most} at most")
            state = hashlib.new("sha1" if len(object_id) == 40 else "sha256", usedforsecurity=False)
            if found is not None:
                state.update(f"{found.type} {found.size}\0".encode())
                async for piece in _body(process, found.size):
                    state.update(piece)
                    sink(piece)
        _judge(_present(found, object_id), object_id, kind, state.hexdigest())

    async def close(self) -> None:
        """End the process; the next read starts another."""
        async with self._lock:
            await self._stop()

    async def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await end(process)

    def _is_stale(self, process: asyncio.subprocess.Process) -> bool:
        return process.returncode is not None or self._started != self.generation()

    @asynccontextmanager
    async def _dialogue(self) -> AsyncIterator[asyncio.subprocess.Process]:
        """Lend the process; an exchange that does not end well ends the process too."""
        async with self._lock:
            if self._process is not None and self._is_stale(self._process):
                await self._stop()
            if self._process is None:
                await self.git.check()
                self._started = self.generation()
                self._process = await self.git.start(self.place, "cat-file", "--batch-command", mute=True)
            try:
                async with asyncio.timeout(EXCHANGE_S):
                    yield self._process
            except TimeoutError:
                await self._stop()
                raise GitError(f"git cat-file did not answer within {EXCHANGE_S:g} s") from None
            except BaseException:
                await self._stop()
                raise


def _checked(object_id: str) -> str:
    if not is_object_id(object_id):
        raise NotFoundError("no object has this id", expected="a full object id")
    return object_id


def _present(kind: Kind | None, object_id: str) -> Kind:
    if kind is None:
        raise NotFoundError(f"object {object_id} is not in the workspace's repository")
    return kind


def _judge(found: Kind, object_id: str, kind: str, hexdigest: str) -> None:
    if found.type != kind:
        raise NotFoundError(f"object {object_id} is a {found.type}", expected=f"a {kind}")
    if hexdigest != object_id:
        raise CorruptError(
            f"the stored bytes of {kind} {object_id} have another id",
            cure="restore `.fusion` from a backup; revisions that hold it cannot be trusted",
        )


def _send(process: asyncio.subprocess.Process, text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(text.encode())


async def _answer(process: asyncio.subprocess.Process, object_id: str) -> Kind | None:
    assert process.stdout is not None
    fields = (await process.stdout.readline()).decode(errors="replace").split()
    if len(fields) == 3 and fields[0] == object_id:
        return Kind(type=fields[1], size=int(fields[2]))
    if fields == [object_id, "missing"]:
        return None
    raise _stopped(object_id)


async def _body(process: asyncio.subprocess.Process, size: int) -> AsyncIterator[bytes]:
    assert process.stdout is not None
    left = size
    while left:
        piece = await process.stdout.read(min(left, _PIECE_BYTES))
        if not piece:
            raise _stopped("an object")
        left -= len(piece)
        yield piece
    await process.stdout.readexactly(1)


def _stopped(what: str) -> GitError:
    return GitError(f"git cat-file stopped while it read {what}", cure="run `git fsck` in `.fusion/repo.git`")
