"""What every launcher keeps to: the real ones, with and without walls, and the fake."""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from fusiond.domain.errors import InvalidError
from fusiond.domain.launch import Isolation, LaunchEnd, LaunchResult, LaunchSpec
from fusiond.ports.launcher import CancelSignal, Launcher
from fusiond.sandbox.host import LauncherHost, this_host
from fusiond.sandbox.launcher import SandboxLauncher
from fusiond.sandbox.probe import open_launcher
from tests.fakes.launcher import Act, FakeLauncher

SECOND_US = 1_000_000
MARKER = f"contract-{secrets.token_hex(8)}.node.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """What a process does: as a script for real ones, as an act for the fake."""

    script: str
    act: Act


HELLO = Behaviour(script="printf hello", act=Act(output=b"hello"))
FAILS = Behaviour(script="printf why >&2; exit 3", act=Act(output=b"why", exit_code=3))
DIES = Behaviour(script="kill -KILL $$", act=Act(signal=9))
LASTS = Behaviour(script="sleep 3600", act=Act(until_cancelled=True))
TOO_LONG = Behaviour(script="sleep 3600", act=Act(end=LaunchEnd.TIMED_OUT))
LEAVES_ONE = Behaviour(script="sleep 3600 & exit 0", act=Act(survivors=1))
WORDY = Behaviour(
    script="printf aaaa; printf bbbb; printf cccc; printf dddd", act=Act(output=b"aaaabbbbccccdddd")
)
BEHAVIOURS = [HELLO, FAILS, DIES, LASTS, TOO_LONG, LEAVES_ONE, WORDY]


def play(spec: LaunchSpec) -> Act:
    """Return the act for a script; the longest sleepers differ by their timeout."""
    if spec.argv[-1] == LASTS.script:
        return (TOO_LONG if spec.timeout_us <= SECOND_US else LASTS).act
    return next(each.act for each in BEHAVIOURS if each.script == spec.argv[-1])


def fake_with_walls(_host: LauncherHost) -> Launcher:
    return FakeLauncher(plays=play, isolation=Isolation.BUBBLEWRAP)


def fake_without_walls(_host: LauncherHost) -> Launcher:
    return FakeLauncher(plays=play, isolation=Isolation.SUBREAPER)


def real_with_walls(host: LauncherHost) -> Launcher:
    launcher, findings = asyncio.run(open_launcher(host))
    assert launcher.isolation is Isolation.BUBBLEWRAP, f"bubblewrap does not work here: {findings}"
    return launcher


def real_without_walls(host: LauncherHost) -> Launcher:
    return SandboxLauncher(host, None)


@pytest.fixture(
    scope="module", params=[fake_with_walls, fake_without_walls, real_with_walls, real_without_walls]
)
def launcher(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    home = tmp_path_factory.mktemp("home")
    (home / "run").mkdir()
    opener: Callable[[LauncherHost], Launcher] = request.param
    return opener(this_host(home, home / "run"))


def spec(
    place: Path, behaviour: Behaviour, *, timeout_us: int = 60 * SECOND_US, cap: int = 1 << 20
) -> LaunchSpec:
    """Return a spec of this behaviour that logs to `place`."""
    return LaunchSpec(
        argv=("/bin/sh", "-c", behaviour.script),
        cwd="/",
        env=(("PATH", "/usr/bin:/bin"),),
        mounts=(),
        network=False,
        timeout_us=timeout_us,
        log_path=str(place / "log"),
        marker=MARKER,
        output_cap_bytes=cap,
    )


async def run(launcher: Launcher, order: LaunchSpec, cancel: CancelSignal | None = None) -> LaunchResult:
    """Launch to the end; every result names the walls."""
    result = await launcher.launch(order, cancel or asyncio.Event())
    assert result.isolation is launcher.isolation
    return result


async def test_success_and_its_output(launcher: Launcher, tmp_path: Path) -> None:
    result = await run(launcher, spec(tmp_path, HELLO))
    assert (result.end, result.exit_code, result.signal) == (LaunchEnd.EXITED, 0, None)
    assert (result.output_bytes, result.hole, result.survivors) == (5, None, 0)
    assert (tmp_path / "log").read_bytes() == b"hello"


async def test_failure_is_a_value(launcher: Launcher, tmp_path: Path) -> None:
    result = await run(launcher, spec(tmp_path, FAILS))
    assert (result.end, result.exit_code) == (LaunchEnd.EXITED, 3)
    assert (tmp_path / "log").read_bytes() == b"why"


async def test_signal_is_no_exit_code(launcher: Launcher, tmp_path: Path) -> None:
    result = await run(launcher, spec(tmp_path, DIES))
    assert (result.end, result.exit_code, result.signal) == (LaunchEnd.SIGNALLED, None, 9)


async def test_timeout(launcher: Launcher, tmp_path: Path) -> None:
    result = await run(launcher, spec(tmp_path, TOO_LONG, timeout_us=SECOND_US // 10))
    assert (result.end, result.exit_code, result.signal) == (LaunchEnd.TIMED_OUT, None, None)


async def test_cancelled_while_it_runs(launcher: Launcher, tmp_path: Path) -> None:
    cancel = asyncio.Event()
    launch = asyncio.create_task(run(launcher, spec(tmp_path, LASTS), cancel))
    await asyncio.sleep(0)
    assert not launch.done()
    cancel.set()
    assert (await launch).end is LaunchEnd.CANCELLED


async def test_cancelled_before_it_runs(launcher: Launcher, tmp_path: Path) -> None:
    cancel = asyncio.Event()
    cancel.set()
    result = await run(launcher, spec(tmp_path, HELLO), cancel)
    assert (result.end, result.output_bytes) == (LaunchEnd.CANCELLED, 0)
    assert (tmp_path / "log").read_bytes() == b""


async def test_cancelled_call_raises(launcher: Launcher, tmp_path: Path) -> None:
    launch = asyncio.create_task(run(launcher, spec(tmp_path, LASTS)))
    await asyncio.sleep(0)
    launch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await launch


async def test_survivors_are_counted(launcher: Launcher, tmp_path: Path) -> None:
    result = await run(launcher, spec(tmp_path, LEAVES_ONE))
    assert (result.exit_code, result.survivors) == (0, 1)


async def test_output_past_the_cap_keeps_offsets(launcher: Launcher, tmp_path: Path) -> None:
    result = await run(launcher, spec(tmp_path, WORDY, cap=6))
    assert (result.output_bytes, result.hole) == (16, (3, 10))
    assert (tmp_path / "log").read_bytes() == b"aaa" + bytes(10) + b"ddd"


async def test_log_that_exists_is_kept(launcher: Launcher, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"old")
    result = await run(launcher, spec(tmp_path, HELLO))
    assert result.end is LaunchEnd.SANDBOX_FAILURE
    assert result.detail
    assert (tmp_path / "log").read_bytes() == b"old"


async def test_log_is_not_followed(launcher: Launcher, tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to(tmp_path / "target")
    result = await run(launcher, spec(tmp_path, HELLO))
    assert result.end is LaunchEnd.SANDBOX_FAILURE
    assert not (tmp_path / "target").exists()


async def test_launches_side_by_side(launcher: Launcher, tmp_path: Path) -> None:
    places = [tmp_path / "one", tmp_path / "two"]
    for place in places:
        place.mkdir()
    results = await asyncio.gather(
        run(launcher, spec(places[0], HELLO)), run(launcher, spec(places[1], FAILS))
    )
    assert [result.exit_code for result in results] == [0, 3]
    assert [(place / "log").read_bytes() for place in places] == [b"hello", b"why"]


def test_mounted_paths_are_named_as_they_are_seen(launcher: Launcher) -> None:
    walled = launcher.isolation is Isolation.BUBBLEWRAP
    assert launcher.inside("/host/tree", "/attempt") == ("/attempt" if walled else "/host/tree")


async def test_leftovers_need_a_prefix(launcher: Launcher) -> None:
    with pytest.raises(InvalidError):
        await launcher.end_leftovers("")


async def test_no_leftovers_of_an_unknown_marker(launcher: Launcher) -> None:
    assert await launcher.end_leftovers("no-such-marker.") == 0


async def test_fake_ends_the_leftovers_it_was_given() -> None:
    fake = FakeLauncher(leftovers=["run1.a.1", "run1.b.1", "run2.a.1"])
    assert await fake.end_leftovers("run1.") == 2
    assert await fake.end_leftovers("run1.") == 0
    assert fake.leftovers == ["run2.a.1"]
