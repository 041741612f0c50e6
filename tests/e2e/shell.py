"""A person's shell in a repository of its own: the real CLI, the real daemon, nothing of the machine's.

Owns the directories, the environment and the end: every daemon is stopped, and a process that is
left over fails the test. Owns no expectation about Fusion's behaviour.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusiond.cli.demo_repository import make_repository
from tests.arch.source_tree import ROOT
from tests.waiting import wait_until

EXAMPLES = ROOT / "examples"
FUSION = (sys.executable, "-P", "-m", "fusiond.cli.main")
COMMAND_S = 120.0
"""Long enough for the busiest machine; only a command that hangs ever takes it."""

FileState = tuple[int, int, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


class Shell:
    """One person, one home, one repository at `root`."""

    def __init__(self) -> None:
        # Short, because a socket's path is; real, because git and Fusion say real paths.
        self.place = Path(os.path.realpath(tempfile.mkdtemp(prefix="fu-")))
        self.root = self.place / "repo"
        self.home = self.place / "home"
        runtime = self.place / "run"
        programs = self.place / "bin"
        for each in (self.root, self.home, programs, self.place / "flows"):
            each.mkdir()
        program = programs / "fusion"
        program.write_text(f'#!/bin/sh\nexec {shlex.join(FUSION)} "$@"\n')
        program.chmod(0o755)
        runtime.mkdir(mode=0o700)
        self.env = {
            **os.environ,
            "HOME": str(self.home),
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_STATE_HOME": str(self.home / "state"),
            "XDG_RUNTIME_DIR": str(runtime),
            "NO_COLOR": "1",
            "TERM": "xterm",
        }

    def example(self, name: str) -> None:
        """Make the repository from an example, and a workspace of it."""
        make_repository(EXAMPLES / name, self.root)
        self.fusion("init")

    def repository(self, files: Mapping[str, str]) -> None:
        """Make the repository from texts, with one commit."""
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("init", "--quiet")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "First commit")

    def flow(self, name: str, text: str) -> str:
        """Write a flow file beside the repository and return its path."""
        path = self.place / "flows" / f"{name}.yaml"
        path.write_text(text)
        return str(path)

    def git(self, *arguments: str) -> str:
        """Run git in the repository and return what it printed."""
        command = ["git", *arguments]
        return subprocess.run(
            command, cwd=self.root, env=self.env, check=True, capture_output=True, text=True
        ).stdout

    def fusion(
        self,
        *arguments: str,
        code: int | None = 0,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Ended:
        """Run `fusion` as its users do and expect an exit code; None expects nothing."""
        return self.command([*FUSION, *arguments], code=code, cwd=cwd, env=env)

    def command(
        self,
        command: Sequence[str],
        *,
        code: int | None = 0,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Ended:
        """Run a command in the repository, with this shell's environment, and expect an exit code."""
        ended = subprocess.run(
            command,
            cwd=cwd or self.root,
            env=self.env | dict(env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=COMMAND_S,
        )
        out, err = ended.stdout.decode(), ended.stderr.decode()
        assert code in (None, ended.returncode), f"{command[-3:]} ended with {ended.returncode}\n{out}\n{err}"
        return Ended(code=ended.returncode, out=out, err=err)

    def document(self, *arguments: str, code: int = 0) -> Any:
        """Run `fusion … --json` and return its one document."""
        return json.loads(self.fusion(*arguments, "--json", code=code).out)

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start `fusion` and return it, with pipes for its output."""
        return subprocess.Popen(
            [*FUSION, *arguments],
            cwd=self.root,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def stages(self, run: str) -> dict[str, Any]:
        """Return a run's stages as `fusion show --json` has them, by node."""
        return {each["node"]: each for each in self.document("show", run)["stages"]}

    def session_of(self, run: str, node: str) -> Path:
        """Return the host's directory behind $FUSION_SESSION of a node's first attempt."""
        found = [*self.place.glob(f"home/state/fusion/worktrees/*/{run}.{node}/attempt-1/session")]
        assert len(found) == 1, f"sessions of {node}: {found}"
        return found[0]

    def processes(self) -> dict[int, str]:
        """Return the command line of every process that this shell, its daemons or their attempts started."""
        marks = [f"HOME={self.home}\0".encode()]
        marks += [f"FUSION_ATTEMPT={each}/".encode() for each in self._workspaces()]
        found: dict[int, str] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and entry.name != str(os.getpid()):
                with contextlib.suppress(OSError):
                    environment = (entry / "environ").read_bytes() + b"\0"
                    if any(mark in environment for mark in marks):
                        line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                        found[int(entry.name)] = line.decode(errors="replace")
        return found

    def close(self) -> None:
        """Stop what runs, expect that nothing is left, and remove the directories."""
        try:
            for marker in self._markers():
                self.fusion("daemon", "stop", "--now", cwd=marker.parent)
            wait_until(lambda: not self.processes(), f"end of {self.processes()}")
        finally:
            for pid in self.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            remove(self.place)

    def _markers(self) -> list[Path]:
        return [path.parent for path in self.place.rglob(".fusion/daemon.log")]

    def _workspaces(self) -> list[str]:
        return [path.name for path in self.place.glob("home/state/fusion/worktrees/*")]


def remove(place: Path) -> None:
    """Remove a tree whose directories may be read-only, as frozen versions are."""
    for directory, _, _ in os.walk(place):
        Path(directory).chmod(0o700)
    shutil.rmtree(place)


def state_of(root: Path) -> dict[str, FileState]:
    """Return everything in a checkout and its `.git`: mode, time of change, bytes. `.fusion` is left out."""
    found: dict[str, FileState] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name.split("/", maxsplit=1)[0] == ".fusion":
            continue
        facts = path.lstat()
        body = b""
        if stat.S_ISLNK(facts.st_mode):
            body = os.fsencode(path.readlink())
        elif stat.S_ISREG(facts.st_mode):
            body = path.read_bytes()
        found[name] = (facts.st_mode, facts.st_mtime_ns, body)
    return found


def run_id(text: str) -> str:
    """Return the run's id that a text names."""
    match = re.search(r"\b[0-9a-hjkmnp-tv-z]{13}\b", text)
    assert match is not None, f"no run in {text!r}"
    return match[0]
