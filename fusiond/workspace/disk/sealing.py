"""Copies and write-protects directories whose content nobody vouches for.

Owns the walk by descriptors that follows nothing, and what is kept of a file: its
bytes and its executable bit. FIFOs, sockets, devices, set-id bits, hard links to
files elsewhere and extended attributes are not kept.
"""

import os
import secrets
import stat

from fusiond.domain.display import display_safe
from fusiond.domain.errors import RefusedError
from fusiond.workspace.disk.removal import DIRECTORY, opened, unlock

MAX_DEPTH = 200
"""How deep a directory may be nested."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE_BYTES = 1 << 20
_EXECUTABLE = 0o111


def seal(parent: int, name: bytes, depth: int = 0) -> None:
    """Take every right to write from a file or directory and all below it; safe to repeat.

    Args:
        parent: descriptor of the directory that holds it.
        name: its name there.
        depth: how deep it lies; callers begin at 0.

    Raises:
        RefusedError: nested deeper than `MAX_DEPTH`.
    """
    mode = os.lstat(name, dir_fd=parent).st_mode
    if stat.S_ISDIR(mode):
        _check_depth(name, depth)
        unlock(parent, name)
        with opened(name, dir_fd=parent) as fd:
            for inner in os.listdir(fd):
                seal(fd, os.fsencode(inner), depth + 1)
            os.fchmod(fd, 0o555)
    elif stat.S_ISREG(mode):
        _seal_file(parent, name)
    elif not stat.S_ISLNK(mode):
        os.unlink(name, dir_fd=parent)


def _seal_file(parent: int, name: bytes) -> None:
    with opened(name, _READ, dir_fd=parent) as fd:
        state = os.fstat(fd)
        if state.st_nlink == 1:
            os.fchmod(fd, _file_mode(state.st_mode))
            return
        # Another name of the same file could be written to: keep a file of our own.
        aside = b".%s.sealing" % secrets.token_hex(8).encode()
        _copy_bytes(fd, parent, aside, state.st_mode)
    os.rename(aside, name, src_dir_fd=parent, dst_dir_fd=parent)


def copy(source: int, name: bytes, target: int, new_name: bytes, depth: int = 0) -> None:
    """Copy a file, link or directory; directories of the copy stay writable until sealed.

    Args:
        source: descriptor of the directory that holds it.
        name: its name there.
        target: descriptor of the directory that gets the copy.
        new_name: the copy's name, not there yet.
        depth: how deep it lies; callers begin at 0.

    Raises:
        RefusedError: nested deeper than `MAX_DEPTH`.
    """
    mode = os.lstat(name, dir_fd=source).st_mode
    if stat.S_ISDIR(mode):
        _check_depth(name, depth)
        os.mkdir(new_name, 0o755, dir_fd=target)
        with opened(name, dir_fd=source) as old, opened(new_name, dir_fd=target) as new:
            for inner in os.listdir(old):
                each = os.fsencode(inner)
                copy(old, each, new, each, depth + 1)
    elif stat.S_ISREG(mode):
        with opened(name, _READ, dir_fd=source) as fd:
            _copy_bytes(fd, target, new_name, mode)
    elif stat.S_ISLNK(mode):
        os.symlink(os.readlink(name, dir_fd=source), new_name, dir_fd=target)


def _copy_bytes(fd: int, target: int, name: bytes, mode: int) -> None:
    with opened(name, _WRITE, dir_fd=target) as new:
        while piece := os.read(fd, _PIECE_BYTES):
            while piece:
                piece = piece[os.write(new, piece) :]
        os.fchmod(new, _file_mode(mode))


def _file_mode(mode: int) -> int:
    return 0o444 | (_EXECUTABLE if mode & stat.S_IXUSR else 0)


def _check_depth(name: bytes, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise RefusedError(
            f"directories are nested more than {MAX_DEPTH} deep at {display_safe(name)}",
            expected="a shallower result",
        )


def descend(root: int, components: list[bytes], *, make: bool) -> int:
    """Open a directory below `root` without following a link; the caller closes it.

    Args:
        root: descriptor of the directory to begin at.
        components: names on the way.
        make: make directories that are not there.

    Raises:
        OSError: something on the way is no directory.
    """
    fd = os.dup(root)
    try:
        for component in components:
            if make:
                try:
                    os.mkdir(component, 0o755, dir_fd=fd)
                except FileExistsError:
                    pass
            inner = os.open(component, DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = inner
    except OSError:
        os.close(fd)
        raise
    return fd
