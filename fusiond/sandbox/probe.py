"""Finds out whether bubblewrap really works here, and opens the launcher that fits this host.

Owns the choice between walls and none. A program that is installed proves nothing: user namespaces may
be off, forbidden to this path, or a container may stand in the way. So a whole launch is tried.
"""

import asyncio
import tempfile
from pathlib import Path

from fusiond.domain.launch import LaunchEnd, LaunchResult, LaunchSpec
from fusiond.domain.records import dataclass
from fusiond.sandbox.bubblewrap import programs
from fusiond.sandbox.host import LauncherHost, Walls
from fusiond.sandbox.launcher import SandboxLauncher

_EXPECTED = 7
_TIMEOUT_US = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeFinding:
    """What came of trying one bubblewrap program.

    Args:
        walls: as it was tried.
        problem: why it cannot be used, "" when it works.
    """

    walls: Walls
    problem: str


async def open_launcher(host: LauncherHost) -> tuple[SandboxLauncher, tuple[ProbeFinding, ...]]:
    """Return a launcher with the best walls that work here, and what was tried on the way.

    Args:
        host: this host.
    """
    findings: list[ProbeFinding] = []
    for program in programs():
        for nested in (False, True):
            walls = Walls(program=program, nested_namespaces=nested)
            launcher = SandboxLauncher(host, walls)
            problem = await probe(launcher)
            findings.append(ProbeFinding(walls=walls, problem=problem))
            if not problem:
                return launcher, tuple(findings)
    return SandboxLauncher(host, None), tuple(findings)


async def probe(launcher: SandboxLauncher) -> str:
    """Run `exit 7`; return what went wrong, "" when exactly 7 came back."""
    with tempfile.TemporaryDirectory(prefix="fusion-probe-") as directory:
        spec = LaunchSpec(
            argv=("/bin/sh", "-c", f"exit {_EXPECTED}"),
            cwd="/",
            env=(),
            mounts=(),
            network=False,
            timeout_us=_TIMEOUT_US,
            log_path=str(Path(directory) / "output"),
            marker="fusion-probe",
        )
        return _problem(await launcher.launch(spec, asyncio.Event()))


def _problem(result: LaunchResult) -> str:
    if result.end is LaunchEnd.EXITED and result.exit_code == _EXPECTED:
        return ""
    said = result.detail or f"exit code {result.exit_code}, signal {result.signal}"
    return f"{result.end}: {said}"
