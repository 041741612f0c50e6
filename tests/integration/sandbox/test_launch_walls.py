"""What stands between a command and the host: mounts, network, processes, descriptors."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusiond.domain.launch import LaunchEnd, Mount
from fusiond.sandbox.host import LauncherHost
from tests.integration.sandbox.launch_bench import LaunchBench


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    tree = tmp_path / "worktree"
    (tree / ".venv").mkdir(parents=True)
    (tree / "file").write_text("old\n")
    return tree


@pytest.fixture
def listener() -> Iterator[int]:
    """A port on loopback that this process holds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def connecting(host: LauncherHost, address: str, family: str = "AF_INET") -> tuple[str, ...]:
    """Return a command that prints whether an address can be connected to."""
    program = (
        f"import socket; s = socket.socket(socket.{family})\n"
        f"try:\n    s.connect({address}); print('reached')\n"
        "except OSError as error:\n    print('refused')\n"
    )
    return (str(host.python), "-I", "-S", "-c", program)


async def test_worktree_is_written_where_it_may_be(walled: LaunchBench, worktree: Path) -> None:
    mounts = (Mount(source=str(worktree), target="/attempt", writable=True),)
    outcome = await walled.run(walled.spec("pwd; echo new > file", mounts=mounts, cwd="/attempt"))
    assert outcome.log == b"/attempt\n"
    assert (worktree / "file").read_text() == "new\n"


async def test_read_only_mount_refuses_writes(walled: LaunchBench, worktree: Path) -> None:
    mounts = (Mount(source=str(worktree), target="/attempt"),)
    script = "cat file; (echo new > file) || (mkdir d) || (chmod 777 .) || (mount -o remount,rw /attempt) || exit 8"
    outcome = await walled.run(walled.spec(script, mounts=mounts, cwd="/attempt"))
    assert outcome.result.exit_code == 8
    assert outcome.log.startswith(b"old\n")
    assert (worktree / "file").read_text() == "old\n"


async def test_nothing_outside_the_mounts_can_be_written(walled: LaunchBench) -> None:
    places = "/ /usr /usr/bin /etc /run /var /fusion /fusion/launcher /bin /proc /home"
    script = f"for place in {places}; do (echo x > $place/planted) 2>/dev/null && echo $place; done"
    outcome = await walled.run(walled.spec(script))
    assert outcome.log == b""


async def test_kernel_settings_cannot_be_written(walled: LaunchBench) -> None:
    # Only asked, never tried: were the answer wrong, it would be this machine's setting.
    script = "find /proc/sys /proc/irq /proc/bus /proc/sysrq-trigger /proc/mtrr -writable 2>/dev/null"
    outcome = await walled.run(walled.spec(script))
    assert outcome.log == b""


async def test_setup_cache_inside_the_worktree_is_read_only(
    walled: LaunchBench, worktree: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "tool").write_text("cached\n")
    mounts = (
        Mount(source=str(cache), target="/attempt/.venv"),
        Mount(source=str(worktree), target="/attempt", writable=True),
    )
    script = "cat .venv/tool; (echo x > .venv/tool) || (rm -rf .venv; test -e .venv/tool) && echo safe; echo y > file"
    outcome = await walled.run(walled.spec(script + " 2>/dev/null", mounts=mounts, cwd="/attempt"))
    assert b"cached\n" in outcome.log
    assert outcome.log.endswith(b"safe\n")
    assert (cache / "tool").read_text() == "cached\n"
    assert (worktree / "file").read_text() == "y\n"


@pytest.mark.parametrize("planted", ["link", "link-on-the-way", "file", "nothing"])
async def test_mount_point_that_is_no_directory_is_refused(
    walled: LaunchBench, worktree: Path, tmp_path: Path, planted: str
) -> None:
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    match planted:
        case "link":
            (worktree / "point").mkdir()
            (worktree / "point" / "deep").symlink_to(outside / "deep")
        case "link-on-the-way":
            (worktree / "point").symlink_to(outside)
        case "file":
            (worktree / "point").mkdir()
            (worktree / "point" / "deep").write_text("")
    mounts = (
        Mount(source=str(worktree), target="/attempt", writable=True),
        Mount(source=str(outside), target="/attempt/point/deep"),
    )
    outcome = await walled.run(walled.spec("echo ran", mounts=mounts))
    assert outcome.result.end is LaunchEnd.SANDBOX_FAILURE
    assert "/attempt/point/deep" in outcome.result.detail
    assert outcome.log == b""


async def test_home_and_runtime_directory_are_invisible(walled: LaunchBench, fake_home: Path) -> None:
    script = f"cat {fake_home}/secret; ls {fake_home} {fake_home}/run; ls /home /mnt /srv /boot; ls /tmp"
    outcome = await walled.run(walled.spec(f"({script}) 2>/dev/null"))
    assert b"not for agents" not in outcome.log
    assert fake_home.name.encode() not in outcome.log


