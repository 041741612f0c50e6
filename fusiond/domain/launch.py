"""What a process launch is asked and what it answers; nothing about how.

`LaunchSpec` is everything the one launcher needs; `LaunchResult` is raw fact.
Judging the fact (passed, failed, timed out …) is `domain.gates`.
"""

from dataclasses import field
from enum import StrEnum

from fusiond.domain.records import dataclass

STORAGE_DETAIL = "storage:"
"""How the detail of a SANDBOX_FAILURE begins that is the disk's; the launcher writes it."""


class Isolation(StrEnum):
    """Which walls stood around a process."""

    BUBBLEWRAP = "bubblewrap"
    SUBREAPER = "subreaper"


class LaunchEnd(StrEnum):
    """Why a launched process is no more."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed_out"
    OUTPUT_LIMIT = "output_limit"
    CANCELLED = "cancelled"
    SANDBOX_FAILURE = "sandbox_failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One host path made visible.

    `target` is the path inside; without a sandbox the process sees `source`.
    """

    source: str
    target: str
    writable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """One process to launch.

    Args:
        argv: the program and its arguments; `("/bin/sh", "-c", text)` for a shell command.
        cwd: working directory inside the walls.
        env: the whole environment, nothing is inherited.
        mounts: what is visible beside the toolchains.
        network: whether the network is reachable.
        timeout_us: monotonic limit for the whole process.
        grace_us: between SIGTERM and SIGKILL.
        log_path: host file for the joined output; created, never followed.
        output_cap_bytes: what may stay on disk of the output; head and tail are kept, the
            middle is a hole, offsets stay true.
        marker: value of FUSION_ATTEMPT, scanned for at daemon start.
    """

    argv: tuple[str, ...]
    cwd: str
    env: tuple[tuple[str, str], ...]
    mounts: tuple[Mount, ...]
    network: bool
    timeout_us: int
    log_path: str
    marker: str
    output_cap_bytes: int = 64 * 1024 * 1024
    grace_us: int = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchResult:
    """Raw facts about a process that ended.

    Args:
        end: why it is no more.
        exit_code: 0-255 when `end` is EXITED, else None.
        signal: the signal's number when `end` is SIGNALLED, else None.
        output_bytes: how much it wrote in all, also what was not kept.
        hole: offset and length of the middle that was not kept, None when all was.
        survivors: processes that outlived the main one and were ended.
        duration_us: monotonic.
        isolation: which walls stood.
        detail: for SANDBOX_FAILURE, what went wrong, in one line.
    """

    end: LaunchEnd
    exit_code: int | None = None
    signal: int | None = None
    output_bytes: int = 0
    hole: tuple[int, int] | None = None
    survivors: int = 0
    duration_us: int = 0
    isolation: Isolation = Isolation.SUBREAPER
    detail: str = field(default="")
