"""The daemon as a process: started once, found, stopped in order, and telling what went wrong."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from fusiond.client.autostart import connect_or_start, start_daemon
from fusiond.client.blocking import Connection, check_daemon, connect, new_key
from fusiond.client.discovery import Workspace, read_hint, runtime_path
from fusiond.client.following import StepFollower
from fusiond.domain.errors import RefusedError, TryAgainError, UnreachableError, UnsupportedError
from tests.arch.source_tree import ROOT
from tests.fakes.daemon_parts import new_workspace
from tests.fakes.daemon_program import FAULT
from tests.waiting import wait_until

COMMAND = (sys.executable, "-P", "-m", "tests.fakes.daemon_program")


@dataclass
class Site:
    """A workspace and the environment of everybody who works in it."""

    workspace: Workspace
    environ: dict[str, str]

    def open(self) -> Connection:
        """Connect, starting the daemon when none runs."""
        return connect_or_start(self.workspace, self.environ, product="0.1.0", command=COMMAND)

    def connect(self) -> Connection:
        """Connect to the daemon that runs."""
        return connect(self.workspace, self.environ, product="0.1.0")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the daemon's program to its end."""
        return subprocess.run(
            [*COMMAND, *arguments, "--workspace", self.workspace.root],
            env=self.environ,
            check=False,
            capture_output=True,
            text=True,
            cwd="/",
        )

    def pid(self) -> int | None:
        """Return the pid that the lock file tells."""
        pid = read_hint(self.workspace).get("pid")
        return None if pid is None else int(pid)

    def log(self) -> list[dict[str, object]]:
        """Return the lines of the daemon's log."""
        return [
            json.loads(line) for line in Path(self.workspace.marker, "daemon.log").read_text().splitlines()
        ]

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Signal the daemon, wait until it is gone, and return what its pid was."""
        pid = self.pid()
        assert pid is not None
        assert is_fake_daemon(pid)
        os.kill(pid, number)
        wait_until(lambda: not is_alive(pid), "end of the daemon")
        return pid


def is_fake_daemon(pid: int) -> bool:
    """Say whether a pid from a lock file, which is only a hint, is a process of these tests."""
    try:
        return COMMAND[-1].encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def is_alive(pid: int) -> bool:
    """Say whether a process runs. A detached daemon's parent is init, so it leaves no zombie for long."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return fields.rpartition(")")[2].split()[0] != "Z"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A workspace whose daemon, if any, is killed at the end."""
    workspace = new_workspace(tmp_path)
    made = Site(workspace, {**os.environ, "PYTHONPATH": str(ROOT)})
    yield made
    pid = made.pid()
    if pid is not None and is_fake_daemon(pid):
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(pid), "end of the daemon")


def submit(connection: Connection, steps: int) -> None:
    """Let the daemon append steps."""
    connection.call("run.submit", {"flow": f"steps:{steps}"}, key=new_key())


def test_client_starts_the_daemon_and_the_next_one_finds_it(site: Site) -> None:
    with site.open() as first:
        assert first.welcome["path"] == site.workspace.root
        status = first.call("daemon.status", {})
        assert status["pid"] == first.daemon_pid == site.pid()
        assert status["facts"] == [["fake", "yes"]]
        assert (status["connections"], status["draining"]) == (1, False)
    with site.open() as second:
        assert second.daemon_pid == first.daemon_pid


def test_daemon_belongs_to_nobodys_terminal_directory_or_descriptors(site: Site) -> None:
    ours, theirs = os.pipe()
    os.set_inheritable(theirs, True)
    done = subprocess.run(
        [*COMMAND, "--detach", "--workspace", site.workspace.root],
        env=site.environ,
        check=True,
        cwd=site.workspace.root,
        pass_fds=[theirs],
    )
    os.close(theirs)
    assert done.returncode == 0
    # Would wait for ever if the daemon held the other end.
    assert os.read(ours, 1) == b""
    os.close(ours)
    pid = site.pid()
    assert pid is not None
    assert os.getsid(pid) != os.getsid(0)
    assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
    assert Path(f"/proc/{pid}/fd/0").readlink() == Path("/dev/null")
    assert Path(f"/proc/{pid}/fd/2").readlink() == Path(site.workspace.marker, "daemon.stderr")


