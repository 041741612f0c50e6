"""What the daemon orders from its launcher, and what the launcher reports.

Owns the keys of both documents. Plain classes: `dataclasses` would double the launcher's start.
"""

import os

from fusiond.sandbox.inside import fields

CANCEL = b"c"

EXITED = "exited"
TIMED_OUT = "timed_out"
OUTPUT_LIMIT = "output_limit"
CANCELLED = "cancelled"
SANDBOX_FAILURE = "sandbox_failure"


class Order:
    """One command and how to treat it.

    Args:
        pairs: `argv` and `env` (NAME=value) any number of times, in order; once each: `cwd`,
            `timeout_us`, `grace_us`, `cap_bytes`, `whole_namespace` (0 or 1), and the inherited
            descriptors `log` (the output goes there), `report` (the report goes there) and `control`
            (a pipe: CANCEL asks for an end, its end means that the daemon is dead).

    Raises:
        KeyError: a key is missing.
        ValueError: a number is none.
    """

    def __init__(self, pairs: list[tuple[str, bytes]]) -> None:
        once = dict(pairs)
        self.argv = [value for key, value in pairs if key == "argv"]
        self.env: dict[bytes, bytes] = {}
        for key, value in pairs:
            if key == "env":
                name, _, text = value.partition(b"=")
                self.env[name] = text
        self.cwd = once["cwd"]
        self.timeout_us = int(once["timeout_us"])
        self.grace_us = int(once["grace_us"])
        self.cap_bytes = int(once["cap_bytes"])
        self.whole_namespace = once["whole_namespace"] == b"1"
        self.log = int(once["log"])
        self.report = int(once["report"])
        self.control = int(once["control"])

    @property
    def descriptors(self) -> tuple[int, int, int]:
        """The inherited descriptors that matter; every other is closed."""
        return (self.log, self.report, self.control)


class Report:
    """What became of the command; every field is a fact, judging is the daemon's.

    Args:
        end: one of the words above.
        status: raw wait status of the command, or of what a shell would have said; None when it was
            never known.
        trouble: for SANDBOX_FAILURE, what went wrong, in one line.
    """

    def __init__(self, *, end: str, status: int | None = None, trouble: str = "") -> None:
        self.end = end
        self.status = status
        self.trouble = trouble
        self.output_bytes = 0
        self.hole: tuple[int, int] | None = None
        self.survivors = 0
        self.duration_us = 0

    def pack(self) -> bytes:
        """Return the report as one document."""
        pairs = [
            ("end", self.end.encode("ascii")),
            ("trouble", self.trouble.encode("utf-8", "replace").replace(b"\0", b"")[:2048]),
            ("output_bytes", b"%d" % self.output_bytes),
            ("survivors", b"%d" % self.survivors),
            ("duration_us", b"%d" % self.duration_us),
        ]
        if self.status is not None:
            pairs.append(("status", b"%d" % self.status))
        if self.hole is not None:
            pairs += [("hole_offset", b"%d" % self.hole[0]), ("hole_length", b"%d" % self.hole[1])]
        return fields.pack(pairs)


def unpack_report(document: bytes) -> Report:
    """Return the report that a document holds.

    Raises:
        KeyError: a key is missing.
        ValueError: it is cut short or a number is none.
    """
    once = dict(fields.unpack(document))
    report = Report(end=once["end"].decode("ascii"), trouble=once["trouble"].decode("utf-8", "replace"))
    report.status = int(once["status"]) if "status" in once else None
    report.output_bytes = int(once["output_bytes"])
    report.survivors = int(once["survivors"])
    report.duration_us = int(once["duration_us"])
    if "hole_offset" in once:
        report.hole = (int(once["hole_offset"]), int(once["hole_length"]))
    return report


def read_order(descriptor: int) -> Order:
    """Read an order from its beginning to its end and close the descriptor.

    Raises:
        OSError, KeyError, ValueError: it cannot be read or is none.
    """
    parts: list[bytes] = []
    while part := os.read(descriptor, 1 << 20):
        parts.append(part)
    os.close(descriptor)
    return Order(fields.unpack(b"".join(parts)))
