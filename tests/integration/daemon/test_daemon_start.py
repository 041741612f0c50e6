"""What a daemon needs to itself before it serves: lock, directory, socket, protection."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fusiond.client.discovery import Workspace, read_hint, runtime_path
from fusiond.client.private_dirs import make_private
from fusiond.daemon.lifecycle import (
    StopRequest,
    WorkspaceLock,
    refuse_network_filesystem,
    watch_workspace,
)
from fusiond.daemon.runtime_dir import bind_control_socket, make_runtime_directory, remove_control_socket
from fusiond.domain.errors import InvalidError, NotFoundError, RefusedError, StorageError, TryAgainError
from tests.arch.source_tree import ROOT
from tests.fakes.daemon_parts import new_workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A workspace without a daemon."""
    return new_workspace(tmp_path)


def test_lock_is_held_by_one_and_tells_who(workspace: Workspace) -> None:
    lock = WorkspaceLock.acquire(workspace)
    lock.tell("/run/here")
    assert read_hint(workspace) == {"pid": str(os.getpid()), "runtime": "/run/here"}
    with pytest.raises(TryAgainError, match=f"process {os.getpid()}") as caught:
        WorkspaceLock.acquire(workspace)
    assert "fusion daemon stop" in caught.value.cure
    lock.release()
    assert read_hint(workspace) == {}
    WorkspaceLock.acquire(workspace).release()


def test_lock_file_that_a_dead_daemon_left_is_no_lock(workspace: Workspace) -> None:
    Path(workspace.marker, "daemon.lock").write_text("pid 1\nruntime /nowhere\n")
    WorkspaceLock.acquire(workspace).release()


def test_sign_of_life_is_there_for_the_next_daemon(workspace: Workspace) -> None:
    path = Path(workspace.marker, "daemon.lock")
    path.touch()
    os.utime(path, (1, 1))
    lock = WorkspaceLock.acquire(workspace)
    assert lock.last_alive_us == 1_000_000
    lock.beat()
    assert path.stat().st_mtime_ns > 10**18
    lock.release()


def test_lock_behind_a_link_is_refused(workspace: Workspace, tmp_path: Path) -> None:
    Path(workspace.marker, "daemon.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError):
        WorkspaceLock.acquire(workspace)
    assert not (tmp_path / "elsewhere").exists()


def test_lock_knows_when_its_file_is_gone_or_another(workspace: Workspace) -> None:
    lock = WorkspaceLock.acquire(workspace)
    assert lock.still_there()
    path = Path(workspace.marker, "daemon.lock")
    path.unlink()
    assert not lock.still_there()
    path.touch()
    assert not lock.still_there()
    lock.release()


async def test_removed_workspace_asks_for_the_end_at_once(workspace: Workspace) -> None:
    lock, stop = WorkspaceLock.acquire(workspace), StopRequest()
    Path(workspace.marker).rename(f"{workspace.root}/moved")
    await watch_workspace(lock, stop, every_s=0.01)
    assert (stop.hurried, stop.reason) == (True, "the workspace was removed")
    lock.release()


async def test_asking_twice_for_the_end_is_asking_for_it_at_once() -> None:
    stop = StopRequest()
    stop.ask("SIGTERM", drain=True)
    assert (stop.asked, stop.hurried) == (True, False)
    stop.ask("SIGINT", drain=True)
    assert (stop.hurried, stop.reason) == (True, "SIGTERM")


def mountinfo(place: Path, kind: str) -> str:
    """Return a mount list in which the filesystem of `place` is of that kind."""
    device = place.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    return (
        "22 1 0:999 / /other rw shared:1 - nfs4 server:/x rw\n"
        f"36 35 {number} /part /mnt rw,noatime master:1 - {kind} server:/export rw\n"
    )


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "9p", "fuse.sshfs"])
def test_network_filesystem_is_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "mounts").write_text(mountinfo(tmp_path, kind))
    with pytest.raises(RefusedError, match=kind) as caught:
        refuse_network_filesystem(str(tmp_path), str(tmp_path / "mounts"))
    assert "local disk" in caught.value.cure


