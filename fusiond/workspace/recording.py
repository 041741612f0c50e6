"""Records a directory that an agent filled as a git tree.

Owns what is part of a revision and what is not, which names and files are refused,
and the reading of candidates without following anything. git says which files
changed and which are ignored, by the daemon's own index and attributes; the bytes
are read here.

Not part of a revision: what `.gitignore` names, caches that tools leave behind
(`CACHES`), results of setup commands, nested repositories (reported), empty
directories, FIFOs, sockets and devices. In place of a tracked file these count as
its removal. Refused, with their names: what cannot be read, what is too large, and
names that no revision may have.
"""

import asyncio
import errno
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
from fusiond.workspace.disk.layout import storing
from fusiond.workspace.disk.removal import DIRECTORY, opened
from fusiond.workspace.plumbing.git import LONG_S, Git, Place
from fusiond.workspace.plumbing.loose import ChangedWhileReadError, LooseObjects
from fusiond.workspace.source import listed

CACHES = (
    # Written by tools as a side effect of running, so that running a gate would change the
    # revision that it judges. A repository's own `.gitignore` can take any of them back in.
    "__pycache__/",
    "*.pyc",
    ".pytest_cache/",
    ".mypy_cache/",
    ".ruff_cache/",
    ".hypothesis/",
    ".coverage",
    ".tox/",
    ".nox/",
    "*.egg-info/",
    ".gradle/",
    ".DS_Store",
    # Installed from a lock file, never written by hand.
    "node_modules/",
    ".venv/",
    # A workspace inside the attempt's tree.
    "/.fusion/",
)

MAX_FILE_BYTES = 512 * 1024 * 1024
"""The largest file that a revision takes, in bytes."""

MAX_COMPONENTS = 128
"""How deep a revision's files may lie."""

