"""What this machine can guarantee about launches, layer by layer, as found by trying.

Owns the report for `fusion doctor`; draws no level from it and changes nothing.
"""

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from fusiond.domain.launch import Isolation
from fusiond.domain.records import dataclass
from fusiond.sandbox.inside import kernel
from fusiond.sandbox.probe import ProbeFinding

_HOLE_BYTES = 1 << 20
_CHILD_S = 10
_UNSHARE_USER = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000) != 0)"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityReport:
    """Facts about this machine; each was tried, not assumed.

    Args:
        kernel: release.
        isolation: what the launcher will use.
        bubblewrap_program: path of the one in use, else of the first that was tried; "" for none.
        bubblewrap_version: what it says of itself.
        bubblewrap_works: a whole launch behind its walls came back as it should.
        bubblewrap_problem: why it does not, in one line.
        nested_namespaces: the command could make user namespaces of its own.
        user_namespaces: this user can make one without bubblewrap's help.
        hole_punching: the file system of the given directory gives blocks of a file's middle back.
        cgroup_delegated: this process may make control groups (version 2) below its own.
    """

    kernel: str
    isolation: Isolation
    bubblewrap_program: str
    bubblewrap_version: str
    bubblewrap_works: bool
    bubblewrap_problem: str
    nested_namespaces: bool
    user_namespaces: bool
    hole_punching: bool
    cgroup_delegated: bool


def survey(findings: tuple[ProbeFinding, ...], log_directory: Path) -> CapabilityReport:
    """Return the report. Blocking, some 50 ms.

    Args:
        findings: what `probe.open_launcher` tried.
        log_directory: where output logs will be written.

    Raises:
        OSError: the directory cannot be written.
    """
    working = [finding for finding in findings if not finding.problem]
    chosen = (*working, *findings)[:1]
    return CapabilityReport(
        kernel=platform.release(),
        isolation=Isolation.BUBBLEWRAP if working else Isolation.SUBREAPER,
        bubblewrap_program=chosen[0].walls.program if chosen else "",
        bubblewrap_version=bubblewrap_version(chosen[0].walls.program) if chosen else "",
        bubblewrap_works=bool(working),
        bubblewrap_problem=chosen[0].problem if chosen else "bubblewrap is not installed",
        nested_namespaces=not working or working[0].walls.nested_namespaces,
        user_namespaces=can_unshare_user(),
        hole_punching=can_punch_holes(log_directory),
        cgroup_delegated=is_cgroup_delegated(),
    )


def bubblewrap_version(program: str) -> str:
    """Return the version that a bubblewrap program says it has, "" when it says nothing."""
    try:
        said = subprocess.run([program, "--version"], capture_output=True, timeout=_CHILD_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return said.stdout.decode("utf-8", "replace").removeprefix("bubblewrap").strip()


def can_unshare_user() -> bool:
    """Say whether a process of this user can make a user namespace, by letting a child try."""
    child = [sys.executable, "-I", "-S", "-c", _UNSHARE_USER]
    return subprocess.run(child, capture_output=True, timeout=_CHILD_S, check=False).returncode == 0


def can_punch_holes(directory: Path) -> bool:
    """Say whether a file in `directory` can be given a hole, by giving one to a temporary file.

    Raises:
        OSError: the directory cannot be written.
    """
    with tempfile.TemporaryFile(dir=directory) as file:
        file.write(bytes(_HOLE_BYTES))
        file.flush()
        return kernel.punch_hole(file.fileno(), 0, _HOLE_BYTES)


def is_cgroup_delegated(proc: Path = Path("/proc")) -> bool:
    """Say whether this process may make control groups below its own in the version 2 hierarchy.

    Delegation needs the directory and its `cgroup.procs` writable, and controllers to hand on
    (kernel, cgroup-v2.rst, "Model of Delegation").

    Args:
        proc: where the process file system is.
    """
    root = _cgroup_mount(proc)
    own = [
        line[3:]
        for line in (proc / "self/cgroup").read_text("utf-8", "replace").splitlines()
        if line.startswith("0::")
    ]
    if root is None or not own:
        return False
    group = root / own[0].lstrip("/")
    try:
        controllers = set((group / "cgroup.controllers").read_text("ascii").split())
    except OSError:
        return False
    writable = os.access(group, os.W_OK) and os.access(group / "cgroup.procs", os.W_OK)
    return writable and {"memory", "pids"} <= controllers


def _cgroup_mount(proc: Path) -> Path | None:
    """Return where the version 2 hierarchy is mounted."""
    for line in (proc / "self/mountinfo").read_text("utf-8", "replace").splitlines():
        fields, _, rest = line.partition(" - ")
        if rest.startswith("cgroup2 "):
            return Path(fields.split(" ")[4])
    return None
