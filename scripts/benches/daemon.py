"""Whole processes: an attempt of `true`, CLI start, subscribers, ping under load, recovery."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fusiond.client.autostart import start_daemon
from fusiond.client.blocking import Connection, connect, new_key
from fusiond.client.discovery import Workspace, find_workspace
from fusiond.client.following import StepFollower
from fusiond.codec.packed import Plain
from fusiond.domain.errors import NotFoundError, UnreachableError
from fusiond.domain.version import PRODUCT_VERSION
from scripts.benches.measuring import Figure, at_most, bounded, in_turn, pace, percentile

ROOT = Path(__file__).parents[2]
FILES = 1_000
PATH = "/usr/local/bin:/usr/bin:/bin"
IDENTITY = ("-c", "user.name=Bench", "-c", "user.email=bench@example.invalid")


class Site:
    """A repository of its own with a daemon of its own."""

    def __init__(self, place: Path, files: int) -> None:
        self.repository = place / "repo"
        self.environ = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "HOME": str(place / "home"),
            "XDG_STATE_HOME": str(place / "state"),
            "XDG_RUNTIME_DIR": str(place / "run"),
        }
        for name in ("home", "state", "run"):
            (place / name).mkdir(mode=0o700)
        self._make(files)

    def _make(self, files: int) -> None:
        for number in range(files):
            path = self.repository / f"d{number % 50}" / f"f{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"file {number}\n" * 20)
        (self.repository / ".fusion").mkdir(parents=True)
        (self.repository / ".fusion" / ".gitignore").write_text("*\n")
        for arguments in (("init", "-q", "-b", "main"), ("add", "-A"), (*IDENTITY, "commit", "-qm", "base")):
            subprocess.run(["git", *arguments], cwd=self.repository, check=True)

    @property
    def workspace(self) -> Workspace:
        """Return the workspace."""
        return find_workspace(str(self.repository))

    def flow(self, name: str, text: str) -> str:
        """Write a flow file outside of the repository; return its path."""
        path = self.repository.parent / f"{name}.yaml"
        path.write_text(text)
        return str(path)

    def start(self) -> None:
        """Start the daemon."""
        start_daemon(self.workspace, self.environ, product=PRODUCT_VERSION)

    def connect(self) -> Connection:
        """Connect to it."""
        return connect(self.workspace, self.environ, product=PRODUCT_VERSION)

    def run(self, flow: str) -> str:
        """Submit a flow and follow it to its end."""
        with self.connect() as connection:
            asked = {"flow": flow, "search_path": PATH}
            run = str(connection.call("run.submit", asked, key=new_key())["run"])
        self.follow(run)
        return run

    def follow(self, run: str) -> None:
        """Follow a run to its end."""
        for push in StepFollower(self.connect, run=run):
            if _kind(push) == "run_finished":
                return

    def pid(self) -> int:
        """Return the daemon's pid."""
        with self.connect() as connection:
            return connection.daemon_pid


def _kind(push: dict[str, Plain]) -> object:
    step = push.get("step")
    payload = step.get("payload") if isinstance(step, dict) else None
    return payload.get("kind") if isinstance(payload, dict) else None


@contextmanager
def site(files: int = 3) -> Iterator[Site]:
    """Make a site, start its daemon, stop both afterwards."""
    place = Path(tempfile.mkdtemp(prefix="fb-"))
    made = Site(place, files)
    made.start()
    try:
        yield made
    finally:
        with made.connect() as connection:
            connection.call("daemon.stop", {"drain": False})
        shutil.rmtree(place, ignore_errors=True)


TRUE = "flow: bench\nnodes:\n  only:\n    run: 'true'\n"


def attempt() -> list[Figure]:
    """Measure a whole run of one `true` over 1,000 files, beside checkout, spawn and a synced copy."""
    with site(FILES) as made:
        flow = made.flow("true", TRUE)
        made.run(flow)
        found = in_turn(
            {
                "floor": lambda: _bare_attempt(made),
                "candidate": lambda: _timed(lambda: made.run(flow)) * 1e3,
                "pace": pace,
            },
            own=lambda: (made.pid(),),
        )
    return [at_most("whole attempt of `true`, 1,000 files", "ms", 1.0, found, extra=150)]


def _bare_attempt(made: Site) -> float:
    """Do only what cannot be left out: check out, spawn, write a manifest durably."""
    target = made.repository.parent / f"bare-{time.monotonic_ns()}"
    target.mkdir()
    environ = {**made.environ, "GIT_INDEX_FILE": str(target / "index"), "GIT_WORK_TREE": str(target)}
    began = time.perf_counter()
    for arguments in (("read-tree", "HEAD"), ("checkout-index", "-a", "-q")):
        git = ["git", "--git-dir", str(made.repository / ".git"), *arguments]
        subprocess.run(git, cwd=target, env=environ, check=True)
    subprocess.run(["/bin/sh", "-c", "true"], cwd=target, check=True)
    with (target / "artifacts.json").open("wb") as stream:
        stream.write(b"{}")
        os.fsync(stream.fileno())
    return (time.perf_counter() - began) * 1e3