def test_files_it_makes_are_for_its_user_alone(site: Site) -> None:
    site.open().close()
    marker = Path(site.workspace.marker)
    for path in [*marker.iterdir(), Path(runtime_path(site.workspace, site.environ), "control.sock")]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_many_clients_at_once_start_one_daemon(site: Site) -> None:
    with ThreadPoolExecutor(8) as threads:
        connections = list(threads.map(lambda _: site.open(), range(8)))
    assert len({each.daemon_pid for each in connections}) == 1
    for each in connections:
        each.close()
    assert [line["message"] for line in site.log()].count("ready") == 1


def test_of_daemons_started_at_once_one_wins_and_the_others_say_why(site: Site) -> None:
    with ThreadPoolExecutor(4) as threads:
        ended = list(threads.map(lambda _: site.run("--detach"), range(4)))
    assert sorted(each.returncode for each in ended) == [0, 75, 75, 75]
    for loser in ended:
        if loser.returncode:
            assert loser.stderr.count("\n") == 1
            assert "another daemon" in loser.stderr
            assert site.workspace.root in loser.stderr
    with site.connect() as connection:
        assert connection.call("ping", {})


def test_starting_a_second_one_in_the_foreground_says_why(site: Site) -> None:
    site.open().close()
    done = site.run("--foreground")
    assert done.returncode == 75
    assert f"process {site.pid()}" in done.stderr
    with site.connect() as connection:
        assert connection.call("ping", {})


def test_asking_to_start_what_runs_starts_nothing(site: Site) -> None:
    assert start_daemon(site.workspace, site.environ, product="0.1.0", command=COMMAND)
    assert not start_daemon(site.workspace, site.environ, product="0.1.0", command=COMMAND)


def test_killed_daemon_is_replaced(site: Site) -> None:
    with site.open() as connection:
        submit(connection, 3)
    killed = site.end(signal.SIGKILL)
    assert Path(runtime_path(site.workspace, site.environ), "control.sock").is_socket()
    with pytest.raises(UnreachableError, match="no daemon is running"):
        site.connect()
    with site.open() as connection:
        assert connection.daemon_pid != killed
        assert connection.welcome["head"] == 3


def test_sigterm_ends_it_in_order(site: Site) -> None:
    connection = site.open()
    site.end()
    with pytest.raises(UnreachableError), connection:
        connection.call("ping", {})
    assert list(Path(runtime_path(site.workspace, site.environ)).iterdir()) == []
    assert site.pid() is None
    assert [line["message"] for line in site.log()][-2:] == ["stopping", "stopped"]
    assert site.log()[-1]["reason"] == "SIGTERM"


@pytest.mark.parametrize("drain", [True, False])
def test_asked_to_stop_it_answers_and_stops(site: Site, *, drain: bool) -> None:
    with site.open() as connection:
        pid = connection.daemon_pid
        assert connection.call("daemon.stop", {"drain": drain}) == {}
    wait_until(lambda: not is_alive(pid), "end of the daemon")
    assert f"asked by process {os.getpid()}" in str(site.log()[-1]["reason"])


def test_drain_that_takes_long_serves_readers_and_is_cut_by_the_second_signal(site: Site) -> None:
    site.environ[FAULT] = "slow"
    with site.open() as connection:
        pid = connection.daemon_pid
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: connection.call("daemon.status", {})["draining"], "draining")
        with pytest.raises(TryAgainError, match="stopping"):
            submit(connection, 1)
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not is_alive(pid), "end of the daemon")


def test_drain_is_bounded_by_configuration(site: Site) -> None:
    Path(site.workspace.marker, "config.toml").write_text("[daemon]\ndrain_seconds = 0\n")
    site.environ[FAULT] = "slow"
    site.open().close()
    site.end()


def test_removed_workspace_ends_the_daemon(site: Site) -> None:
    with site.open() as connection:
        pid = connection.daemon_pid
    Path(site.workspace.marker).rename(f"{site.workspace.root}/gone")
    wait_until(lambda: not is_alive(pid), "end of the daemon")


@pytest.mark.parametrize(
    "fault,code,said",
    [
        ("storage", "75", "the ledger's disk is full<U+001B>[2J; free some space"),
        ("crash", "70", "internal error; look into"),
        ("exit", "70", "ended without a word"),
    ],
)
def test_failed_start_is_told_to_the_client(site: Site, fault: str, code: str, said: str) -> None:
    site.environ[FAULT] = fault
    with pytest.raises(UnreachableError) as caught:
        site.open()
    assert said in caught.value.found
    assert caught.value.fields["exit_code"] == code
    del site.environ[FAULT]
    site.open().close()


