"""Removes directories that agents filled: deep, unreadable, full of links.

Owns removal alone: what may be removed, and when, is decided elsewhere. Nothing is
ever followed, every name is used relative to an open directory, and no depth or
permission that the owner can set stops it.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from fusiond.domain.display import display_safe
from fusiond.domain.errors import StorageError

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags to open a directory and never what a link points to."""

_ALL = stat.S_IRWXU


@contextmanager
def opened(path: str | bytes, flags: int = DIRECTORY, *, dir_fd: int | None = None) -> Iterator[int]:
    """Open a path for the duration of a block; the descriptor is closed on every way out."""
    fd = os.open(path, flags, dir_fd=dir_fd)
    try:
        yield fd
    finally:
        os.close(fd)


def remove_tree(path: str) -> None:
    """Remove a directory and everything below it; nothing happens where there is none.

    Directories are emptied one level at a time: what is a directory inside moves up
    beside the first one before it is emptied. So depth costs neither descriptors nor
    long paths, and a crash leaves only siblings of the first one behind, named
    `<name>.<number>`.

    Args:
        path: an absolute path; its parent must be nobody's but the daemon's.

    Raises:
        StorageError: something cannot be removed, such as a mount point or a file
            that its owner made immutable as root.
    """
    parent, name = os.path.split(path.rstrip("/"))
    try:
        with opened(parent) as fd:
            remove_entry(fd, os.fsencode(name))
    except FileNotFoundError:
        # Not even its parent is there.
        return
    except OSError as error:
        raise StorageError(
            f"{display_safe(path)} cannot be removed whole: {error.strerror}: "
            f"{display_safe(os.fsdecode(error.filename or b''))}",
            cure="unmount or unlock what is named, then start again",
        ) from error


def remove_entry(parent: int, name: bytes) -> None:
    """Do as `remove_tree`, for a name in an open directory. OSError."""
    try:
        is_directory = _is_directory(parent, name)
    except FileNotFoundError:
        return
    if not is_directory:
        os.unlink(name, dir_fd=parent)
        return
    waiting = [name]
    count = 0
    while waiting:
        each = waiting.pop()
        unlock(parent, each)
        with opened(each, dir_fd=parent) as fd:
            for inner in _emptied(fd):
                count = _hoist(fd, inner, parent, name, count + 1)
                waiting.append(_numbered(name, count))
        os.rmdir(each, dir_fd=parent)


def _emptied(fd: int) -> list[bytes]:
    """Unlink every entry that is no directory and rmdir the empty ones; return the others."""
    inner: list[bytes] = []
    for name in os.listdir(fd):
        each = os.fsencode(name)
        try:
            os.unlink(each, dir_fd=fd)
        except OSError as error:
            # Linux says EISDIR, POSIX and macOS say EPERM, for a directory.
            if error.errno not in {errno.EISDIR, errno.EPERM} or not _is_directory(fd, each):
                raise
            if not _rmdir_if_empty(fd, each):
                inner.append(each)
    return inner


def _rmdir_if_empty(fd: int, name: bytes) -> bool:
    try:
        os.rmdir(name, dir_fd=fd)
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise
        return False
    return True


def _is_directory(fd: int, name: bytes) -> bool:
    return stat.S_ISDIR(os.lstat(name, dir_fd=fd).st_mode)


def _numbered(name: bytes, count: int) -> bytes:
    return name + b".%d" % count


def _hoist(fd: int, inner: bytes, parent: int, name: bytes, count: int) -> int:
    """Move a directory up under the first free number from `count` on; return the number."""
    # Moving a directory rewrites its `..`, for which its owner must be allowed to write to it.
    unlock(fd, inner)
    while True:
        try:
            os.rename(inner, _numbered(name, count), src_dir_fd=fd, dst_dir_fd=parent)
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
                raise
            count += 1
        else:
            return count


def unlock(parent: int, name: bytes) -> None:
    """Give the owner all rights to the directory `name` in `parent`, following no link in its place."""
    if os.lstat(name, dir_fd=parent).st_mode & _ALL == _ALL:
        return
    if hasattr(os, "O_PATH"):
        with opened(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent) as fd:
            os.chmod(f"/proc/self/fd/{fd}", _ALL)
    else:
        os.chmod(name, _ALL, dir_fd=parent, follow_symlinks=False)
