"""Every process below this one: who is alive, who ended how, and the end of all of them.

Owns reaping and killing. Rests on this process being a subreaper: then whatever lives below has a
living chain of parents up to here, and "no children" means "nothing is left".
"""

# pathlib would double the launcher's start.

import os
import select
import time

from fusiond.sandbox.inside import kernel

_ROUND_S = 0.02
_PATIENCE_S = 10.0


class Family:
    """The descendants of this process.

    Args:
        bell: rings when a child changes state.
        whole_namespace: this process's pid namespace holds nothing but its launch, so that one signal
            reaches all of it at once; without, processes are found in /proc and a fork in between
            needs another round.
    """

    def __init__(self, bell: kernel.Bell, *, whole_namespace: bool) -> None:
        self.bell = bell
        self.ended: dict[int, int] = {}
        self._killed: set[int] = set()
        self._whole_namespace = whole_namespace

    def reap(self) -> bool:
        """Collect what has ended, raw wait statuses into `ended`; say whether children are left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self.ended[pid] = status

    def signal(self, number: int) -> set[int]:
        """Send a signal to every descendant; return those that were alive.

        Zombies get it too: a process whose first thread has ended looks like one and may run on.
        """
        found = descendants(os.getpid())
        if self._whole_namespace and number == kernel.SIGKILL:
            _send(-1, number)
        else:
            for pid in found:
                _send(pid, number)
        return {pid for pid, alive in found.items() if alive}

    def kill(self) -> set[int]:
        """Send SIGKILL to every descendant; return those alive that had not been killed before."""
        fresh = self.signal(kernel.SIGKILL) - self._killed
        self._killed |= fresh
        return fresh

    def end(self) -> tuple[int, bool]:
        """Kill everything below, and what that forks meanwhile.

        Returns:
            How many were alive and not killed before, and whether all are gone; a process that the
            kernel will not let go within 10 s is left.
        """
        count = 0
        give_up = time.monotonic() + _PATIENCE_S
        while self.reap():
            count += len(self.kill())
            if time.monotonic() > give_up:
                return count, False
            self._await_a_child()
        return count, True

    def _await_a_child(self) -> None:
        if not self.reap():
            return
        poll = select.poll()
        poll.register(self.bell.descriptor, select.POLLIN)
        poll.poll(_ROUND_S * 1000)
        self.bell.silence()


def descendants(root: int) -> dict[int, bool]:
    """Return the processes below `root`, and whether each is more than a zombie, from /proc."""
    children: dict[int, list[int]] = {}
    alive: dict[int, bool] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            _note(int(name), children, alive)
    found: dict[int, bool] = {}
    waiting = list(children.get(root, ()))
    while waiting:
        pid = waiting.pop()
        found[pid] = alive[pid]
        waiting += children.get(pid, ())
    return found


def _note(pid: int, children: dict[int, list[int]], alive: dict[int, bool]) -> None:
    """Read one process's parent and state; one that is gone meanwhile is none of ours."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as stat:
            line = stat.read(1024)
    except (FileNotFoundError, ProcessLookupError):
        return
    # The command's name is in brackets and may itself hold brackets and blanks.
    state, parent = line[line.rindex(b")") + 2 :].split(b" ", 2)[:2]
    children.setdefault(int(parent), []).append(pid)
    alive[pid] = state not in (b"Z", b"X")


def _send(pid: int, number: int) -> None:
    """Send a signal; a process that is gone or is not ours to signal is no failure here."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return
