"""What all tests stand on: the hermetic environment, `needs_tool`, and waiting with a deadline."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.arch.source_tree import ROOT
from tests.waiting import eventually, wait_until

NEEDY_TEST = """
import pytest

@pytest.mark.needs_tool("sh", "no-such-tool")
def test_needy() -> None: ...

@pytest.mark.needs_tool("sh")
def test_content() -> None: ...
"""


def git_config(name: str) -> str:
    """Return one of git's settings as tests see it."""
    return subprocess.run(["git", "config", name], check=True, capture_output=True, text=True).stdout.strip()


def run_needy_tests(place: Path, **environment: str) -> str:
    """Run the tests above in a process of their own; return the closing line."""
    shutil.copy(ROOT / "tests" / "conftest.py", place)
    (place / "test_needy.py").write_text(NEEDY_TEST)
    base = {name: value for name, value in os.environ.items() if name != "FUSION_REQUIRE_TOOLCHAINS"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={place}"]
    outcome = subprocess.run(
        command, cwd=place, env=base | environment, capture_output=True, text=True, check=False
    )
    return outcome.stdout.rstrip().rpartition("\n")[2]


def test_git_and_home_are_the_tests_own() -> None:
    assert git_config("user.name") == "Test Author"
    assert git_config("init.defaultBranch") == "main"
    assert os.environ["XDG_RUNTIME_DIR"].startswith(os.environ["HOME"])
    assert len(os.environ["XDG_RUNTIME_DIR"]) < 60
    assert "GIT_DIR" not in os.environ


def test_lacking_tool_leaves_a_test_out_visibly(tmp_path: Path) -> None:
    assert "1 passed, 1 skipped" in run_needy_tests(tmp_path)


def test_lacking_tool_fails_where_toolchains_are_required(tmp_path: Path) -> None:
    assert "1 error" in run_needy_tests(tmp_path, FUSION_REQUIRE_TOOLCHAINS="1")


async def test_waiting_returns_when_the_condition_holds() -> None:
    looks = iter([False, False, True])
    wait_until(lambda: next(looks), "third look")
    happened = asyncio.Event()
    asyncio.get_running_loop().call_soon(happened.set)
    await eventually(happened.is_set, "event")


async def test_waiting_names_what_never_came() -> None:
    with pytest.raises(AssertionError, match="no unicorn"):
        wait_until(lambda: False, "unicorn", deadline_s=0)
    with pytest.raises(AssertionError, match="no unicorn"):
        await eventually(lambda: False, "unicorn", deadline_s=0)
