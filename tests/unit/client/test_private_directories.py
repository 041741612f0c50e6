"""The rule for the directories in which client and daemon meet, on a real disk."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusiond.client.private_dirs import SOCKET_PATH_BYTES, make_private, open_private
from fusiond.domain.errors import InvalidError, NotFoundError, RefusedError, StorageError


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    """A directory of our own, closed to others."""
    tmp_path.chmod(0o700)
    yield tmp_path
    tmp_path.chmod(0o700)


def test_every_level_is_made_closed_to_others(base: Path) -> None:
    before = os.umask(0)
    try:
        with make_private(str(base), ("fusion", "0123456789ab")) as made:
            assert made.path == f"{base}/fusion/0123456789ab"
    finally:
        os.umask(before)
    assert (base / "fusion").stat().st_mode & 0o777 == 0o700
    assert (base / "fusion" / "0123456789ab").stat().st_mode & 0o777 == 0o700


def test_what_is_there_already_is_used(base: Path) -> None:
    for _ in range(2):
        make_private(str(base), ("fusion",)).close()
    open_private(f"{base}/fusion").close()


@pytest.mark.parametrize("mode", [0o777, 0o750, 0o701, 0o704])
def test_directory_open_to_others_is_refused_and_left_alone(base: Path, mode: int) -> None:
    (base / "fusion").mkdir()
    (base / "fusion").chmod(mode)
    with pytest.raises(RefusedError, match=f"mode {mode:04o}") as making:
        make_private(str(base), ("fusion", "x"))
    with pytest.raises(RefusedError, match=f"mode {mode:04o}") as opening:
        open_private(f"{base}/fusion")
    assert "chmod 700" in making.value.cure
    assert making.value.cure == opening.value.cure
    assert (base / "fusion").stat().st_mode & 0o777 == mode
    assert not (base / "fusion" / "x").exists()


def test_world_writable_base_is_refused(base: Path) -> None:
    base.chmod(0o777)
    with pytest.raises(RefusedError, match="writable for everybody"):
        make_private(str(base), ("fusion",))


def test_base_that_others_may_read_is_used(base: Path) -> None:
    base.chmod(0o755)
    make_private(str(base), ("fusion",)).close()


def test_symbolic_link_at_any_level_is_refused(base: Path) -> None:
    (base / "real").mkdir(mode=0o700)
    (base / "fusion").symlink_to("real")
    with pytest.raises(RefusedError, match="symbolic link"):
        make_private(str(base), ("fusion", "x"))
    with pytest.raises(RefusedError, match="symbolic link"):
        make_private(f"{base}/fusion", ("x",))
    with pytest.raises(RefusedError, match="symbolic link"):
        open_private(f"{base}/fusion")
    assert list((base / "real").iterdir()) == []


def test_file_in_its_place_is_refused(base: Path) -> None:
    (base / "fusion").touch()
    with pytest.raises(RefusedError, match="not a directory"):
        make_private(str(base), ("fusion",))


def test_missing_directories_are_said(base: Path) -> None:
    with pytest.raises(NotFoundError):
        open_private(f"{base}/none")
    with pytest.raises(NotFoundError):
        make_private(f"{base}/none", ("fusion",))


def test_name_that_no_disk_takes_is_said(base: Path) -> None:
    with pytest.raises(StorageError, match="cannot make"):
        make_private(str(base), ("x" * 300,))


def test_socket_works_however_long_the_path_is(base: Path) -> None:
    names = ["d" * 60] * 5
    with make_private(str(base), names) as deep, socket.socket(socket.AF_UNIX) as bound:
        assert len(deep.path) > SOCKET_PATH_BYTES
        bound.bind(deep.socket_address("control.sock"))
        bound.listen()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(deep.socket_address("control.sock"))
        assert Path(deep.path, "control.sock").is_socket()


def test_address_means_the_directory_that_was_judged(base: Path) -> None:
    with make_private(str(base), ("fusion",)) as judged, socket.socket(socket.AF_UNIX) as bound:
        (base / "fusion").rename(base / "moved")
        (base / "fusion").mkdir(mode=0o700)
        bound.bind(judged.socket_address("control.sock"))
    assert (base / "moved" / "control.sock").is_socket()
    assert not (base / "fusion" / "control.sock").exists()


def test_without_descriptor_links_a_long_path_is_refused_and_a_short_one_used(base: Path) -> None:
    nowhere = f"{base}/no-links"
    with make_private(str(base), ["d" * 60] * 2) as deep:
        with pytest.raises(InvalidError, match=f"{len(deep.path) + 2} bytes") as caught:
            deep.socket_address("s", own_descriptors=nowhere)
        assert "XDG_RUNTIME_DIR" in caught.value.cure
    runtime = os.environ["XDG_RUNTIME_DIR"]
    with make_private(runtime, ("short",)) as short:
        assert short.socket_address("s", own_descriptors=nowhere) == f"{runtime}/short/s"


def test_closing_twice_is_closing(base: Path) -> None:
    made = make_private(str(base), ("fusion",))
    made.close()
    made.close()
