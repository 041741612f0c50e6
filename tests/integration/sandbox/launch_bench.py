"""Where launches are tried: specs with sensible defaults, the log read back, who is alive in /proc."""

import asyncio
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fusiond.domain.launch import LaunchResult, LaunchSpec, Mount
from fusiond.ports.launcher import CancelSignal, Launcher

SECOND_US = 1_000_000
PLAIN_PATH = "/usr/bin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A launch's result and what is in its log."""

    result: LaunchResult
    log: bytes


@dataclass(slots=True)
class LaunchBench:
    """One launcher, one directory for logs, one marker.

    Args:
        launcher: under test.
        place: an empty directory.
        marker: what every launch of this bench is marked with.
    """

    launcher: Launcher
    place: Path
    marker: str = field(default_factory=lambda: f"test-{secrets.token_hex(8)}.stage.1")
    _count: int = 0

    def spec(
        self,
        command: str | tuple[str, ...],
        *,
        mounts: tuple[Mount, ...] = (),
        env: Mapping[str, str] | None = None,
        network: bool = False,
        cwd: str = "/",
        timeout_us: int = 60 * SECOND_US,
        grace_us: int = 10 * SECOND_US,
        cap: int = 64 << 20,
    ) -> LaunchSpec:
        """Return a spec; a string is a shell command."""
        self._count += 1
        return LaunchSpec(
            argv=("/bin/sh", "-c", command) if isinstance(command, str) else command,
            cwd=cwd,
            env=tuple({"PATH": PLAIN_PATH, **(env or {})}.items()),
            mounts=mounts,
            network=network,
            timeout_us=timeout_us,
            grace_us=grace_us,
            log_path=str(self.place / f"log-{self._count}"),
            marker=self.marker,
            output_cap_bytes=cap,
        )

    async def run(self, spec: LaunchSpec, cancel: CancelSignal | None = None) -> Outcome:
        """Launch to the end and read the log."""
        result = await self.launcher.launch(spec, cancel or asyncio.Event())
        log = Path(spec.log_path)
        return Outcome(result=result, log=log.read_bytes() if log.exists() else b"")


def new_token() -> str:
    """Return a duration for `sleep` that no other process on this machine sleeps."""
    return f"3600.{secrets.randbelow(10**12):012d}"


def alive(token: str) -> list[int]:
    """Return the living processes with `token` in their arguments; a zombie has none."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                arguments = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if token.encode() in arguments:
                found.append(int(entry.name))
    return found


def below(ancestor: int) -> list[int]:
    """Return every descendant of a process, parents before children."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text("utf-8", "replace")
            except OSError:
                continue
            parent = int(stat[stat.rindex(")") + 2 :].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    line = [ancestor]
    for pid in line:
        line += children.get(pid, [])
    return line[1:]