@pytest.mark.parametrize("relative", [".", "..", "run", "run/deeper"])
async def test_what_must_stay_hidden_cannot_be_mounted(
    walled: LaunchBench, fake_home: Path, relative: str
) -> None:
    (fake_home / "run" / "deeper").mkdir(exist_ok=True)
    mounts = (Mount(source=str((fake_home / relative).resolve()), target="/fusion/x"),)
    outcome = await walled.run(walled.spec("echo ran", mounts=mounts))
    assert outcome.result.end is LaunchEnd.SANDBOX_FAILURE
    assert "hidden" in outcome.result.detail


async def test_environment_of_the_launcher_is_empty_too(walled: LaunchBench) -> None:
    outcome = await walled.run(walled.spec("tr '\\0' '\\n' < /proc/1/environ; cat /proc/2/environ"))
    leaked = [line for line in outcome.log.splitlines() if line.startswith((b"PATH=", b"HOME=", b"USER="))]
    assert leaked == []


async def test_no_network_unless_asked_for(walled: LaunchBench, host: LauncherHost, listener: int) -> None:
    command = connecting(host, f"('127.0.0.1', {listener})")
    without = await walled.run(walled.spec(command))
    having = await walled.run(walled.spec(command, network=True))
    assert without.log == b"refused\n"
    assert having.log == b"reached\n"


async def test_abstract_sockets_of_the_host_are_out_of_reach(
    walled: LaunchBench, host: LauncherHost, tmp_path: Path
) -> None:
    name = f"\0fusion-test-{tmp_path}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        outcome = await walled.run(walled.spec(connecting(host, repr(name), "AF_UNIX")))
    assert outcome.log == b"refused\n"


async def test_loopback_of_its_own_works(walled: LaunchBench, host: LauncherHost) -> None:
    program = (
        "import socket\n"
        "server = socket.create_server((socket.gethostbyname('localhost'), 0))\n"
        "socket.create_connection(server.getsockname()); print('own')"
    )
    outcome = await walled.run(walled.spec((str(host.python), "-I", "-S", "-c", program)))
    assert outcome.log == b"own\n"


async def test_mounted_socket_can_be_reached_without_a_network(
    walled: LaunchBench, host: LauncherHost, tmp_path: Path
) -> None:
    place = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        server.listen()
        mounts = (Mount(source=str(place), target="/fusion/proxy"),)
        outcome = await walled.run(walled.spec(connecting(host, "'/fusion/proxy'", "AF_UNIX"), mounts=mounts))
    assert outcome.log == b"reached\n"


async def test_temporary_directory_is_private(walled: LaunchBench) -> None:
    first = await walled.run(walled.spec("echo x > /tmp/mine && echo x > /var/tmp/also; ls /tmp"))
    second = await walled.run(walled.spec("ls /tmp"))
    assert first.log == b"also\nmine\n"
    assert second.log == b""


async def test_processes_of_the_host_are_invisible(walled: LaunchBench) -> None:
    outcome = await walled.run(walled.spec("ls /proc | grep -c '^[0-9]'"))
    assert int(outcome.log) < 10


async def test_no_capabilities_and_no_new_privileges(walled: LaunchBench) -> None:
    outcome = await walled.run(walled.spec("grep -E '^(Cap|NoNew)' /proc/self/status"))
    facts = dict(line.split(":\t") for line in outcome.log.decode().splitlines())
    assert {value for name, value in facts.items() if name.startswith("Cap")} == {"0" * 16}
    assert facts["NoNewPrivs"] == "1"


async def test_no_user_namespaces_of_its_own(walled: LaunchBench, host: LauncherHost) -> None:
    program = "import ctypes; print(ctypes.CDLL(None).unshare(0x10000000))"
    outcome = await walled.run(walled.spec((str(host.python), "-I", "-S", "-c", program)))
    assert outcome.log == b"-1\n"


async def test_user_and_host_have_neutral_names(walled: LaunchBench) -> None:
    outcome = await walled.run(walled.spec("uname -n; id -un; cat /etc/passwd", env={"HOME": "/attempt"}))
    host_name, user, *accounts = outcome.log.decode().splitlines()
    assert (host_name, user) == ("fusion", "fusion")
    assert len(accounts) <= 3
    assert any(":/attempt:" in account for account in accounts)


async def test_terminal_of_the_daemon_is_not_there(walled: LaunchBench) -> None:
    outcome = await walled.run(walled.spec("(: < /dev/tty) 2>/dev/null && echo terminal; tty"))
    assert b"terminal" not in outcome.log


async def test_without_walls_a_mount_is_seen_where_it_is(bench: LaunchBench, worktree: Path) -> None:
    mounts = (Mount(source=str(worktree), target="/attempt", writable=True),)
    seen = bench.launcher.inside(str(worktree), "/attempt")
    outcome = await bench.run(bench.spec("cat file", mounts=mounts, cwd=seen))
    assert outcome.log == b"old\n"
