"""Setting up `.venv`: which Python is taken, and what is never touched.

That a fresh environment works is shown by every run of `scripts/test`.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.arch.source_tree import ROOT

TOO_OLD = "exit 1"
WITHOUT_VENV = 'case "$3" in *ensurepip*) exit 1 ;; esac'
# The interpreter that is found is given the program that makes the environment.
USABLE = 'case "$2" in -c) ;; *) echo "used $0 $1 ${2##*/}" ;; esac'


def fake_pythons(directory: Path, **behaviours: str) -> Path:
    """Make commands called as given, each a shell script; return their directory, as a PATH has it."""
    directory.mkdir()
    for name, behaviour in behaviours.items():
        command = directory / name.replace("_", ".")
        command.write_text(f"#!/bin/sh\n{behaviour}\n")
        command.chmod(0o755)
    for tool in ("env", "sed"):
        found = shutil.which(tool)
        assert found, tool
        (directory / tool).symlink_to(found)
    return directory


def source_environment(path: Path, root: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    """Source `scripts/environment` with nothing but `path` on PATH."""
    program = f'root="{root}"; . "{ROOT}/scripts/environment"; env'
    return subprocess.run(
        ["/bin/sh", "-euc", program],
        env={"PATH": str(path), **extra},
        capture_output=True,
        text=True,
        check=False,
    )


def test_newest_usable_python_is_taken(tmp_path: Path) -> None:
    path = fake_pythons(tmp_path / "bin", python3_13=TOO_OLD, python3_12=WITHOUT_VENV, python3=USABLE)
    outcome = source_environment(path, tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.startswith(f"used {path}/python3 -I make_environment.py\n")


def test_no_python_is_said_with_its_cure(tmp_path: Path) -> None:
    outcome = source_environment(fake_pythons(tmp_path / "bin", python3=TOO_OLD), tmp_path)
    assert outcome.returncode == 1
    assert "no Python 3.11 or newer" in outcome.stderr


def test_python_without_venv_is_said_with_its_cure(tmp_path: Path) -> None:
    outcome = source_environment(fake_pythons(tmp_path / "bin", python3=WITHOUT_VENV), tmp_path)
    assert outcome.returncode == 1
    assert "python3-venv" in outcome.stderr


def test_callers_python_settings_are_dropped(tmp_path: Path) -> None:
    path = fake_pythons(tmp_path / "bin", python3=USABLE)
    settings = {"PYTHONHOME": "/nowhere", "PYTHONOPTIMIZE": "2", "PIP_TARGET": "/nowhere"}
    outcome = source_environment(path, tmp_path, **settings, KEPT="PYTHONPATH=x")
    assert outcome.returncode == 0, outcome.stderr
    names = {line.partition("=")[0] for line in outcome.stdout.splitlines()}
    assert names & settings.keys() == set()
    assert "KEPT" in names


def test_environment_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / ".venv" / "pyvenv.cfg"
    theirs.parent.mkdir()
    theirs.write_text("theirs")
    outcome = make_environment(tmp_path)
    assert outcome.returncode == 1
    assert "Move it away" in outcome.stderr
    assert theirs.read_text() == "theirs"


@pytest.mark.long
def test_failed_set_up_is_said_and_leaves_no_stamp(tmp_path: Path) -> None:
    digest = "0" * 64
    (tmp_path / "requirements.lock").write_text(f"fusion-has-no-such-package==1 --hash=sha256:{digest}\n")
    outcome = make_environment(tmp_path)
    assert outcome.returncode == 1
    assert "setting up .venv failed" in outcome.stderr
    assert not list((tmp_path / ".venv").glob("*.stamp"))


def make_environment(root: Path) -> subprocess.CompletedProcess[str]:
    """Run the program that makes the environment, with no package index to reach."""
    program = ROOT / "scripts" / "make_environment.py"
    return subprocess.run(
        [sys.executable, "-I", program, root],
        env={**os.environ, "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("script", ["environment", "test", "demo", "check"])
def test_scripts_are_plain_shell(script: str) -> None:
    subprocess.run(["/bin/sh", "-n", ROOT / "scripts" / script], check=True)
