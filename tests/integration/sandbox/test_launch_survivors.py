"""Nothing outlives a launch: not its main process, not its launcher, not the daemon."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import fusiond
from fusiond.domain.launch import Isolation, LaunchEnd
from fusiond.sandbox.host import LauncherHost
from fusiond.sandbox.launcher import SandboxLauncher
from tests.integration.sandbox.launch_bench import SECOND_US, LaunchBench, alive, below, new_token
from tests.waiting import eventually, wait_until

DRIVER = Path(__file__).with_name("launch_driver.py")

# Children in the shell's own session, in a session of their own, without parent and without the
# marker, deaf to polite signals; then the given last words.
SCATTER = """
sleep {token} &
setsid sleep {token} &
(setsid env -i sleep {token} &) &
(trap '' TERM HUP INT; exec sleep {token}) &
setsid sh -c 'trap "" TERM; sleep {token} & sleep {token} & wait' &
until test "$(ps ax -o args= | grep -c '^sleep {token}')" -ge 6; do :; done
{then}
"""
SCATTERED = 6


def scatter(token: str, then: str) -> str:
    """Return a script that starts six sleepers in every way and then goes on with `then`."""
    return SCATTER.format(token=token, then=then)


async def test_survivors_are_ended_and_counted(bench: LaunchBench) -> None:
    token = new_token()
    outcome = await bench.run(bench.spec(scatter(token, "exit 9")))
    assert alive(token) == []
    assert outcome.result.exit_code == 9
    assert outcome.result.survivors >= SCATTERED


async def test_timeout_reaches_every_descendant(bench: LaunchBench) -> None:
    token = new_token()
    spec = bench.spec(scatter(token, f"sleep {token}"), timeout_us=SECOND_US, grace_us=SECOND_US // 10)
    outcome = await bench.run(spec)
    assert outcome.result.end is LaunchEnd.TIMED_OUT
    assert alive(token) == []


async def test_forking_without_end_is_ended(bench: LaunchBench) -> None:
    token = new_token()
    script = f"chain() {{ (chain {token}) & sleep 0.001; }}; chain; sleep 0.1; exit 2"
    outcome = await bench.run(bench.spec(script))
    assert outcome.result.exit_code == 2
    assert alive(token) == []


async def test_zombies_are_no_survivors(bench: LaunchBench) -> None:
    outcome = await bench.run(bench.spec("for n in 1 2 3; do (true &) ; done; sleep 0.2; exit 0"))
    assert outcome.result.survivors == 0


@contextmanager
def driver(
    launcher: SandboxLauncher, place: Path, marker: str, script: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a launch in a process of its own, as a daemon would."""
    walls = "-"
    if launcher.isolation is Isolation.BUBBLEWRAP:
        assert launcher.walls is not None
        walls = launcher.walls.program
    root = str(Path(fusiond.__path__[0]).parent)
    command = [sys.executable, str(DRIVER), walls, str(place), marker, script]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": root}) as process:
        try:
            yield process
        finally:
            process.kill()


def test_nothing_outlives_a_killed_daemon(launcher: SandboxLauncher, tmp_path: Path) -> None:
    token = new_token()
    with driver(launcher, tmp_path, f"marker-{token}", scatter(token, f"sleep {token}")) as process:
        wait_until(lambda: len(alive(token)) > SCATTERED, "scattered processes")
        launched = below(process.pid)
        process.kill()
        process.wait()
    wait_until(lambda: not alive(token), "end of what a killed daemon had launched")
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in launched), "end of its launchers")


def launchers(marker: str) -> list[int]:
    """Return this test's launcher processes, outermost first."""
    found = []
    for pid in below(os.getpid()):
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"launcher_main.py" in arguments:
            found.append(pid)
    return found


@pytest.mark.parametrize("which", [0, 1, 2])
async def test_killed_launcher_frees_nothing(bench: LaunchBench, which: int) -> None:
    # Behind walls: bubblewrap, the namespace's first process, the launcher. Else: warden, launcher.
    token = new_token()
    launch = asyncio.create_task(bench.run(bench.spec(scatter(token, f"sleep {token}"))))
    await eventually(lambda: len(alive(token)) > SCATTERED, "scattered processes")
    line = launchers(bench.marker)
    os.kill(line[min(which, len(line) - 1)], signal.SIGKILL)
    outcome = await launch
    assert outcome.result.end is LaunchEnd.SANDBOX_FAILURE
    assert outcome.result.detail
    assert alive(token) == []


