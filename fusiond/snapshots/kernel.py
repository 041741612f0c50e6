"""The three system calls that Python does not offer, each with a portable answer.

Owns the calls and their fallbacks. What they are good for is decided by callers.
"""

import ctypes
import errno
import os
from collections.abc import Callable

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_SYNC_FILE_RANGE_WRITE = 2

_libc = ctypes.CDLL(None, use_errno=True)
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})


def _function(name: str, *argtypes: type) -> Callable[..., int] | None:
    try:
        function = getattr(_libc, name)
    except AttributeError:
        return None
    function.argtypes = argtypes
    function.restype = ctypes.c_int
    answer: Callable[..., int] = function
    return answer


_renameat2 = _function(
    "renameat2", ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint
)
_syncfs = _function("syncfs", ctypes.c_int)
_sync_file_range = _function("sync_file_range", ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


def rename_exclusive(source: str, target: str) -> None:
    """Rename a directory that is not empty, and never over anything.

    Where the kernel has no such rename, a plain one comes close: it never
    replaces a file, a link or a directory that holds something.

    Raises:
        FileExistsError: there is something at `target`.
        OSError: anything else, as `os.rename`.
    """
    if _renameat2 is not None:
        names = os.fsencode(source), os.fsencode(target)
        if _renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_NOREPLACE) == 0:
            return
        code = ctypes.get_errno()
        if code not in _UNSUPPORTED:
            raise OSError(code, os.strerror(code), source, None, target)
    rename_plainly(source, target)


def rename_plainly(source: str, target: str) -> None:
    """Do as `rename_exclusive` by `os.rename` alone."""
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), source, None, target)
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.ENOTDIR, errno.EEXIST):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), source, None, target) from error
        raise


def sync_file_system(descriptor: int) -> bool:
    """Make all of a file system durable; False where the kernel cannot be asked for that."""
    if _syncfs is None:
        return False
    if _syncfs(descriptor) != 0:
        code = ctypes.get_errno()
        if code in _UNSUPPORTED:
            return False
        raise OSError(code, os.strerror(code))
    return True


def start_writing_back(descriptor: int, offset: int, length: int) -> None:
    """Ask that written bytes go to the disk from now on; a hint, no answer is needed."""
    if _sync_file_range is not None:
        _sync_file_range(descriptor, offset, length, _SYNC_FILE_RANGE_WRITE)
