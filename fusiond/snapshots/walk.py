"""An untrusted directory, read without ever leaving it.

Owns how names become descriptors: one component at a time below an open
directory, never through a link, never a whole path. A component that is
swapped while we read is an error or an old file, never a file elsewhere
(`engine.md`, Names and files refused). What is found is a fact; whether it is
allowed is `domain.contract`.
"""

import errno
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import field

from fusiond.domain.contract import FileKind
from fusiond.domain.paths import MAX_DEPTH
from fusiond.domain.records import dataclass
from fusiond.snapshots.disk import DIRECTORY, READ_FILE

_SPECIAL_MODE = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX
_KIND_AND_SPECIAL = 0o170000 | _SPECIAL_MODE
_KINDS = {
    stat.S_IFREG: FileKind.REGULAR,
    stat.S_IFDIR: FileKind.DIRECTORY,
    stat.S_IFLNK: FileKind.SYMLINK,
    stat.S_IFIFO: FileKind.FIFO,
    stat.S_IFSOCK: FileKind.SOCKET,
    stat.S_IFBLK: FileKind.DEVICE,
    stat.S_IFCHR: FileKind.DEVICE,
}


class RefusedFileError(Exception):
    """A path that leads to no plain file; `blame` is the part of it that `kind` is about."""

    def __init__(self, kind: FileKind, blame: str) -> None:
        super().__init__(f"{blame} is {kind.value}")
        self.kind = kind
        self.blame = blame


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What a directory holds, as far as anybody wanted to know.

    `found` has every entry of the directories that were entered, in order of the
    names; `complete` is False when there were more entries than the budget.
    """

    found: Mapping[str, FileKind]
    complete: bool


class UntrustedTree:
    """An open directory that somebody else may be changing. Close it."""

    def __init__(self, path: str) -> None:
        """Open `path`, whose last component must be a directory and no link.

        Raises:
            RefusedFileError: it is something else or not there.
        """
        try:
            self._root = os.open(path, DIRECTORY)
        except OSError as error:
            raise RefusedFileError(_kind_after(error, path, None, FileKind.DIRECTORY), path) from error
        self._device = os.fstat(self._root).st_dev
        self._parent = ""
        self._parent_fd = self._root

    def close(self) -> None:
        """Close what is open."""
        self._forget_parent()
        os.close(self._root)

    def scan(self, wanted: Callable[[str], bool], max_entries: int) -> Scan:
        """List the tree.

        Args:
            wanted: asked for each directory whether it is to be entered.
            max_entries: how many entries are looked at.
        """
        state = _Scanning(wanted, max_entries, self._device)
        complete = state.enter(self._root, "", 1)
        return Scan(found=state.found, complete=complete)

    def open_file(self, path: str) -> tuple[int, os.stat_result]:
        """Open a plain file for reading and return its descriptor and status.

        Args:
            path: a name that `domain.paths.problem_with` has nothing against.

        Raises:
            RefusedFileError: the path leads elsewhere or to no plain file.
        """
        parent, _, name = path.rpartition("/")
        if parent != self._parent:
            self._enter(parent)
        try:
            descriptor = os.open(name, READ_FILE, dir_fd=self._parent_fd)
        except OSError as error:
            raise RefusedFileError(
                _kind_after(error, name, self._parent_fd, FileKind.REGULAR), path
            ) from error
        status = os.fstat(descriptor)
        # Kind, setuid, setgid and sticky in one look: nothing but a plain file passes.
        plain = status.st_mode & _KIND_AND_SPECIAL == stat.S_IFREG and status.st_nlink == 1
        if plain and status.st_dev == self._device:
            return descriptor, status
        os.close(descriptor)
        raise RefusedFileError(_kind_of_refused(status), path)

    def _enter(self, parent: str) -> None:
        self._forget_parent()
        current, seen = os.dup(self._root), ""
        for name in parent.split("/") if parent else []:
            seen = f"{seen}/{name}" if seen else name
            try:
                below = os.open(name, DIRECTORY, dir_fd=current)
            except OSError as error:
                kind = _kind_after(error, name, current, FileKind.DIRECTORY)
                raise RefusedFileError(kind, seen) from error
            finally:
                os.close(current)
            current = below
        self._parent, self._parent_fd = parent, current

    def _forget_parent(self) -> None:
        if self._parent_fd != self._root:
            os.close(self._parent_fd)
        self._parent, self._parent_fd = "", self._root


@dataclass(frozen=True, slots=True)
class _Scanning:
    """One walk over a tree."""

    wanted: Callable[[str], bool]
    max_entries: int
    device: int
    found: dict[str, FileKind] = field(default_factory=dict)

    def enter(self, descriptor: int, prefix: str, depth: int) -> bool:
        """List an open directory and what is below; False when the budget is spent."""
        entries: list[tuple[str, FileKind]] = []
        with os.scandir(descriptor) as listing:
            for entry in listing:
                if len(self.found) + len(entries) >= self.max_entries:
                    return False
                entries.append((entry.name, _kind_of(entry)))
        for name, kind in sorted(entries):
            path = prefix + name
            self.found[path] = kind
            if kind is FileKind.DIRECTORY and self.wanted(path):
                if depth >= MAX_DEPTH:
                    self.found[path] = FileKind.TOO_DEEP
                elif not self._below(descriptor, name, path, depth):
                    return False
        return True

    def _below(self, descriptor: int, name: str, path: str, depth: int) -> bool:
        try:
            below = os.open(name, DIRECTORY, dir_fd=descriptor)
        except OSError as error:
            self.found[path] = _kind_after(error, name, descriptor, FileKind.DIRECTORY)
            return True
        try:
            if os.fstat(below).st_dev != self.device:
                self.found[path] = FileKind.OTHER_FILE_SYSTEM
                return True
            return self.enter(below, f"{path}/", depth + 1)
        finally:
            os.close(below)


def _kind_of_refused(status: os.stat_result) -> FileKind:
    if not stat.S_ISREG(status.st_mode):
        return _KINDS.get(stat.S_IFMT(status.st_mode), FileKind.DEVICE)
    if status.st_nlink != 1:
        return FileKind.HARD_LINK
    return FileKind.SPECIAL_MODE if status.st_mode & _SPECIAL_MODE else FileKind.OTHER_FILE_SYSTEM


def _kind_of(entry: os.DirEntry[str]) -> FileKind:
    # The listing says these three without another call to the kernel.
    if entry.is_file(follow_symlinks=False):
        return FileKind.REGULAR
    if entry.is_symlink():
        return FileKind.SYMLINK
    if entry.is_dir(follow_symlinks=False):
        return FileKind.DIRECTORY
    try:
        return _KINDS.get(stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode), FileKind.DEVICE)
    except OSError:
        return FileKind.MISSING


_OUR_FAULT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_NOT_READABLE = frozenset({errno.EACCES, errno.EPERM, errno.EIO})


def _kind_after(error: OSError, name: str, dir_fd: int | None, wanted: FileKind) -> FileKind:
    """Return what a name that did not open as `wanted` is; raise the error when it says nothing of that."""
    if error.errno in _OUR_FAULT:
        raise error
    if error.errno in (errno.ENOENT, errno.ENAMETOOLONG):
        return FileKind.MISSING
    if error.errno in _NOT_READABLE:
        return FileKind.UNREADABLE
    try:
        mode = os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mode
    except OSError:
        return FileKind.MISSING
    kind = _KINDS.get(stat.S_IFMT(mode), FileKind.DEVICE)
    return FileKind.UNSTEADY if kind is wanted else kind
