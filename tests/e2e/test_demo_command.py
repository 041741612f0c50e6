"""`fusion demo`, from the checkout and from an installed wheel."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.arch.source_tree import ROOT
from tests.e2e.shell import Shell, run_id, state_of


def test_demo_shows_a_run_and_leaves_only_its_directory(own_shell: Shell) -> None:
    demo = own_shell.place / "demo"
    ended = own_shell.fusion("demo", str(demo))
    run = run_id(ended.out)
    for part in (
        "What happened",
        "fix: 1 attempt, 1 rerun of the same session with feedback, gate unit passed in round 2",
        "Where the evidence is",
        f"directory  {demo}",
        "fix/report",
        "What to try next",
        f"fusion merge {run}",
    ):
        assert part in ended.out
    assert "gate unit ✗ failed (1)" in ended.err
    assert own_shell.processes() == {}
    assert state_of(own_shell.home) == {
        name: facts for name, facts in state_of(own_shell.home).items() if name.startswith("state")
    }
    expect_advice_to_work(own_shell, demo, ended.out)


def expect_advice_to_work(shell: Shell, demo: Path, out: str) -> None:
    """Every command under "What to try next" does what it says, in a shell of its own."""
    advice = out.partition("What to try next\n")[2]
    ended = shell.command(["/bin/sh", "-euc", advice], cwd=shell.place)
    assert "fast-forward" in ended.out
    assert "OK" in ended.err
    author = ["git", "-C", str(demo), "log", "--format=%an", "--max-parents=0"]
    assert shell.command(author).out == "Fusion demo\n"
    shell.command(["git", "-C", str(demo), "config", "--local", "user.name"], code=1)


def test_demo_refuses_a_directory_in_use(own_shell: Shell) -> None:
    own_shell.repository({"a.txt": "a\n"})
    before = state_of(own_shell.root)
    assert "is not empty" in own_shell.fusion("demo", str(own_shell.root), code=64).err
    assert state_of(own_shell.root) == before


def test_demo_runs_from_a_wheel(own_shell: Shell, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    assert not (installed / "examples").exists()
    ended = own_shell.fusion(
        "demo", "--json", env={"PYTHONPATH": str(installed), "TMPDIR": str(own_shell.place)}
    )
    document = json.loads(ended.out)
    assert (document["outcome"], document["exit_code"]) == ("succeeded", 0)
    assert Path(document["directory"]).parent == own_shell.place
