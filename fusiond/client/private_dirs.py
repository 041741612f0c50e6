"""Private directories: opened, judged by what was opened, and used through that descriptor.

Owns the rule for the directories in which client and daemon meet: ours, closed
to everybody else, no symbolic link. Owns no path: that is `client.discovery`.
"""

import os
import stat
from collections.abc import Sequence

from fusiond.domain.errors import InvalidError, NotFoundError, RefusedError, StorageError

SOCKET_PATH_BYTES = 108
"""Room for a Unix socket's path on Linux, its closing NUL included."""

OWN_DESCRIPTORS = "/proc/self/fd"

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class PrivateDirectory:
    """An open directory that nobody else can enter. Close it, or use it with `with`."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    def __enter__(self) -> "PrivateDirectory":  # noqa: PYI034 - typing is slow to load
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor; closing twice is closing."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def socket_address(self, name: str, *, own_descriptors: str = OWN_DESCRIPTORS) -> str:
        """Return the address to bind or connect a socket called `name` in this directory.

        It goes through the open descriptor, so it stays within the room for an address
        however long the path is, and means this directory even if its name is moved.

        Args:
            name: plain file name.
            own_descriptors: where a process finds its own descriptors as links. Where there
                is no such place the path itself is used.

        Raises:
            InvalidError: only the path could be used, and it is too long.
        """
        through = f"{own_descriptors}/{self.descriptor}"
        if os.access(through, os.X_OK):
            return f"{through}/{name}"
        address = f"{self.path}/{name}"
        size = len(os.fsencode(address))
        if size >= SOCKET_PATH_BYTES:
            raise InvalidError(
                f"the socket path {address} has {size} bytes",
                expected=f"fewer than {SOCKET_PATH_BYTES}",
                cure="set XDG_RUNTIME_DIR to a shorter directory",
            )
        return address


def open_private(path: str) -> PrivateDirectory:
    """Open an existing directory and judge it.

    Raises:
        NotFoundError: there is none.
        RefusedError: a symbolic link, not a directory, not ours, or open to others.
    """
    return PrivateDirectory(path, _opened(path, path, None))


def make_private(base: str, names: Sequence[str]) -> PrivateDirectory:
    """Make `base/names[0]/names[1]…` with mode 0700 where missing, and judge every one of them.

    Args:
        base: an existing directory of ours; others may read it, not write to it.
        names: plain names below it.

    Raises:
        NotFoundError: no base.
        RefusedError: the base or one of the directories is not as it must be.
        StorageError: it cannot be made.
    """
    path = base
    descriptor = _opened_base(base)
    for name in names:
        path = f"{path}/{name}"
        parent = descriptor
        try:
            _make(name, path, parent)
            descriptor = _opened(name, path, parent)
        finally:
            os.close(parent)
    return PrivateDirectory(path, descriptor)


def _make(name: str, path: str, parent: int) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:
        return
    except OSError as error:
        raise StorageError(f"cannot make {path}: {error.strerror}") from error


def _opened_base(base: str) -> int:
    descriptor = _open_directory(base, base, None)
    facts = os.fstat(descriptor)
    writable = facts.st_mode & stat.S_IWOTH
    if facts.st_uid != os.geteuid() or writable:
        os.close(descriptor)
        raise RefusedError(
            f"{base} is {'writable for everybody' if writable else f'owned by user {facts.st_uid}'}",
            expected="a directory of your own",
            cure="set XDG_RUNTIME_DIR to a directory that only you can use, or unset it",
        )
    return descriptor


def _opened(name: str, path: str, parent: int | None) -> int:
    descriptor = _open_directory(name, path, parent)
    facts = os.fstat(descriptor)
    if facts.st_uid == os.geteuid() and not facts.st_mode & _OTHERS:
        return descriptor
    os.close(descriptor)
    found = f"owned by user {facts.st_uid}, mode {stat.S_IMODE(facts.st_mode):04o}"
    raise RefusedError(
        f"{path} is {found}",
        expected="a directory of your own with mode 0700",
        cure=f"make sure that nobody else uses it, then `chmod 700 {path}` or remove it",
    )


def _open_directory(name: str, path: str, parent: int | None) -> int:
    try:
        return os.open(name, _OPEN, dir_fd=parent)
    except FileNotFoundError as error:
        raise NotFoundError(f"no directory {path}") from error
    except NotADirectoryError as error:
        # Also what O_NOFOLLOW with O_DIRECTORY says of a symbolic link.
        raise RefusedError(
            f"{path} is a symbolic link or not a directory",
            expected="a real directory",
            cure="remove it; it is made anew",
        ) from error
    except OSError as error:
        raise RefusedError(
            f"cannot open {path}: {error.strerror}", expected="a directory of your own"
        ) from error