async def test_command_that_kills_its_launcher_frees_nothing(bench: LaunchBench) -> None:
    token = new_token()
    outcome = await bench.run(bench.spec(scatter(token, f"kill -KILL $PPID; exec sleep {token}")))
    assert outcome.result.end is LaunchEnd.SANDBOX_FAILURE
    assert alive(token) == []


async def test_ending_one_launch_spares_others_of_the_same_attempt(bench: LaunchBench) -> None:
    tokens, cancel = (new_token(), new_token()), asyncio.Event()
    first = asyncio.create_task(bench.run(bench.spec(f"sleep {tokens[0]}")))
    second = asyncio.create_task(bench.run(bench.spec(f"sleep {tokens[1]}"), cancel))
    await eventually(lambda: alive(tokens[0]) and alive(tokens[1]), "two commands")
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert alive(tokens[0]) == []
    assert alive(tokens[1]) != []
    cancel.set()
    assert (await second).result.end is LaunchEnd.CANCELLED


async def test_launcher_and_warden_killed_together_free_nothing(host: LauncherHost, tmp_path: Path) -> None:
    token = new_token()
    bench = LaunchBench(SandboxLauncher(host, None), tmp_path)
    launch = asyncio.create_task(bench.run(bench.spec(scatter(token, f"sleep {token}"))))
    await eventually(lambda: len(alive(token)) > SCATTERED, "scattered processes")
    marked = {pid for pid in alive(token) if marker_of(pid) == bench.marker}
    os.killpg(launchers(bench.marker)[0], signal.SIGKILL)
    try:
        outcome = await launch
        assert outcome.result.end is LaunchEnd.SANDBOX_FAILURE
        # What has cleared its environment is not found any more: the one gap without walls.
        assert marked
        assert marked.isdisjoint(alive(token))
    finally:
        for pid in alive(token):
            os.kill(pid, signal.SIGKILL)


async def test_careless_signals_do_not_reach_the_launcher(walled: LaunchBench) -> None:
    outcome = await walled.run(
        walled.spec("trap '' TERM HUP INT; kill -TERM -1; kill -HUP -1; kill -INT 2; exit 4")
    )
    assert outcome.result.exit_code == 4


async def test_stopped_launcher_is_ended_by_the_daemons_own_deadline(
    launcher: SandboxLauncher, host: LauncherHost, tmp_path: Path
) -> None:
    token = new_token()
    impatient = SandboxLauncher(host, launcher.walls, patience_s=0.2)
    bench = LaunchBench(impatient, tmp_path)
    spec = bench.spec(
        f"kill -STOP $PPID; exec sleep {token}", timeout_us=SECOND_US // 2, grace_us=SECOND_US // 10
    )
    outcome = await bench.run(spec)
    assert outcome.result.end is LaunchEnd.TIMED_OUT
    assert "launcher did not answer" in outcome.result.detail
    assert alive(token) == []


@pytest.fixture
def stray() -> Iterator[subprocess.Popen[bytes]]:
    """A process that an earlier daemon left: marked, in a session of its own, deaf to TERM."""
    token = new_token()
    environment = {"PATH": os.environ["PATH"], "FUSION_ATTEMPT": f"left-{token}.build.1"}
    command = ["sh", "-c", f"trap '' TERM; echo; sleep {token}; :"]
    with subprocess.Popen(
        command, env=environment, start_new_session=True, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its own session: the shell and its sleep


def marker_of(pid: int) -> str:
    """Return a process's FUSION_ATTEMPT, "" when it has none or is gone."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return next((item[15:].decode() for item in environment if item.startswith(b"FUSION_ATTEMPT=")), "")


async def test_leftovers_are_ended_by_their_marker(
    bench: LaunchBench, stray: subprocess.Popen[bytes]
) -> None:
    prefix = marker_of(stray.pid).removesuffix("build.1")
    token = prefix.removeprefix("left-").rstrip(".")
    await eventually(lambda: len(alive(token)) == 2, "sleeping stray")
    ended = await bench.launcher.end_leftovers(prefix)
    assert ended == 2
    assert alive(token) == []


async def test_other_markers_are_left_alone(bench: LaunchBench, stray: subprocess.Popen[bytes]) -> None:
    marker = marker_of(stray.pid)
    assert await bench.launcher.end_leftovers(marker + "0") == 0
    assert await bench.launcher.end_leftovers(marker[1:]) == 0
    assert stray.poll() is None
