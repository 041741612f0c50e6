"""The pipes and documents between the daemon and one launcher process.

Owns which descriptor is inherited and which stays. All are close-on-exec: what a launcher inherits is
named to it, one by one.
"""

import contextlib
import os
from dataclasses import field

from fusiond.domain.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipe:
    """A pipe's two ends."""

    read: int
    write: int


@dataclass(slots=True)
class Plumbing:
    """The descriptors of one launch.

    Args:
        theirs: what the launcher inherits; the daemon closes its copies after the start.
        ours: what stays with the daemon until the launch is over.
    """

    theirs: list[int] = field(default_factory=list)
    ours: list[int] = field(default_factory=list)

    def to_launcher(self) -> Pipe:
        """Return a pipe that the daemon writes."""
        read, write = os.pipe()
        self.theirs.append(read)
        self.ours.append(write)
        return Pipe(read=read, write=write)

    def from_launcher(self) -> Pipe:
        """Return a pipe that the daemon reads without ever blocking."""
        read, write = os.pipe()
        os.set_blocking(read, False)
        self.ours.append(read)
        self.theirs.append(write)
        return Pipe(read=read, write=write)

    def document(self, content: bytes) -> int:
        """Return a descriptor from which the launcher reads `content`, of any size."""
        descriptor = os.memfd_create("fusion", os.MFD_CLOEXEC)
        self.theirs.append(descriptor)
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def close_ours(self, descriptor: int) -> None:
        """Close one of ours now; closing it again does nothing."""
        if descriptor in self.ours:
            self.ours.remove(descriptor)
            os.close(descriptor)

    def close_theirs(self) -> None:
        """Close our copies of what the launcher inherited."""
        while self.theirs:
            os.close(self.theirs.pop())

    def close(self) -> None:
        """Close everything."""
        self.close_theirs()
        while self.ours:
            os.close(self.ours.pop())


@dataclass(frozen=True, slots=True, kw_only=True)
class Channels:
    """What runs between daemon and launcher.

    Args:
        control: to the launcher; see `inside.order.Order`.
        report: from it.
        errors: from it and from bubblewrap, in words.
        info: from bubblewrap: the namespace's first process; None without walls.
        gate: to bubblewrap: one byte lets the launch begin; None without walls.
    """

    control: Pipe
    report: Pipe
    errors: Pipe
    info: Pipe | None
    gate: Pipe | None


def connect(plumbing: Plumbing, *, walled: bool) -> Channels:
    """Open the channels of one launch.

    Raises:
        OSError: no descriptors are left.
    """
    return Channels(
        control=plumbing.to_launcher(),
        report=plumbing.from_launcher(),
        errors=plumbing.from_launcher(),
        info=plumbing.from_launcher() if walled else None,
        gate=plumbing.to_launcher() if walled else None,
    )


def read_waiting(descriptor: int, at_most: int) -> bytes:
    """Return what a non-blocking descriptor holds now, up to `at_most` bytes."""
    parts: list[bytes] = []
    with contextlib.suppress(BlockingIOError):
        while at_most > 0 and (part := os.read(descriptor, at_most)):
            parts.append(part)
            at_most -= len(part)
    return b"".join(parts)
