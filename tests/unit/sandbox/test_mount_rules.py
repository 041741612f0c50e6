"""Which mounts may be made, and which are refused."""

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.domain.launch import Mount
from fusiond.sandbox.mount_rules import (
    Guarded,
    Source,
    exposes,
    is_real_directory,
    look,
    mount_problem,
    source_problem,
    target_problem,
)

GUARDED = Guarded(whole=("/users/me",), entirely=("/users/me/run",))


def mounts(*targets: str) -> tuple[Mount, ...]:
    """Return mounts of these targets."""
    return tuple(Mount(source="/s", target=target) for target in targets)


@pytest.mark.parametrize(
    "targets",
    [
        (),
        ("/attempt",),
        ("/fusion/inputs", "/fusion/outputs", "/attempt"),
        ("/attempt/.venv", "/attempt", "/attempt/node_modules"),
        ("/fusion/a/b", "/fusion/a/c"),
    ],
)
def test_targets_that_may_be(targets: tuple[str, ...]) -> None:
    assert target_problem(mounts(*targets)) is None


@pytest.mark.parametrize(
    "targets,told",
    [
        (("/",), "neither"),
        (("/usr/local",), "neither"),
        (("/users/me",), "neither"),
        (("/tmp",), "neither"),
        (("/fusion",), "neither"),
        (("/attempts",), "neither"),
        (("/fusion/launcher",), "neither"),
        (("/fusion/launcher/fusiond",), "neither"),
        (("attempt",), "neither"),
        (("/fusion/../usr",), "plain"),
        (("/fusion//x",), "plain"),
        (("/attempt/",), "plain"),
        (("/fusion/x\0y",), "plain"),
        (("/attempt/x",), "not mounted"),
        (("/attempt", "/attempt"), "twice"),
        (("/fusion/x", "/fusion/x/y"), "inside another"),
        (("/fusion/x/y", "/fusion/x"), "inside another"),
        (("/attempt", "/attempt/x", "/attempt/x/y"), "inside another"),
    ],
)
def test_targets_that_may_not(targets: tuple[str, ...], told: str) -> None:
    assert told in (target_problem(mounts(*targets)) or "")


@pytest.mark.parametrize(
    "real,shows",
    [
        ("/", True),
        ("/users", True),
        ("/users/me", True),
        ("/users/me/run", True),
        ("/users/me/run/ws/control.sock", True),
        ("/users/me/state/worktree", False),
        ("/users/me2", False),
        ("/users/me/running", False),
        ("/srv", False),
    ],
)
def test_what_shows_too_much(real: str, shows: bool) -> None:  # noqa: FBT001
    assert exposes(real, GUARDED) is shows


@given(st.lists(st.sampled_from(["a", "b", "users", "me", "run"]), max_size=5))
def test_nothing_that_holds_or_is_in_the_runtime_directory_is_shown(parts: list[str]) -> None:
    real = "/" + "/".join(parts)
    related = ("/users/me/run" + "/").startswith(real.rstrip("/") + "/") or (real + "/").startswith(
        "/users/me/run/"
    )
    assert exposes(real, GUARDED) or not related


def fault(mount: Mount, **facts: object) -> str:
    """Return what is wrong with a source of these facts."""
    known: dict[str, object] = {"real": "/srv/x", "directory": True, "mountable": True, **facts}
    real, directory, mountable = known["real"], bool(known["directory"]), bool(known["mountable"])
    assert real is None or isinstance(real, str)
    source = Source(mount=mount, real=real, directory=directory, mountable=mountable)
    return source_problem([source], GUARDED) or ""


def test_sources() -> None:
    mount, submount = Mount(source="/s", target="/fusion/x"), Mount(source="/s", target="/attempt/x")
    assert fault(mount) == ""
    assert fault(mount, directory=False) == ""
    assert "not there or is a link" in fault(mount, real=None)
    assert "neither" in fault(mount, directory=False, mountable=False)
    assert "hidden" in fault(mount, real="/users")
    assert "no directory" in fault(submount, directory=False)


def test_looking_at_sources(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))

    def seen(name: str) -> tuple[bool, bool, bool]:
        source = look(Mount(source=str(tmp_path / name), target="/fusion/x"))
        return source.real is not None, source.directory, source.mountable

    assert seen(".") == (True, True, True)
    assert seen("file") == (True, False, True)
    assert seen("socket") == (True, False, True)
    assert seen("fifo") == (True, False, False)
    assert seen("link") == (False, False, False)
    assert seen("nothing") == (False, False, False)
    assert look(Mount(source="relative", target="/fusion/x")).real is None
    assert look(Mount(source="/nul\0", target="/fusion/x")).real is None


def test_real_directories_have_no_link_on_the_way(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "file").write_text("")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "a" / "up").symlink_to("..")
    root = str(tmp_path)
    assert is_real_directory(root, "a/b")
    for path in ("link", "link/b", "a/up", "a/up/a/b", "a/file", "a/none", "none/b"):
        assert not is_real_directory(root, path), path


def test_looking_at_mount_points_leaves_no_descriptor_open(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in ("a/b", "a/none", "a/b/c/d"):
        is_real_directory(str(tmp_path), path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_whole_judgement(tmp_path: Path) -> None:
    tree, cache = tmp_path / "tree", tmp_path / "cache"
    (tree / "point").mkdir(parents=True)
    cache.mkdir()
    attempt = Mount(source=str(tree), target="/attempt", writable=True)
    good = (attempt, Mount(source=str(cache), target="/attempt/point"))
    bad = (attempt, Mount(source=str(cache), target="/attempt/other"))
    assert mount_problem(good, GUARDED) is None
    assert "not a real directory" in (mount_problem(bad, GUARDED) or "")