def _timed(work: object) -> float:
    assert callable(work)
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def cli() -> list[Figure]:
    """Measure `fusion --version` and `fusion ls` as whole processes."""
    with site() as made:
        made.run(made.flow("true", TRUE))
        figures = []
        for name, arguments, most in (
            ("fusion --version", ("--version",), 60.0),
            ("fusion ls", ("ls",), 110.0),
        ):
            command = [sys.executable, "-P", "-m", "fusiond.cli.main", *arguments]

            def burst(command: list[str] = command) -> float:
                began = time.perf_counter()
                for _ in range(5):
                    subprocess.run(
                        command, cwd=made.repository, env=made.environ, capture_output=True, check=True
                    )
                return (time.perf_counter() - began) / 5 * 1e3

            found = in_turn({"candidate": burst, "pace": pace}, own=lambda: (made.pid(),))
            figures.append(bounded(name, "ms", most, found))
    return figures


def subscriber() -> list[Figure]:
    """Measure how long after its commit a step reaches a subscriber, while runs go on."""
    with site() as made:
        flow = made.flow("true", TRUE)
        delays: list[float] = []
        ready = threading.Event()
        thread = threading.Thread(target=_listen, args=(made, delays, ready), daemon=True)
        thread.start()
        ready.wait()

        def burst() -> float:
            before = len(delays)
            for _ in range(10):
                made.run(flow)
            return percentile(delays[before:], 0.99)

        found = in_turn({"candidate": burst, "pace": pace}, own=lambda: (made.pid(),))
    return [bounded("step from commit to subscriber, p99", "ms", 20, found)]


def _listen(made: Site, delays: list[float], ready: threading.Event) -> None:
    with made.connect() as connection:
        position = connection.call("run.list", {"limit": 1})["position"]
    ready.set()
    assert isinstance(position, int)
    # It ends with the site it listens to.
    with suppress(NotFoundError, UnreachableError):
        for push in StepFollower(made.connect, position=position):
            step = push.get("step")
            if isinstance(step, dict) and isinstance(step["at_us"], int):
                delays.append((time.time_ns() / 1e3 - step["at_us"]) / 1e3)


FLOOD = """\
flow: flood
limits: {attempts: 1, repair_reruns: 0}
nodes:
  flood:
    run: "true"
    gates: ["head -c 1073741824 /dev/zero", "head -c 3000000 /dev/zero | tr '\\\\0' a"]
"""


def ping_under_load() -> list[Figure]:
    """Measure `ping` while a gate writes 1 GiB."""
    with site() as made:
        flow = made.flow("flood", FLOOD)
        stop, taken = threading.Event(), list[float]()
        thread = threading.Thread(target=_ping, args=(made, stop, taken))
        thread.start()
        for _ in range(3):
            made.run(flow)
        stop.set()
        thread.join()
    value = percentile(taken, 0.99)
    return [
        Figure(
            name="ping under 1 GiB of gate output, p99",
            unit="ms",
            value=value,
            floor=None,
            goal="<= 100 ms",
            met=value <= 100,
            repetitions=len(taken),
            spread=(min(taken), max(taken)),
        )
    ]


def _ping(made: Site, stop: threading.Event, taken: list[float]) -> None:
    with made.connect() as connection:
        while not stop.is_set():
            taken.append(_timed(lambda: connection.call("ping", {})) * 1e3)


def recovery() -> list[Figure]:
    """Measure from the start after `kill -9` in a command to the next new step of the run."""
    found = in_turn({"candidate": _killed, "pace": pace})
    return [bounded("kill -9 in a command to the next new effect", "ms", 400, found)]


def _killed() -> float:
    with site() as made:
        return _recovered(made)


def _recovered(made: Site) -> float:
    flow = made.flow("slow", "flow: slow\nnodes:\n  only:\n    run: 'exec sleep 2'\n")
    with made.connect() as connection:
        asked = {"flow": flow, "search_path": PATH}
        run = str(connection.call("run.submit", asked, key=new_key())["run"])
    for push in StepFollower(made.connect, run=run):
        if _kind(push) == "tool_called":
            break
    os.kill(made.pid(), signal.SIGKILL)
    began = time.perf_counter()
    made.start()
    for push in StepFollower(made.connect, run=run):
        step = push.get("step")
        if isinstance(step, dict) and step.get("attempt") == 2:
            return (time.perf_counter() - began) * 1e3
    raise AssertionError("a follower never ends by itself")