_UNREADABLE = re.compile(rb"^warning: (?:could not open directory|unable to access) '(.*?)'", re.MULTILINE)
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_GIT_NAMES = {b".git", b"git~1"}
# What HFS+ does not see in a name; git refuses `.git` with them in it (CVE-2014-9390).
_UNSEEN = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CACHE_NAMES = frozenset(
    each.rstrip("/").encode() for each in CACHES if each.endswith("/") and "*" not in each
)
_GLOB = "\\*?[#! "
_TRIES = 3
_DENIED = {errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ENXIO}
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What git found in a directory, compared with an index.

    Args:
        tracked: every path of the index.
        changed: those whose file differs or is gone.
        untracked: other files that are not ignored.
        nested: directories that are repositories of their own.
        unreadable: directories that could not be listed.
    """

    tracked: tuple[bytes, ...]
    changed: tuple[bytes, ...]
    untracked: tuple[bytes, ...]
    nested: tuple[bytes, ...]
    unreadable: tuple[bytes, ...]


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
    listing, holders = await asyncio.gather(
        list_tree(git, place, never), asyncio.to_thread(find_git_holders, place.work_tree, frozenset(never))
    )
    nested = await _not_ignored(git, place, set(holders), known=set(listing.nested))
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
        await git.run(place, "update-index", "-z", "--index-info", stdin=update, timeout_s=LONG_S)
    tree = TreeId((await git.run(place, "write-tree", timeout_s=LONG_S)).out.decode().strip())
    return TreeSnapshot(tree=tree, nested=nested)


async def list_tree(git: Git, place: Place, never: Sequence[str]) -> Listing:
    """Ask git what is tracked, changed and untracked in the work tree of `place`."""
    excluded = [part for pattern in never for part in ("-x", pattern)]
    args = ("ls-files", "-z", "-t", "--cached", "--modified", "--others", "--exclude-standard")
    ended = await git.run(place, *args, *excluded, timeout_s=LONG_S)
    found: dict[bytes, list[bytes]] = {b"H": [], b"S": [], b"C": [], b"?": []}
    for line in ended.out.split(b"\0"):
        if line:
            found.setdefault(line[:1], []).append(line[2:])
    others = found[b"?"]
    return Listing(
        tracked=tuple(found[b"H"] + found[b"S"]),
        changed=tuple(found[b"C"]),
        untracked=tuple(path for path in others if not path.endswith(b"/")),
        nested=tuple(path.rstrip(b"/") for path in others if path.endswith(b"/")),
        unreadable=tuple(path.rstrip(b"/") for path in _UNREADABLE.findall(ended.err)),
    )


def find_git_holders(root: str, never: frozenset[str]) -> list[bytes]:
    """Return the directories below `root` that hold a `.git` of any kind.

    Not looked into: those directories themselves, the caches that no tool makes
    repositories in, and results of setup.

    Args:
        root: the work tree.
        never: patterns of `path_pattern`.
    """
    found: list[bytes] = []
    waiting = [b""]
    while waiting:
        directory = waiting.pop()
        inner, holds_git = _directories(os.path.join(os.fsencode(root), directory))
        if holds_git and directory:
            found.append(directory)
            continue
        for name in inner:
            path = os.path.join(directory, name)
            if name not in _CACHE_NAMES and path_pattern(os.fsdecode(path)) not in never:
                waiting.append(path)
    return found


def _directories(path: bytes) -> tuple[list[bytes], bool]:
    """Return the names of the directories in a directory, and whether one entry is `.git`.

    Links are not followed; what cannot be listed is empty here, and git says so.
    """
    found: list[bytes] = []
    holds_git = False
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name == b".git":
                    holds_git = True
                elif entry.is_dir(follow_symlinks=False):
                    found.append(entry.name)
    except OSError as error:
        if error.errno not in _GONE | _DENIED:
            raise
    return found, holds_git


def path_pattern(path: str) -> str:
    """Return the ignore pattern that names exactly one path, relative to the root."""
    return "/" + "".join(f"\\{each}" if each in _GLOB else each for each in path)


async def _not_ignored(git: Git, place: Place, holders: set[bytes], known: set[bytes]) -> tuple[str, ...]:
    """Return `known` and those of `holders` that no rule ignores, displayable and sorted."""
    # With `./` before it no name begins like pathspec magic, which this command alone must be
    # left to look for.
    asked = b"".join(b"./" + each + b"\0" for each in holders - known)
    if asked:
        magic = {"GIT_LITERAL_PATHSPECS": "0"}
        ended = await git.run(place, "check-ignore", "-z", "--stdin", stdin=asked, ok=(0, 1), extra=magic)
        ignored = {each.removeprefix(b"./") for each in ended.out.split(b"\0")}
        known = known | (holders - ignored)
    return tuple(sorted(display_safe(each) for each in known))


def problem_with_name(path: bytes) -> str | None:
    """Say why a revision may not have a file of this name, or return None when it may."""
    try:
        text = path.decode()
    except UnicodeDecodeError:
        return "has a name that is not UTF-8"
    if _CONTROL.search(text):
        return "has a control character in its name"
    components = path.split(b"/")
    if len(components) > MAX_COMPONENTS:
        return f"lies {len(components)} directories deep, the limit is {MAX_COMPONENTS}"
    if any(_reads_as_git(each) for each in components):
        return "has a name that some file systems read as `.git`"
    return None


def _reads_as_git(component: bytes) -> bool:
    if component.isascii():
        return component.lower().rstrip(b". ") in _GIT_NAMES
    return _UNSEEN.sub("", component.decode()).lower() == ".git"


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
            line = self._stored(path)
        except _RefusedFileError as error:
            found.refused.append((path, str(error)))
            return
        except OSError as error:
            if error.errno in _DENIED:
                found.refused.append((path, f"cannot be read: {error.strerror}"))
                return
            if error.errno not in _GONE:
                raise
            line = None
        if line is not None:
            found.present.append(line)
        elif tracked:
            found.gone.append(b"0 %s\t%s\0" % (b"0" * self._objects.id_chars, path))

    def _stored(self, path: bytes) -> bytes | None:
        """Store one file or link; return its index line, None where nothing storable is there."""
        directory, _, name = path.rpartition(b"/")
        parent = self._enter(directory)
        mode = os.lstat(name, dir_fd=parent).st_mode
        if stat.S_ISLNK(mode):
            target = os.readlink(name, dir_fd=parent)
            return _line("120000", self._objects.add(os.fsencode(target)), path)
        if not stat.S_ISREG(mode):
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
