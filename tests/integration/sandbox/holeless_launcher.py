"""A launcher on a file system without holes: `python holeless_launcher.py LOG CAP SCRIPT`.

Does what `launcher_main` does, without warden and daemon, and prints the report.
"""

import os
import sys

from fusiond.sandbox.inside import kernel, order
from fusiond.sandbox.inside.family import Family
from fusiond.sandbox.inside.watch import Watch


def no_holes(_descriptor: int, _offset: int, _length: int) -> bool:
    """Refuse as such a file system does."""
    return False


def main(log: str, cap: str, script: str) -> None:
    """Watch the script."""
    control, _keeper = os.pipe()
    numbers = {
        "timeout_us": 60_000_000,
        "grace_us": 10_000_000,
        "cap_bytes": int(cap),
        "whole_namespace": 0,
        "log": os.open(log, os.O_WRONLY | os.O_CREAT),
        "report": 1,
        "control": control,
    }
    pairs = [("argv", argument.encode()) for argument in ("/bin/sh", "-c", script)]
    pairs += [("env", b"PATH=/usr/bin:/bin"), ("cwd", b"/")]
    pairs += [(name, b"%d" % number) for name, number in numbers.items()]
    kernel.adopt_orphans()
    family = Family(kernel.Bell(), whole_namespace=False)
    os.write(1, Watch(order.Order(pairs), family, None, no_holes).run().pack())


if __name__ == "__main__":
    main(*sys.argv[1:])
