"""What is found out about this machine, and which launcher follows from it."""

import os
import stat
from pathlib import Path

import pytest

from fusiond.domain.launch import Isolation
from fusiond.sandbox.bubblewrap import programs
from fusiond.sandbox.capability import is_cgroup_delegated, survey
from fusiond.sandbox.host import LauncherHost, Walls
from fusiond.sandbox.launcher import SandboxLauncher
from fusiond.sandbox.probe import ProbeFinding, open_launcher, probe


def impostor(place: Path, body: str) -> str:
    """Return a program that only pretends to be bubblewrap."""
    path = place / "bwrap"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


async def test_working_walls_are_found(host: LauncherHost) -> None:
    launcher, findings = await open_launcher(host)
    assert launcher.isolation is Isolation.BUBBLEWRAP
    assert findings[-1].problem == ""
    assert findings[-1].walls.program in programs()


@pytest.mark.parametrize(
    "body,told",
    [
        ("echo 'bwrap: No permissions to create new namespace' >&2; exit 1", "No permissions"),
        ("exit 7", "sandbox_failure"),
        ("exit 0", "sandbox_failure"),
        ("kill -KILL $$", "sandbox_failure"),
    ],
)
async def test_walls_that_do_not_stand_are_told(
    host: LauncherHost, tmp_path: Path, body: str, told: str
) -> None:
    launcher = SandboxLauncher(host, Walls(program=impostor(tmp_path, body)))
    assert told in await probe(launcher)


async def test_program_that_is_not_there_is_told(host: LauncherHost, tmp_path: Path) -> None:
    assert await probe(SandboxLauncher(host, Walls(program=str(tmp_path / "bwrap"))))


async def test_report_says_what_was_found(host: LauncherHost, tmp_path: Path) -> None:
    _launcher, findings = await open_launcher(host)
    report = survey(findings, tmp_path)
    assert report.isolation is Isolation.BUBBLEWRAP
    assert report.bubblewrap_works
    assert report.bubblewrap_version[0].isdigit()
    assert report.kernel == os.uname().release


def test_report_without_walls_names_the_problem(tmp_path: Path) -> None:
    finding = ProbeFinding(walls=Walls(program=impostor(tmp_path, "exit 1")), problem="forbidden here")
    report = survey((finding,), tmp_path)
    assert (report.isolation, report.bubblewrap_works) == (Isolation.SUBREAPER, False)
    assert report.bubblewrap_problem == "forbidden here"
    assert report.nested_namespaces


def test_report_without_any_program(tmp_path: Path) -> None:
    report = survey((), tmp_path)
    assert report.bubblewrap_program == ""
    assert report.bubblewrap_problem == "bubblewrap is not installed"


def group_with(place: Path, controllers: str) -> Path:
    """Plant a control group of our own; return the process file system that leads to it."""
    proc, group = place / "proc", place / "cgroup" / "user"
    (proc / "self").mkdir(parents=True)
    group.mkdir(parents=True)
    (proc / "self" / "cgroup").write_text("1:name=systemd:/x\n0::/user\n")
    (proc / "self" / "mountinfo").write_text(f"30 2 0:9 / {place}/cgroup rw - cgroup2 none rw\n")
    (group / "cgroup.controllers").write_text(controllers + "\n")
    (group / "cgroup.procs").write_text("")
    return proc


def test_writable_group_with_controllers_is_delegated(tmp_path: Path) -> None:
    assert is_cgroup_delegated(group_with(tmp_path, "cpu memory pids"))


def test_group_without_the_controllers_is_not_delegated(tmp_path: Path) -> None:
    assert not is_cgroup_delegated(group_with(tmp_path, "hugetlb"))