def test_local_or_unknown_filesystem_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "mounts").write_text(mountinfo(tmp_path, "ext4") + "\n\nnonsense\n - \n")
    refuse_network_filesystem(str(tmp_path), str(tmp_path / "mounts"))
    refuse_network_filesystem(str(tmp_path), str(tmp_path / "none"))
    refuse_network_filesystem(str(tmp_path))


@pytest.mark.parametrize("variable", ["XDG_RUNTIME_DIR", "XDG_STATE_HOME", "HOME"])
def test_runtime_directory_is_made_where_the_environment_says(
    workspace: Workspace, tmp_path: Path, variable: str
) -> None:
    base = tmp_path / "base"
    base.mkdir(mode=0o700)
    environ = {variable: str(base)}
    for _ in range(2):
        with make_runtime_directory(workspace, environ) as made:
            assert made.path == runtime_path(workspace, environ)
    place = Path(runtime_path(workspace, environ))
    assert place.stat().st_mode & 0o777 == 0o700
    assert place.parent.stat().st_mode & 0o777 == 0o700


def test_state_directory_of_other_things_keeps_its_mode(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "fusion").mkdir()
    (tmp_path / "fusion").chmod(0o755)
    make_runtime_directory(workspace, {"XDG_STATE_HOME": str(tmp_path)}).close()
    assert (tmp_path / "fusion").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "fusion" / "run").stat().st_mode & 0o777 == 0o700


def test_runtime_directory_that_others_can_write_is_refused(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "fusion").mkdir()
    (tmp_path / "fusion").chmod(0o777)
    with pytest.raises(RefusedError, match="mode 0777"):
        make_runtime_directory(workspace, {"XDG_RUNTIME_DIR": str(tmp_path)})


def test_runtime_directory_behind_a_link_is_refused(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "fusion").symlink_to("real")
    with pytest.raises(RefusedError, match="symbolic link"):
        make_runtime_directory(workspace, {"XDG_RUNTIME_DIR": str(tmp_path)})
    assert list((tmp_path / "real").iterdir()) == []


def test_runtime_directory_that_is_not_there_is_said(workspace: Workspace, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        make_runtime_directory(workspace, {"XDG_RUNTIME_DIR": f"{tmp_path}/none"})
    with pytest.raises(InvalidError):
        make_runtime_directory(workspace, {"XDG_RUNTIME_DIR": "relative"})


def test_socket_is_ours_alone_and_taken_back(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with make_private(str(tmp_path), ("d",)) as directory:
        bound = bind_control_socket(directory)
        assert (tmp_path / "d" / "control.sock").stat().st_mode & 0o777 == 0o600
        bound.close()
        remove_control_socket(directory)
        remove_control_socket(directory)
        assert list((tmp_path / "d").iterdir()) == []


def test_stale_socket_is_replaced(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with make_private(str(tmp_path), ("d",)) as directory:
        # Closed without being removed, as after a kill.
        bind_control_socket(directory).close()
        bound = bind_control_socket(directory)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(directory.socket_address("control.sock"))
        bound.close()


def test_socket_that_answers_is_left_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with make_private(str(tmp_path), ("d",)) as directory:
        other = bind_control_socket(directory)
        with pytest.raises(TryAgainError, match="another process answers"):
            bind_control_socket(directory)
        assert (tmp_path / "d" / "control.sock").is_socket()
        other.close()


@pytest.mark.parametrize("kind", ["file", "link", "directory"])
def test_what_is_no_socket_is_left_alone(tmp_path: Path, kind: str) -> None:
    tmp_path.chmod(0o700)
    with make_private(str(tmp_path), ("d",)) as directory:
        path = tmp_path / "d" / "control.sock"
        if kind == "file":
            path.write_text("precious")
        elif kind == "link":
            path.symlink_to("elsewhere")
        else:
            path.mkdir()
        with pytest.raises(RefusedError, match="no socket"):
            bind_control_socket(directory)
        assert path.is_symlink() or path.exists()


HARDENED = """
import os, resource
from fusiond.daemon.lifecycle import dumpable, harden
before = dumpable()
harden()
print(before, dumpable(), *resource.getrlimit(resource.RLIMIT_CORE), oct(os.umask(0)))
try:
    os.listdir("/proc/self/fd")
except PermissionError:
    print("own descriptors out of reach")
"""


def test_hardened_process_cannot_be_read_by_others() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HARDENED], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert done.stdout == "True False 0 0 0o77\n"
