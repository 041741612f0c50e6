"""The runner of git: its environment, its errors, its ends."""

import asyncio
import os
from pathlib import Path

import pytest

from fusiond.domain.errors import StorageError, UnsupportedError
from fusiond.workspace.plumbing.git import NOWHERE, Git, GitError, Place
from tests.waiting import eventually


def program(directory: Path, script: str) -> Git:
    """Return a runner of a program that answers `version` well and else does `script`."""
    path = directory / "git"
    path.write_text(
        f'#!/bin/sh\nfor word; do [ "$word" = version ] && echo "git version 2.41.0" && exit 0; done\n{script}\n'
    )
    path.chmod(0o755)
    return Git(program=str(path))


def is_alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(") ")[2][0] != "Z"


@pytest.mark.parametrize("version", ["git version 2.37.9", "git version 1.9", "something else", ""])
async def test_too_old_or_no_git_at_all_is_unsupported(tmp_path: Path, version: str) -> None:
    (tmp_path / "git").write_text(f"#!/bin/sh\necho '{version}'\n")
    (tmp_path / "git").chmod(0o755)
    with pytest.raises(UnsupportedError, match="says") as caught:
        await Git(program=str(tmp_path / "git")).run(NOWHERE, "status")
    assert "2.38" in caught.value.cure


async def test_a_missing_git_is_unsupported(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="not there"):
        await Git(search_path=str(tmp_path)).run(NOWHERE, "status")


async def test_nothing_is_inherited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_DIR", "GIT_CONFIG_PARAMETERS", "GIT_SSH_COMMAND", "LD_PRELOAD", "SECRET", "GIT_TRACE"):
        monkeypatch.setenv(name, "from the daemon")
    place = Place(git_dir="/g", work_tree=str(tmp_path), index="/i", objects="/o", alternates=("/a", "/b:c"))
    out = (await program(tmp_path, "env").run(place, "anything")).out.decode()
    seen = dict(line.split("=", 1) for line in out.splitlines())
    assert "from the daemon" not in out
    assert seen["GIT_DIR"] == "/g"
    assert seen["GIT_ALTERNATE_OBJECT_DIRECTORIES"] == '/a:"/b:c"'
    assert (seen["HOME"], seen["GIT_CONFIG_GLOBAL"], seen["LC_ALL"]) == ("/nonexistent", "/dev/null", "C")
    assert seen["GIT_ALLOW_PROTOCOL"] == ""


async def test_an_unexpected_exit_code_tells_what_git_said_and_steers_no_terminal(tmp_path: Path) -> None:
    runner = program(tmp_path, "printf 'fatal: \\033[31mbad\\n' >&2; exit 3")
    with pytest.raises(GitError) as caught:
        await runner.run(NOWHERE, "frobnicate")
    assert caught.value.found.startswith("git frobnicate ended with 3: fatal: <U+001B>[31mbad")
    assert (await runner.run(NOWHERE, "frobnicate", ok=(3,))).code == 3


async def test_a_full_disk_is_storage(tmp_path: Path) -> None:
    runner = program(tmp_path, "echo 'error: write: No space left on device' >&2; exit 128")
    with pytest.raises(StorageError):
        await runner.run(NOWHERE, "add")


async def test_a_call_that_does_not_end_is_killed_with_its_children(tmp_path: Path) -> None:
    runner = program(tmp_path, f"sleep 1000 & echo $! > {tmp_path}/child; wait")
    with pytest.raises(GitError, match="did not end within"):
        await runner.run(NOWHERE, "hang", timeout_s=0.5)
    child = int((tmp_path / "child").read_text())
    await eventually(lambda: not is_alive(child), "end of the child")


async def test_a_cancelled_call_is_killed_with_its_children(tmp_path: Path) -> None:
    runner = program(
        tmp_path,
        f"sleep 1000 & echo $! > {tmp_path}/child.new; mv {tmp_path}/child.new {tmp_path}/child; wait",
    )
    task = asyncio.create_task(runner.run(NOWHERE, "hang"))
    await eventually((tmp_path / "child").exists, "start of the child")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    child = int((tmp_path / "child").read_text())
    await eventually(lambda: not is_alive(child), "end of the child")


async def test_a_call_may_be_cancelled_at_any_moment(tmp_path: Path) -> None:
    mark = f"1000.{os.getpid()}"
    runner = program(tmp_path, f"sleep {mark} & wait")
    await runner.check()
    for moments in range(25):
        task = asyncio.create_task(runner.run(NOWHERE, "hang"))
        for _ in range(moments):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await eventually(lambda: not running(mark), "end of every child")


def running(argument: str) -> list[str]:
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = each.read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if argument in words:
            found.append(each.parent.name)
    return found


async def test_a_directory_that_is_gone_is_not_taken_for_a_missing_git(tmp_path: Path) -> None:
    place = Place(git_dir="/g", work_tree=str(tmp_path / "gone"))
    with pytest.raises(GitError, match="is gone"):
        await program(tmp_path, "true").run(place, "status")


async def test_large_input_and_output_pass(tmp_path: Path) -> None:
    data = os.urandom(5 << 20)
    assert (await program(tmp_path, "cat").run(NOWHERE, "echo", stdin=data)).out == data
