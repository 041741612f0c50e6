"""The launcher's program: `python -I -S launcher_main.py ROOT DESCRIPTOR`, standard library only.

ROOT is the directory that holds the package `fusiond`, DESCRIPTOR an inherited one with the order.
Inside a sandbox this is process 2, the command never process 1: as process 1 it would not die of its
own signals.
"""

# pathlib would double the launcher's start.

import os
import sys


def main(root: str, descriptor: int) -> int:
    """Carry out the order and write the report; return 0 when the report was written."""
    sys.path.append(root)
    from fusiond.sandbox.inside import kernel, order, warden
    from fusiond.sandbox.inside.family import Family
    from fusiond.sandbox.inside.watch import Watch

    task = order.read_order(descriptor)
    _close_all_but(task.descriptors)
    os.umask(0o022)
    kernel.harden()
    launcher, guard = (0, None) if task.whole_namespace else warden.fork_launcher()
    if launcher:
        report = warden.stand_guard(task, launcher)
    else:
        kernel.adopt_orphans()
        family = Family(kernel.Bell(), whole_namespace=task.whole_namespace)
        report = Watch(task, family, guard).run()
    if report is not None:
        _send(task.report, report.pack())
    return 0


def _send(descriptor: int, document: bytes) -> None:
    """Write the report; a daemon that is dead needs none."""
    try:
        os.write(descriptor, document)
    except BrokenPipeError:
        return


def _close_all_but(descriptors: tuple[int, ...]) -> None:
    """Close what was inherited beyond need, and keep the rest from the command."""
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in descriptors:
            try:
                os.close(int(name))
            except OSError:
                continue  # the listing's own


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
