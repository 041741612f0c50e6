"""The ground on which a crash is tried: one repository, one workspace, its daemons.

Owns making it, starting daemons with or without a plan to die, and looking at
what is left. What must hold afterwards is `aftermath`.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fusiond.client.autostart import start_daemon
from fusiond.client.blocking import Connection, connect
from fusiond.client.discovery import Workspace, find_workspace
from fusiond.client.following import StepFollower
from fusiond.codec.packed import Plain
from fusiond.domain.errors import FusionError, UnreachableError
from fusiond.domain.version import PRODUCT_VERSION
from tests.crash.points import Plan
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
MORTAL = (sys.executable, "-P", "-m", "tests.crash.mortal_daemon")
BARE = (sys.executable, "-P", "-m", "tests.crash.bare_daemon")
IDENTITY = ("-c", "user.name=Test Author", "-c", "user.email=author@example.invalid")
KEY = "crash-harness-submit"
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Ground:
    """One try. `place` holds the repository, the state and the runtime directory."""

    place: Path

    @property
    def repository(self) -> Path:
        """Return the user's checkout."""
        return self.place / "repo"

    @property
    def workspace(self) -> Workspace:
        """Return the workspace in the checkout."""
        return find_workspace(str(self.repository))

    def environ(self, plan: Plan) -> dict[str, str]:
        """Return the environment of clients and daemons of this ground."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return {
            **inherited,
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.place / "home"),
            "XDG_STATE_HOME": str(self.place / "state"),
            "XDG_RUNTIME_DIR": str(self.place / "run"),
            **plan.environment(),
        }

    def start(self, plan: Plan, command: Sequence[str] = MORTAL) -> None:
        """Start a daemon that follows `plan`; it may die before it answers."""
        with contextlib.suppress(UnreachableError):
            start_daemon(self.workspace, self.environ(plan), product=PRODUCT_VERSION, command=command)

    def connect(self, plan: Plan) -> Connection:
        """Connect to the daemon that runs."""
        return connect(self.workspace, self.environ(plan), product=PRODUCT_VERSION)

    def submit(self, plan: Plan, flow: str, key: str = KEY, search_path: str = SEARCH_PATH) -> str | None:
        """Submit with the same key as before; None when the daemon died over it."""
        try:
            with self.connect(plan) as connection:
                asked = {"flow": str(self.repository / flow), "search_path": search_path}
                reply = connection.call("run.submit", asked, key=key)
        except UnreachableError:
            return None
        return str(reply["run"])

    def follow(self, plan: Plan, run: str) -> bool:
        """Follow a run; True when it ended, False when the daemon died."""

        def again() -> Connection:
            return self.connect(plan)

        try:
            for push in StepFollower(again, run=run, give_up_s=0.2):
                if _kind(push) == "run_finished":
                    return True
        except UnreachableError:
            return False
        raise AssertionError("a follower never ends by itself")

    def daemons(self) -> list[int]:
        """Return the processes that hold this ground's daemon lock."""
        marker = str(self.repository).encode()
        return [pid for pid in _pids() if _is_daemon(pid, marker)]

    def wait_dead(self) -> None:
        """Wait until no daemon of this ground is left."""
        wait_until(lambda: not self.daemons(), "end of the killed daemon")

    def stop(self, plan: Plan) -> None:
        """Stop the daemon in order, if one runs."""
        with contextlib.suppress(FusionError), self.connect(plan) as connection:
            connection.call("daemon.stop", {"drain": True})
        self.wait_dead()


def _kind(push: dict[str, Plain]) -> object:
    step = push.get("step")
    payload = step.get("payload") if isinstance(step, dict) else None
    return payload.get("kind") if isinstance(payload, dict) else None


def _pids() -> Iterator[int]:
    for name in os.listdir("/proc"):
        if name.isdecimal():
            yield int(name)


def _is_daemon(pid: int, marker: bytes) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return b"_daemon" in command and marker in command and state != "Z"


def make_ground(place: Path, example: Path) -> Ground:
    """Make a repository from an example's files, committed, with an empty workspace."""
    for name in ("home", "state", "run"):
        (place / name).mkdir(mode=0o700, parents=True)
    repository = place / "repo"
    shutil.copytree(example, repository)
    if example.name == "repo":
        # The examples keep their flows beside the repository that they are for.
        for flow in example.parent.glob("*.yaml"):
            shutil.copy(flow, repository)
    (repository / ".fusion").mkdir()
    (repository / ".fusion" / ".gitignore").write_text("*\n")
    for arguments in (("init", "-q", "-b", "main"), ("add", "-A"), (*IDENTITY, "commit", "-qm", "base")):
        subprocess.run(["git", *arguments], cwd=repository, check=True)
    return Ground(place)
