"""Finds and ends processes by their FUSION_ATTEMPT, wherever they have moved to.

The second line behind the launcher: for what an earlier daemon left, and for a launch whose launcher
was itself killed. A process that has cleared its environment is not seen. Blocking; for a thread.
"""

import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path

_MARK = b"FUSION_ATTEMPT="
_PATIENCE_S = 10.0


def end_marked(wanted: Callable[[str], bool]) -> int:
    """Kill every process whose marker is wanted, and what it forks meanwhile; wait until all are gone.

    This process and its ancestors are spared: a daemon can itself run inside an attempt.

    Args:
        wanted: says it of a marker's value.

    Returns:
        How many were killed. A process that the kernel will not let go within 10 s is left.
    """
    spared = _lineage(os.getpid())
    killed: set[int] = set()
    give_up = time.monotonic() + _PATIENCE_S
    while time.monotonic() < give_up:
        found = [pid for pid in marked(wanted) if pid not in spared]
        if not found:
            break
        killed.update(_kill_all(found, wanted, give_up))
    return len(killed)


def marked(wanted: Callable[[str], bool]) -> list[int]:
    """Return the processes whose marker is wanted, as far as this user may look."""
    numbers = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in numbers if _is_wanted(pid, wanted)]


def _is_wanted(pid: int, wanted: Callable[[str], bool]) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # gone, a zombie, or another user's
        return False
    values = [item[len(_MARK) :] for item in environment.split(b"\0") if item.startswith(_MARK)]
    return any(wanted(value.decode("utf-8", "surrogateescape")) for value in values)


def _kill_all(found: list[int], wanted: Callable[[str], bool], give_up: float) -> list[int]:
    """Kill through descriptors, so that a number that was given to another process is not hit."""
    killed: list[int] = []
    held: list[int] = []
    try:
        for pid in found:
            try:
                held.append(os.pidfd_open(pid))
                if _is_wanted(pid, wanted):
                    signal.pidfd_send_signal(held[-1], signal.SIGKILL)
                    killed.append(pid)
            except ProcessLookupError:
                continue
        _wait_for(held, give_up)
    finally:
        for descriptor in held:
            os.close(descriptor)
    return killed


def _wait_for(processes: list[int], give_up: float) -> None:
    for descriptor in processes:
        left = max(0.0, give_up - time.monotonic())
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll(left * 1000)


def _lineage(pid: int) -> frozenset[int]:
    """Return a process and its ancestors."""
    line: set[int] = set()
    while pid > 0 and pid not in line:
        line.add(pid)
        try:
            status = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        except OSError:
            break
        pid = int(status[status.rindex(")") + 2 :].split()[1])
    return frozenset(line)
