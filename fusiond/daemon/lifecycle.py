"""One daemon per workspace, hardened, from its lock to its end.

Owns the workspace's lock, the process's own protection and the request to
stop. Owns no socket (`daemon.runtime_dir`) and no run.
"""

import asyncio
import ctypes
import fcntl
import os
import resource
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from fusiond.client.discovery import LOCK_FILE, Workspace, hint_text, read_hint
from fusiond.domain.errors import RefusedError, StorageError, TryAgainError

PR_GET_DUMPABLE = 3
PR_SET_DUMPABLE = 4

WATCH_S = 1.0
"""How often the daemon looks whether its workspace is still there."""

NETWORK_FILESYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "fuse.sshfs", "ncpfs", "gfs2"}
)

MOUNTS = "/proc/self/mountinfo"


def harden() -> None:
    """Protect this process: no core files, no attaching, nothing made for others to read.

    Raises:
        RefusedError: on Linux, when the kernel refuses; such a daemon could be read by
            every process of the same user.
    """
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux" and _prctl(PR_SET_DUMPABLE) != 0:
        raise RefusedError(
            "the kernel refuses PR_SET_DUMPABLE", expected="a process that cannot be attached to"
        )


def dumpable() -> bool:
    """Say whether other processes of this user could attach to this one."""
    return _prctl(PR_GET_DUMPABLE) != 0


def _prctl(option: int) -> int:
    return int(ctypes.CDLL(None, use_errno=True).prctl(option, 0, 0, 0, 0))


class WorkspaceLock:
    """The lock that only one daemon of a workspace holds, from start to end.

    The kernel's lock is what counts; the facts in the file are hints for clients.
    Made by `acquire`.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self.last_alive_us = os.fstat(descriptor).st_mtime_ns // 1_000
        """When an earlier daemon was last known to be alive, UTC; its time after a crash counts to here."""

    @classmethod
    def acquire(cls, workspace: Workspace) -> "WorkspaceLock":
        """Take the lock at once or not at all.

        Raises:
            TryAgainError: another daemon has it.
            RefusedError: the workspace is on a network filesystem, whose locks cannot be trusted.
            StorageError: the lock file cannot be opened.
        """
        refuse_network_filesystem(workspace.marker)
        path = f"{workspace.marker}/{LOCK_FILE}"
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            raise StorageError(f"cannot open {path}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            pid = read_hint(workspace).get("pid", "unknown")
            raise TryAgainError(
                f"another daemon (process {pid}) has the workspace {workspace.root}",
                cure="use it, or stop it with `fusion daemon stop`",
                fields={"pid": pid},
            ) from error
        return cls(path, descriptor)

    def tell(self, runtime: str) -> None:
        """Write the hint by which clients find this daemon."""
        data = os.fsencode(hint_text(os.getpid(), runtime))
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, data, 0)

    def still_there(self) -> bool:
        """Say whether the locked file is the one that its path names; a removed workspace's is not."""
        try:
            named = Path(self._path).lstat()
        except OSError:
            return False
        mine = os.fstat(self._descriptor)
        return (named.st_dev, named.st_ino) == (mine.st_dev, mine.st_ino)

    def beat(self) -> None:
        """Leave a sign of life for the daemon that comes after a crash."""
        os.utime(self._descriptor)

    def release(self) -> None:
        """Take the hint back and give the lock up. The file stays: removing it would race."""
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)


def refuse_network_filesystem(path: str, mounts: str = MOUNTS) -> None:
    """Refuse a directory on a network filesystem: neither its locks nor SQLite's log work there.

    Args:
        path: an existing directory.
        mounts: the kernel's list of mounts; where there is none, nothing is refused.

    Raises:
        RefusedError: names the filesystem and the cure.
    """
    device = Path(path).stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = Path(mounts).read_text(errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        # proc_pid_mountinfo(5): id, parent, major:minor, root, mount point, …, "-", type, …
        before, _, after = line.partition(" - ")
        kind = after.split(" ", 1)[0]
        if before.split(" ")[2:3] == [wanted] and kind in NETWORK_FILESYSTEMS:
            raise RefusedError(
                f"{path} is on a network filesystem ({kind})",
                expected="a local filesystem",
                cure="clone the repository to a local disk and run fusion there",
            )


class StopRequest:
    """Set once by a signal, a client or a vanished workspace; the second time is for at once."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._hurry = asyncio.Event()
        self.reason = ""

    @property
    def asked(self) -> bool:
        """Whether the daemon is to stop."""
        return self._asked.is_set()

    @property
    def hurried(self) -> bool:
        """Whether it is to stop without waiting for anything."""
        return self._hurry.is_set()

    def ask(self, reason: str, *, drain: bool) -> None:
        """Ask for the end; without `drain`, or when asked again, at once."""
        if self.asked or not drain:
            self._hurry.set()
        self.reason = self.reason or reason
        self._asked.set()

    async def wait(self) -> None:
        """Return when the end was asked for."""
        await self._asked.wait()

    async def wait_hurried(self) -> None:
        """Return when the end was asked for at once."""
        await self._hurry.wait()


def stop_on_signals(stop: StopRequest) -> Callable[[], None]:
    """Let SIGTERM and SIGINT ask for the end; return what undoes that."""
    loop = asyncio.get_running_loop()
    wanted = (signal.SIGTERM, signal.SIGINT)
    for each in wanted:
        loop.add_signal_handler(each, partial(stop.ask, each.name, drain=True))

    def undo() -> None:
        for each in wanted:
            loop.remove_signal_handler(each)

    return undo


async def watch_workspace(lock: WorkspaceLock, stop: StopRequest, every_s: float = WATCH_S) -> None:
    """Give signs of life; ask for the end when the workspace was removed. Returns when the end is asked for."""
    while not stop.asked:
        if lock.still_there():
            lock.beat()
        else:
            stop.ask("the workspace was removed", drain=False)
        try:
            async with asyncio.timeout(every_s):
                await stop.wait()
        except TimeoutError:
            continue
