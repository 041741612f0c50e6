"""Where frozen bytes are written: the calls that can fail, and how failures are told.

Owns the seam for full and failing disks, reading and removing trees of our own.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from fusiond.domain.errors import StorageError
from fusiond.domain.records import dataclass
from fusiond.snapshots.kernel import rename_exclusive, sync_file_system

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# A FIFO would make the call wait, a terminal could become ours.
READ_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

MAX_SINGLE_SYNCS = 64
"""Up to here each file is synchronised for itself; more cost less as one whole file system."""

READ_ONLY = 0o444
READ_ONLY_EXECUTABLE = 0o555
READ_ONLY_DIRECTORY = 0o555


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The calls by which bytes become durable; tests give ones that fail."""

    write: Callable[[int, bytes | memoryview], int] = os.write
    fsync: Callable[[int], None] = os.fsync
    sync_file_system: Callable[[int], bool] = sync_file_system
    rename_exclusive: Callable[[str, str], None] = rename_exclusive

    def write_all(self, descriptor: int, data: bytes | memoryview) -> None:
        """Write everything: a disk that fills up first shows as a short write."""
        written = self.write(descriptor, data)
        while written < len(data):
            if written <= 0:
                raise OSError(errno.EIO, "the disk took no byte and gave no reason")
            data = memoryview(data)[written:]
            written = self.write(descriptor, data)

    def write_file(self, name: str, data: bytes, *, mode: int = READ_ONLY, dir_fd: int) -> None:
        """Create a file that is not there yet, and write it whole."""
        descriptor = os.open(name, NEW_FILE, mode, dir_fd=dir_fd)
        try:
            self.write_all(descriptor, data)
            # The process's mask has no say in who may read a frozen version.
            os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)

    def sync_path(self, path: str, *, dir_fd: int | None = None) -> None:
        """Make one file or directory durable."""
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
        try:
            self.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def storage_errors(doing: str) -> Iterator[None]:
    """Turn what the operating system says about our own disk into StorageError."""
    try:
        yield
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "unknown")
        raise StorageError(
            f"cannot {doing}: {error.strerror or error}",
            expected="a disk with room that can be written",
            cure="free space or repair the disk, then retry",
            fields={"errno": name},
        ) from error


@contextmanager
def opened(path: str, flags: int, *, dir_fd: int | None = None) -> Iterator[int]:
    """Open a descriptor and close it."""
    descriptor = os.open(path, flags, dir_fd=dir_fd)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def remove_tree(path: str, *, dir_fd: int | None = None) -> None:
    """Remove a file or a directory with everything in it, read-only or not; links are not followed."""
    try:
        descriptor = os.open(path, DIRECTORY, dir_fd=dir_fd)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        with suppress(FileNotFoundError):
            os.unlink(path, dir_fd=dir_fd)
        return
    try:
        empty_directory(descriptor)
    finally:
        os.close(descriptor)
    os.rmdir(path, dir_fd=dir_fd)


def empty_directory(descriptor: int) -> None:
    """Remove everything in an open directory."""
    os.fchmod(descriptor, 0o700)
    with os.scandir(descriptor) as entries:
        found = [(each.name, each.is_dir(follow_symlinks=False)) for each in entries]
    for name, is_directory in found:
        if is_directory:
            remove_tree(name, dir_fd=descriptor)
        else:
            os.unlink(name, dir_fd=descriptor)
