"""The kernel calls and signal facts that the launcher needs, at the smallest import cost.

Owns prctl, hole punching, the child bell and the signals to ignore; decides nothing. The C half of
`signal` is used because its Python half builds enumerations, a quarter of the launcher's start.
"""

import _signal  # type: ignore[import-not-found]
import ctypes
import errno
import os
import resource

SIGTERM: int = _signal.SIGTERM
SIGKILL: int = _signal.SIGKILL
EVERY_SIGNAL: list[int] = sorted(_signal.valid_signals() - {_signal.SIGKILL, _signal.SIGSTOP})

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_KEEP_SIZE_AND_PUNCH_HOLE = 1 | 2

_NOT_OURS = (
    _signal.SIGHUP,
    _signal.SIGINT,
    _signal.SIGQUIT,
    _signal.SIGTERM,
    _signal.SIGUSR1,
    _signal.SIGUSR2,
    _signal.SIGALRM,
    _signal.SIGTSTP,
    _signal.SIGTTIN,
    _signal.SIGTTOU,
)

_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    if _libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl {option}: {os.strerror(code)}")


def harden() -> None:
    """Put this process out of the command's reach and make what it starts endable.

    Not dumpable: no ptrace, no look at its descriptors. No new privileges: everything below keeps this
    user and can therefore be killed. No core files in somebody's tree. Deaf to the signals that a
    careless `kill -1` sends around.

    Raises:
        OSError: the kernel refused.
    """
    _prctl(_PR_SET_DUMPABLE, 0)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in _NOT_OURS:
        _signal.signal(number, _signal.SIG_IGN)


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own.

    Raises:
        OSError: the kernel refused.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def punch_hole(descriptor: int, offset: int, length: int) -> bool:
    """Give the file's blocks from `offset` back to the disk, its size kept.

    Args:
        descriptor: a regular file open for writing.
        offset: in bytes.
        length: in bytes, more than 0.

    Returns:
        False where the file system cannot.

    Raises:
        OSError: any other failure.
    """
    span = (ctypes.c_long(offset), ctypes.c_long(length))
    if _libc.fallocate(descriptor, _KEEP_SIZE_AND_PUNCH_HOLE, *span) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EOPNOTSUPP, errno.ENOSYS, errno.ENODEV):
        return False
    raise OSError(code, os.strerror(code))


class Bell:
    """A descriptor that is readable after a child changed state. One a process."""

    def __init__(self) -> None:
        self.descriptor, self._rope = os.pipe()
        os.set_blocking(self.descriptor, False)
        os.set_blocking(self._rope, False)
        _signal.signal(_signal.SIGCHLD, _ring)
        _signal.set_wakeup_fd(self._rope, warn_on_full_buffer=False)

    def silence(self) -> None:
        """Make it unreadable until the next ring."""
        try:
            while os.read(self.descriptor, 512):
                pass
        except BlockingIOError:
            return


def _ring(_number: int, _frame: object) -> None:
    """Do nothing: the descriptor already rang, and SIGCHLD must not be ignored."""
