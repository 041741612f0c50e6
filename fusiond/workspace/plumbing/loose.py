"""Writes blobs into an object directory, from descriptors that are already open.

Owns the encoding of loose objects and their durability. It exists because git opens
files by name: between git's look at a name and its opening, a process of the agent
could put a link there and have any file of the user's stored in a revision.
"""

import ctypes
import hashlib
import os
import secrets
import sys
import zlib
from dataclasses import dataclass, field

from fusiond.workspace.disk.layout import sync_directory

_PIECE_BYTES = 1 << 20
_FEW = 64
_LEVEL = 1


class ChangedWhileReadError(Exception):
    """A file was written to while it was being read."""


@dataclass(slots=True)
class LooseObjects:
    """Adds blobs; nothing is visible before `publish`.

    Args:
        directory: an object directory.
        object_format: `sha1` or `sha256`.
    """

    directory: str
    object_format: str
    _waiting: dict[str, str] = field(default_factory=dict, init=False)

    @property
    def id_chars(self) -> int:
        """How many characters an object id has."""
        return 40 if self.object_format == "sha1" else 64

    def add(self, body: bytes) -> str:
        """Add a blob from memory and return its object id."""
        head = b"blob %d\0" % len(body)
        object_id = self._hash(head + body).hexdigest()
        if not self._has(object_id):
            with os.fdopen(self._begin(object_id), "wb") as file:
                file.write(zlib.compress(head + body, _LEVEL))
        return object_id

    def add_file(self, fd: int, size: int) -> str:
        """Add a blob from an open regular file and return its object id.

        Args:
            fd: the file, at its start.
            size: its length in bytes, as `fstat` gave it.

        Raises:
            ChangedWhileReadError: it holds more or fewer bytes now.
        """
        if size <= _PIECE_BYTES:
            body = _read_all(fd, size + 1)
            if len(body) != size:
                raise ChangedWhileReadError
            return self.add(body)
        return self._stream(fd, size)

    def _stream(self, fd: int, size: int) -> str:
        head = b"blob %d\0" % size
        state = self._hash(head)
        packer = zlib.compressobj(_LEVEL)
        aside = f"{self.directory}/tmp_obj_{secrets.token_hex(8)}"
        left = size
        try:
            with open(aside, "xb") as file:
                file.write(packer.compress(head))
                while piece := os.read(fd, _PIECE_BYTES):
                    left -= len(piece)
                    state.update(piece)
                    file.write(packer.compress(piece))
                    if left < 0:
                        break
                file.write(packer.flush())
            if left != 0:
                raise ChangedWhileReadError
        except BaseException:
            os.unlink(aside)
            raise
        self._keep(state.hexdigest(), aside)
        return state.hexdigest()

    def _hash(self, data: bytes) -> "hashlib._Hash":
        return hashlib.new(self.object_format, data, usedforsecurity=False)

    def _path(self, object_id: str) -> str:
        return f"{self.directory}/{object_id[:2]}/{object_id[2:]}"

    def _has(self, object_id: str) -> bool:
        return object_id in self._waiting or os.path.exists(self._path(object_id))

    def _begin(self, object_id: str) -> int:
        aside = f"{self.directory}/tmp_obj_{secrets.token_hex(8)}"
        self._waiting[object_id] = aside
        return os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)

    def _keep(self, object_id: str, aside: str) -> None:
        if self._has(object_id):
            os.unlink(aside)
        else:
            os.chmod(aside, 0o444)
            self._waiting[object_id] = aside

    def publish(self) -> None:
        """Make every added blob durable, then visible under its id."""
        if not self._waiting:
            return
        self._flush()
        shards = {object_id[:2] for object_id in self._waiting}
        for shard in shards:
            os.makedirs(f"{self.directory}/{shard}", exist_ok=True)
        for object_id, aside in self._waiting.items():
            os.rename(aside, self._path(object_id))
        self._waiting.clear()
        for shard in shards:
            sync_directory(f"{self.directory}/{shard}")
        sync_directory(self.directory)

    def drop(self) -> None:
        """Forget what was added and not published."""
        for aside in self._waiting.values():
            if os.path.exists(aside):
                os.unlink(aside)
        self._waiting.clear()

    def _flush(self) -> None:
        # One flush of the file system costs less than a flush for each of very many files.
        if len(self._waiting) > _FEW and _sync_file_system(self.directory):
            return
        for aside in self._waiting.values():
            fd = os.open(aside, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


def _read_all(fd: int, most: int) -> bytes:
    pieces: list[bytes] = []
    while most > 0 and (piece := os.read(fd, most)):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)


def _sync_file_system(directory: str) -> bool:
    """Flush the file system that holds a directory; False where the platform cannot."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if libc.syncfs(fd) != 0:
            raise OSError(ctypes.get_errno(), "syncfs failed", directory)
    except AttributeError:
        return False
    finally:
        os.close(fd)
    return True