def test_crash_at_start_leaves_its_trace(site: Site) -> None:
    site.environ[FAULT] = "crash"
    with pytest.raises(UnreachableError):
        site.open()
    assert "nobody foresaw this" in Path(site.workspace.marker, "daemon.stderr").read_text()


def test_wrong_configuration_is_told_with_file_and_key(site: Site) -> None:
    path = Path(site.workspace.marker, "config.toml")
    path.write_text("[daemon]\nparalel = 3\n")
    with pytest.raises(UnreachableError) as caught:
        site.open()
    assert f"{path}: unknown key 'daemon.paralel'" in caught.value.found


def test_runtime_directory_open_to_others_is_refused_by_both_sides(site: Site) -> None:
    site.environ["XDG_RUNTIME_DIR"] = f"{site.workspace.root}/run"
    place = Path(runtime_path(site.workspace, site.environ))
    place.mkdir(parents=True)
    place.chmod(0o777)
    with pytest.raises(RefusedError, match="mode 0777"):
        site.open()
    done = site.run("--detach")
    assert done.returncode == 70
    assert "chmod 700" in done.stderr


def test_runtime_path_longer_than_a_socket_address_works(site: Site, tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True, mode=0o700)
    site.environ["XDG_RUNTIME_DIR"] = str(deep)
    with site.open() as connection:
        assert connection.call("ping", {})


def test_client_of_another_environment_finds_the_daemon(site: Site, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    with site.open() as first:
        other = Site(site.workspace, {**site.environ, "XDG_RUNTIME_DIR": str(elsewhere)})
        with other.open() as second:
            assert second.daemon_pid == first.daemon_pid


def test_hint_to_another_workspaces_daemon_is_refused(site: Site, tmp_path: Path) -> None:
    victim = new_workspace(tmp_path / "victim")
    other = Site(victim, site.environ)
    with other.open():
        hint = f"runtime {runtime_path(victim, site.environ)}\n"
        Path(site.workspace.marker, "daemon.lock").write_text(hint)
        with pytest.raises(RefusedError, match="the daemon that answers is that of"):
            site.connect()
    other.end()


def test_module_in_the_workspace_is_not_loaded_in_place_of_ours(site: Site) -> None:
    for name in ("fusiond", "asyncio", "json"):
        Path(site.workspace.root, f"{name}.py").write_text("raise SystemExit('hijacked')\n")
    done = subprocess.run(
        [*COMMAND, "--detach", "--workspace", "."],
        env=site.environ,
        check=False,
        capture_output=True,
        text=True,
        cwd=site.workspace.root,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_daemon_of_another_protocol_is_said_with_a_cure(site: Site) -> None:
    with pytest.raises(UnsupportedError) as caught:
        check_daemon(2, site.workspace.root, site.workspace, 4711)
    assert "kill 4711" in caught.value.cure


def test_follower_sees_every_step_once_over_restarts(site: Site) -> None:
    with site.open() as connection:
        submit(connection, 10)
    follower = iter(StepFollower(site.open, epoch="epoch-1", position=4))
    seen: list[object] = []

    def follow_to(position: int) -> None:
        while seen[-1:] != [position]:
            push = next(follower)
            if push["kind"] == "step":
                seen.append(push["position"])

    follow_to(10)
    for number in (signal.SIGTERM, signal.SIGKILL):
        with site.open() as connection:
            submit(connection, 5)
        follow_to(10 if number is signal.SIGTERM else 15)
        site.end(number)
        with site.open() as connection:
            submit(connection, 2)
        follow_to(15 if number is signal.SIGTERM else 24)
    assert seen == list(range(5, 25))


def test_follower_gives_up_when_the_daemon_stays_away(site: Site) -> None:
    follower = iter(StepFollower(site.connect, give_up_s=0.1))
    with pytest.raises(UnreachableError):
        next(follower)


@pytest.mark.parametrize("arguments", [["--detach", "--foreground"], ["--colour"], ["extra"]])
def test_wrong_arguments_are_usage_errors(site: Site, arguments: list[str]) -> None:
    done = site.run(*arguments)
    assert done.returncode == 2
    assert "usage: fusiond" in done.stderr


def test_without_a_workspace_the_cure_is_said(site: Site) -> None:
    done = subprocess.run(
        [*COMMAND, "--workspace", "/"], env=site.environ, check=False, capture_output=True, text=True
    )
    assert done.returncode == 64
    assert "fusion init" in done.stderr
