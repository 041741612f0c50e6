"""Stands above the launcher where no pid namespace does, so that killing one of them frees nothing.

Owns the fork into warden and launcher. Daemon dead: both see the control pipe end. Launcher dead: the
warden adopts and ends what it left. Warden dead: the launcher sees the guard pipe end.
"""

import os
import select

from fusiond.sandbox.inside import kernel, order
from fusiond.sandbox.inside.family import Family


def fork_launcher() -> tuple[int, int]:
    """Split into warden and launcher.

    Returns:
        The launcher's process id and the guard pipe's write end in the warden; 0 and its read end in
        the launcher.
    """
    kernel.adopt_orphans()
    read_end, write_end = os.pipe()
    pid = os.fork()
    os.close(read_end if pid else write_end)
    return pid, (write_end if pid else read_end)


def stand_guard(task: order.Order, launcher: int) -> order.Report | None:
    """Wait until the launcher has ended or the daemon is dead, and leave nothing alive.

    Returns:
        The report that the launcher can no longer write; None when it wrote its own.
    """
    os.close(task.log)
    family = Family(kernel.Bell(), whole_namespace=False)
    poll = select.poll()
    poll.register(task.control, 0)
    poll.register(family.bell.descriptor, select.POLLIN)
    family.reap()
    abandoned = False
    while launcher not in family.ended and not abandoned:
        abandoned = any(descriptor == task.control for descriptor, _event in poll.poll())
        family.bell.silence()
        family.reap()
    survivors, all_gone = family.end()
    status = family.ended.get(launcher, 0)
    if not all_gone:
        trouble = "a process could not be ended"
    elif status == 0:
        return None
    elif abandoned:
        trouble = "the daemon is gone or has given up"
    else:
        trouble = f"the launcher ended early, wait status {status}"
    report = order.Report(end=order.SANDBOX_FAILURE, trouble=trouble)
    report.survivors = survivors
    return report
