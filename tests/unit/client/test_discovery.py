"""Where a workspace is found, and where its daemon is looked for."""

import os
from pathlib import Path

import pytest

from fusiond.client.discovery import (
    Workspace,
    check_owner,
    find_workspace,
    hint_text,
    meeting_place,
    read_hint,
    runtime_base,
    runtime_path,
)
from fusiond.client.private_dirs import make_private
from fusiond.domain.errors import InvalidError, NotFoundError, RefusedError


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A workspace with nothing in it."""
    root = tmp_path.resolve() / "project"
    (root / ".fusion").mkdir(parents=True)
    return Workspace(str(root))


def test_it_is_found_upwards(workspace: Workspace) -> None:
    below = Path(workspace.root, "src", "deep")
    below.mkdir(parents=True)
    assert find_workspace(str(below)).root == workspace.root
    assert find_workspace(workspace.root).root == workspace.root


def test_the_nearest_one_counts(workspace: Workspace) -> None:
    inner = Path(workspace.root, "vendored")
    (inner / ".fusion").mkdir(parents=True)
    assert find_workspace(str(inner)).root == str(inner)


def test_it_is_its_real_path(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(workspace.root)
    assert find_workspace(str(tmp_path / "link")).root == workspace.root
    assert find_workspace(str(tmp_path / "link")).id == workspace.id


def test_without_one_the_cure_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError) as caught:
        find_workspace(str(tmp_path))
    assert "fusion init" in caught.value.cure


def test_a_marker_that_is_a_link_or_a_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".fusion").symlink_to("elsewhere")
    with pytest.raises(NotFoundError):
        find_workspace(str(tmp_path))
    (tmp_path / ".fusion").unlink()
    (tmp_path / ".fusion").touch()
    with pytest.raises(NotFoundError):
        find_workspace(str(tmp_path))


def test_workspace_of_another_user_is_refused(workspace: Workspace) -> None:
    with pytest.raises(RefusedError, match=f"belongs to user {os.geteuid() + 1}"):
        check_owner(workspace.root, os.geteuid() + 1)
    check_owner(workspace.root, os.geteuid())


def test_id_is_twelve_hex_digits_of_the_path() -> None:
    assert Workspace("/srv/project").id == "4f3f91f6b0b4"
    assert Workspace("/srv/project2").id != Workspace("/srv/project").id


def test_marker_of_the_root_directory() -> None:
    assert Workspace("/").marker == "/.fusion"


@pytest.mark.parametrize(
    "environ,base,names",
    [
        ({"XDG_RUNTIME_DIR": "/run/user/7", "HOME": "/h"}, "/run/user/7", ("fusion",)),
        ({"XDG_RUNTIME_DIR": "", "XDG_STATE_HOME": "/s/", "HOME": "/h"}, "/s", ("fusion", "run")),
        ({"HOME": "/h"}, "/h", (".local", "state", "fusion", "run")),
    ],
)
def test_runtime_directory_follows_the_environment(
    environ: dict[str, str], base: str, names: tuple[str, ...]
) -> None:
    assert runtime_base(environ) == (base, names)
    place = Workspace("/w")
    assert runtime_path(place, environ) == "/".join((base, *names, place.id))


@pytest.mark.parametrize(
    "environ", [{}, {"XDG_RUNTIME_DIR": "run"}, {"HOME": "~"}, {"XDG_RUNTIME_DIR": "/run\nruntime /x"}]
)
def test_environment_without_a_usable_place_is_refused(environ: dict[str, str]) -> None:
    with pytest.raises(InvalidError):
        runtime_base(environ)


def test_hint_of_a_running_daemon_comes_first(workspace: Workspace, tmp_path: Path) -> None:
    make_private(str(tmp_path), ("hinted",)).close()
    Path(workspace.marker, "daemon.lock").write_text(hint_text(4711, f"{tmp_path}/hinted"))
    assert read_hint(workspace) == {"pid": "4711", "runtime": f"{tmp_path}/hinted"}
    found = meeting_place(workspace, {"XDG_RUNTIME_DIR": f"{tmp_path}/run"})
    assert found is not None
    assert found.path == f"{tmp_path}/hinted"
    found.close()


@pytest.mark.parametrize("hint", ["", "nonsense", "runtime \n", "\xff\x00", "runtime /none\n"])
def test_hint_that_leads_nowhere_is_passed_over(workspace: Workspace, tmp_path: Path, hint: str) -> None:
    Path(workspace.marker, "daemon.lock").write_text(hint, encoding="latin-1")
    environ = {"XDG_RUNTIME_DIR": str(tmp_path)}
    tmp_path.chmod(0o700)
    assert meeting_place(workspace, environ) is None
    make_private(str(tmp_path), ("fusion", workspace.id)).close()
    found = meeting_place(workspace, environ)
    assert found is not None
    assert found.path == runtime_path(workspace, environ)
    found.close()


def test_hint_to_a_directory_open_to_others_is_passed_over(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    Path(workspace.marker, "daemon.lock").write_text(hint_text(1, f"{tmp_path}/open"))
    assert meeting_place(workspace, {"XDG_RUNTIME_DIR": str(tmp_path)}) is None


def test_hint_behind_a_link_is_not_read(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(hint_text(1, "/x"))
    Path(workspace.marker, "daemon.lock").symlink_to(tmp_path / "elsewhere")
    assert read_hint(workspace) == {}


def test_own_directory_open_to_others_is_refused(workspace: Workspace, tmp_path: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": str(tmp_path)}
    place = Path(runtime_path(workspace, environ))
    place.mkdir(parents=True)
    place.chmod(0o777)
    with pytest.raises(RefusedError):
        meeting_place(workspace, environ)
