"""Toolchains that a flow needs: probed before anything starts, where attempts will run.

A missing or too old one is recorded with the run and blocks it before any
agent costs anything (`flow.md`, toolchains).
"""

import asyncio
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from fusiond.domain.flow import Toolchain
from fusiond.domain.gates import ProcessOutcome, judge
from fusiond.domain.ids import RunId
from fusiond.domain.launch import LaunchSpec
from fusiond.domain.records import dataclass
from fusiond.execution.services import Services

PROBE_TIMEOUT_US = 30_000_000
PROBE_OUTPUT_BYTES = 64 * 1024

_VERSION = re.compile(r"(\d+(?:\.\d+){0,3})")
# How a toolchain is asked for its version, where it is not `NAME --version`.
_COMMANDS = {
    "go": "go version",
    "java": "java -version",
    "python": "python3 --version || python --version",
    "rust": "rustc --version",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """The environment's named parts, and one sentence for each toolchain that is missing."""

    environment: tuple[tuple[str, str], ...]
    missing: tuple[str, ...]


async def probe_toolchains(
    services: Services, run: RunId, wanted: Sequence[Toolchain], search_path: str
) -> Probed:
    """Ask each toolchain for its version inside the walls that attempts will have."""
    parts: list[tuple[str, str]] = [("os", "linux"), ("isolation", str(services.launcher.isolation))]
    missing: list[str] = []
    for toolchain in wanted:
        found = await _version(services, run, toolchain.name, search_path)
        parts.append((toolchain.name, found or "missing"))
        if problem := _problem(toolchain, found):
            missing.append(problem)
    return Probed(environment=tuple(sorted(parts)), missing=tuple(missing))


async def _version(services: Services, run: RunId, name: str, search_path: str) -> str | None:
    command = _COMMANDS.get(name, f"{shlex.quote(name)} --version")
    log = services.content.log_path(run, f"toolchain-{name}")
    spec = LaunchSpec(
        argv=("/bin/sh", "-c", command),
        cwd="/",
        env=(("HOME", "/tmp"), ("LANG", "C.UTF-8"), ("PATH", search_path)),
        mounts=(),
        network=False,
        timeout_us=PROBE_TIMEOUT_US,
        log_path=log,
        marker=f"{services.settings.workspace}/{run}/toolchain",
        output_cap_bytes=PROBE_OUTPUT_BYTES,
    )
    result = await services.launcher.launch(spec, asyncio.Event())
    output = await asyncio.to_thread(_take, Path(log))
    if judge(result) is not ProcessOutcome.PASSED:
        return None
    match = _VERSION.search(output.decode("utf-8", "replace"))
    return match[1] if match else None


def _take(log: Path) -> bytes:
    """Read a probe's output and forget it: only the version it names is recorded."""
    try:
        with log.open("rb") as stream:
            return stream.read(PROBE_OUTPUT_BYTES)
    except FileNotFoundError:
        return b""
    finally:
        log.unlink(missing_ok=True)


def _problem(toolchain: Toolchain, found: str | None) -> str | None:
    if found is None:
        return f"{toolchain.name} {toolchain.version}: not found on PATH"
    try:
        accepted = SpecifierSet(toolchain.version)
        version = Version(found)
    except (InvalidSpecifier, InvalidVersion):
        return f"{toolchain.name}: cannot compare {found} with {toolchain.version!r}"
    if version in accepted:
        return None
    return f"{toolchain.name} {found}: {toolchain.version} is needed"
