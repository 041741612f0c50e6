"""Records a directory that an agent filled as a git tree.

Owns the reading of the files that `listing` names, without following anything, and
the refusal of those that cannot be part of a revision: what cannot be read, what is
too large, names that no revision may have, and a FIFO, socket or device in place of a
tracked file. Elsewhere those are simply no part of a revision, as for git.
"""

import asyncio
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from fusiond.domain.display import display_safe
from fusiond.domain.errors import RefusedError, TryAgainError
from fusiond.domain.ids import TreeId
from fusiond.ports.workspace import TreeSnapshot
from fusiond.workspace.checkout.view import listed
from fusiond.workspace.disk.layout import storing
from fusiond.workspace.disk.removal import DIRECTORY, opened
from fusiond.workspace.listing import (
    DENIED,
    GONE,
    Listing,
    list_tree,
    not_ignored,
    problem_with_name,
    survey,
)
from fusiond.workspace.plumbing.git import LONG_S, Git, Place
from fusiond.workspace.plumbing.loose import ChangedWhileReadError, LooseObjects

MAX_FILE_BYTES = 512 * 1024 * 1024
"""The largest file that a revision takes, in bytes."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_TRIES = 3


@dataclass(slots=True)
class Candidates:
    """What reading the candidates found: lines for `update-index`, and refusals."""

    gone: list[bytes] = field(default_factory=list)
    present: list[bytes] = field(default_factory=list)
    refused: list[tuple[bytes, str]] = field(default_factory=list)


async def record_tree(
    git: Git,
    place: Place,
    objects: LooseObjects,
    never: Sequence[str],
    *,
    max_file_bytes: int = MAX_FILE_BYTES,
) -> TreeSnapshot:
    """Record the work tree of `place` and return its tree id.

    Args:
        git: runs git.
        place: the daemon's own git directory and index for this work tree.
        objects: where blobs are written; the object directory of `place`.
        never: ignore patterns that no `.gitignore` can take back.
        max_file_bytes: the largest file accepted.

    Raises:
        RefusedError: files that cannot be part of a revision; all are named.
        TryAgainError: a file was written to while it was read, again and again.
        StorageError: the disk refused.
    """
    assert place.work_tree is not None
    surveyed = await asyncio.to_thread(survey, place.work_tree, frozenset(never))
    if surveyed.traps:
        # Opened by git, they would keep it waiting for ever.
        raise _refusal(
            [(path, "is a FIFO, socket or device where git reads rules") for path in surveyed.traps]
        )
    listing = await list_tree(git, place, never)
    nested = await not_ignored(git, place, set(surveyed.holders), known=set(listing.nested))
    with storing("the attempt's revision"):
        candidates = await asyncio.to_thread(
            read_candidates, place.work_tree, listing, objects, max_file_bytes
        )
    if candidates.refused:
        raise _refusal(candidates.refused)
    # Removals first: a name may have been a file and be a directory now.
    lines = candidates.gone + candidates.present
    if lines:
        update = b"".join(lines)
        ended = await git.run(place, "update-index", "-z", "--index-info", stdin=update, timeout_s=LONG_S)
        # git drops names that it protects (`.gitmodules` as a link, `.git:x`) and calls that a
        # success; what gates saw must be what is frozen.
        if dropped := _IGNORED.findall(ended.err):
            raise _refusal([(path, "has a name that git does not take") for path in dropped])
    tree = TreeId((await git.run(place, "write-tree", timeout_s=LONG_S)).out.decode().strip())
    return TreeSnapshot(tree=tree, nested=nested)


_IGNORED = re.compile(rb"^(?:error: )?(?:Ignoring|Invalid) path '?(.*?)'?$", re.MULTILINE)
"""How git says which paths it left out."""


def read_candidates(root: str, listing: Listing, objects: LooseObjects, max_file_bytes: int) -> Candidates:
    """Read what may have changed into `objects`, and publish it if nothing is refused."""
    found = Candidates(refused=[(path, "cannot be listed") for path in listing.unreadable])
    with Reading(root, objects, max_file_bytes) as reading:
        for path in listing.changed:
            reading.take(path, found, tracked=True)
        for path in listing.untracked:
            problem = problem_with_name(path)
            if problem is not None:
                found.refused.append((path, problem))
            else:
                reading.take(path, found, tracked=False)
        if not found.refused:
            objects.publish()
    return found


class Reading:
    """Reads files below one directory, component by component, and stores them as blobs."""

    def __init__(self, root: str, objects: LooseObjects, max_file_bytes: int) -> None:
        self._root = os.open(root, DIRECTORY)
        self._objects = objects
        self._max_file_bytes = max_file_bytes
        self._parent: tuple[bytes, int] | None = None

    def __enter__(self) -> Self:
        """Begin; the directory is open already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close what is open and forget what was not published."""
        self._leave()
        os.close(self._root)
        self._objects.drop()

    def take(self, path: bytes, found: Candidates, *, tracked: bool) -> None:
        """Read one candidate and note in `found` what became of it."""
        try:
            line = self._stored(path, tracked=tracked)
        except _RefusedFileError as error:
            found.refused.append((path, str(error)))
            return
        except OSError as error:
            if error.errno in DENIED:
                found.refused.append((path, f"cannot be read: {error.strerror}"))
                return
            if error.errno not in GONE:
                raise
            line = None
        if line is not None:
            found.present.append(line)
        elif tracked:
            found.gone.append(b"0 %s\t%s\0" % (b"0" * self._objects.id_chars, path))

    def _stored(self, path: bytes, *, tracked: bool) -> bytes | None:
        """Store one file or link; return its index line, None where nothing storable is there."""
        directory, _, name = path.rpartition(b"/")
        parent = self._enter(directory)
        mode = os.lstat(name, dir_fd=parent).st_mode
        if stat.S_ISLNK(mode):
            target = os.readlink(name, dir_fd=parent)
            return _line("120000", self._objects.add(os.fsencode(target)), path)
        if not stat.S_ISREG(mode):
            if tracked and not stat.S_ISDIR(mode):
                raise _RefusedFileError("is a FIFO, socket or device in place of a tracked file")
            return None
        for _ in range(_TRIES):
            with opened(name, _READ, dir_fd=parent) as fd:
                try:
                    return self._stored_file(fd, path)
                except ChangedWhileReadError:
                    continue
        raise TryAgainError(
            f"{display_safe(path)} is being written to",
            cure="end what writes to it before the tree is recorded",
        )

    def _stored_file(self, fd: int, path: bytes) -> bytes | None:
        state = os.fstat(fd)
        if not stat.S_ISREG(state.st_mode):
            return None
        if state.st_size > self._max_file_bytes:
            raise _RefusedFileError(f"has {state.st_size} bytes, the limit is {self._max_file_bytes}")
        blob = self._objects.add_file(fd, state.st_size)
        return _line("100755" if state.st_mode & stat.S_IXUSR else "100644", blob, path)

    def _enter(self, directory: bytes) -> int:
        """Return a descriptor of a directory below the root, reached without following a link."""
        if self._parent is not None and self._parent[0] == directory:
            return self._parent[1]
        self._leave()
        fd = os.dup(self._root)
        try:
            for component in directory.split(b"/") if directory else ():
                inner = os.open(component, DIRECTORY, dir_fd=fd)
                os.close(fd)
                fd = inner
        except OSError:
            os.close(fd)
            raise
        self._parent = (directory, fd)
        return fd

    def _leave(self) -> None:
        parent, self._parent = self._parent, None
        if parent is not None:
            os.close(parent[1])


class _RefusedFileError(Exception):
    pass


def _line(mode: str, blob: str, path: bytes) -> bytes:
    return f"{mode} {blob}\t".encode() + path + b"\0"


def _refusal(refused: Sequence[tuple[bytes, str]]) -> RefusedError:
    told = [f"{os.fsdecode(path)} {problem}" for path, problem in sorted(refused)]
    return RefusedError(
        f"{len(told)} files cannot be part of a revision: {listed(told)}",
        expected="regular files and links that can be read, with plain UTF-8 names",
        cure="remove or rename them, or have `.gitignore` name them",
        fields={"paths": "\n".join(display_safe(path) for path, _ in sorted(refused))},
    )
