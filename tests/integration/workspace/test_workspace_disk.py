"""Disk work below hostile directories: removing, sealing, stamps, loose objects."""

import os
import stat
import subprocess
import threading
import zlib
from pathlib import Path

import pytest

from fusiond.domain.errors import RefusedError, StorageError
from fusiond.workspace.disk.layout import Layout, read_stamp, storing, write_stamp
from fusiond.workspace.disk.removal import opened, remove_tree
from fusiond.workspace.disk.sealing import copy, seal
from fusiond.workspace.plumbing.loose import ChangedWhileReadError, LooseObjects
from fusiond.workspace.recording import Candidates, Reading
from tests.integration.workspace.repositories import git


class TestRemoval:
    def test_links_are_removed_and_not_followed(self, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "kept").write_text("kept")
        doomed = tmp_path / "doomed"
        (doomed / "a").mkdir(parents=True)
        (doomed / "a/link").symlink_to(outside)
        (doomed / "file").symlink_to(outside / "kept")
        os.link(outside / "kept", doomed / "hard")
        os.mkfifo(doomed / "pipe")
        remove_tree(str(doomed))
        assert os.listdir(tmp_path) == ["outside"]
        assert (outside / "kept").read_text() == "kept"
        (tmp_path / "doomed").symlink_to(outside)
        remove_tree(str(doomed))
        assert os.listdir(tmp_path) == ["outside"]
        assert os.listdir(outside) == ["kept"]

    def test_deeper_than_paths_reach(self, tmp_path: Path) -> None:
        doomed = tmp_path / "doomed"
        doomed.mkdir()
        fd = os.open(doomed, os.O_RDONLY)
        for _ in range(300):
            os.mkdir("d" * 20, dir_fd=fd)
            inner = os.open("d" * 20, os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = inner
        os.close(fd)
        remove_tree(str(doomed))
        assert os.listdir(tmp_path) == []

    def test_closed_directories_are_opened_for_it(self, tmp_path: Path) -> None:
        doomed = tmp_path / "doomed"
        (doomed / "a/b/c").mkdir(parents=True)
        (doomed / "a/b/file").write_text("x")
        for path in (doomed / "a/b", doomed / "a", doomed):
            path.chmod(0)
        remove_tree(str(doomed))
        assert os.listdir(tmp_path) == []

    def test_nothing_there_is_fine(self, tmp_path: Path) -> None:
        remove_tree(str(tmp_path / "nothing"))
        remove_tree(str(tmp_path / "no/parent"))

    def test_leftovers_of_an_interrupted_removal_are_in_nobodys_way(self, tmp_path: Path) -> None:
        (tmp_path / "doomed/a/x").mkdir(parents=True)
        (tmp_path / "doomed.1/kept").mkdir(parents=True)
        remove_tree(str(tmp_path / "doomed"))
        assert os.listdir(tmp_path) == ["doomed.1"]


class TestSealing:
    def test_a_copy_is_of_its_own(self, tmp_path: Path) -> None:
        (tmp_path / "a/in").mkdir(parents=True)
        (tmp_path / "a/in/run").write_text("x")
        (tmp_path / "a/in/run").chmod(0o700)
        (tmp_path / "a/link").symlink_to("/etc")
        with opened(str(tmp_path)) as fd:
            copy(fd, b"a", fd, b"b")
            seal(fd, b"b")
            seal(fd, b"b")
        assert stat.S_IMODE((tmp_path / "b/in/run").stat().st_mode) == 0o555
        assert stat.S_IMODE((tmp_path / "a/in/run").stat().st_mode) == 0o700
        assert (tmp_path / "b/link").readlink() == Path("/etc")

    def test_too_deep_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "/".join(["d"] * 250)).mkdir(parents=True)
        with opened(str(tmp_path)) as fd, pytest.raises(RefusedError, match="nested"):
            seal(fd, b"d")


class TestStamps:
    def test_facts_come_back(self, tmp_path: Path) -> None:
        facts = {"commit": "abc", "path.1": "with spaces", "empty": ""}
        write_stamp(str(tmp_path), facts)
        assert read_stamp(str(tmp_path)) == facts

    @pytest.mark.parametrize("text", ["", "fusion", "fusion 2\nx y\n"])
    def test_other_stamps_count_for_nothing(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "ready").write_text(text)
        assert read_stamp(str(tmp_path)) is None

    def test_what_the_system_refuses_is_said_plainly(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(StorageError) as caught, storing("the thing"):
            os.mkdir(tmp_path / "file/inner")
        assert "the thing cannot be written: Not a directory" in caught.value.found

    def test_directories_are_made_once_and_linked(self, tmp_path: Path) -> None:
        layout = Layout(root=str(tmp_path / "root"), worktrees=str(tmp_path / "state"))
        for _ in range(2):
            layout.create()
        assert (tmp_path / "root/.fusion/worktrees").readlink() == tmp_path / "state"
        assert (tmp_path / "root/.fusion/.gitignore").read_text().endswith("*\n")
        moved = Layout(root=layout.root, worktrees=str(tmp_path / "elsewhere"))
        moved.create()
        assert (tmp_path / "root/.fusion/worktrees").readlink() == tmp_path / "elsewhere"


class TestLooseObjects:
    @pytest.mark.parametrize("count", [3, 100])
    def test_git_reads_what_was_added(self, tmp_path: Path, count: int) -> None:
        git(tmp_path, "init", "--quiet", "--bare", ".")
        objects = LooseObjects(str(tmp_path / "objects"), "sha1")
        bodies = [b"", b"text\n", os.urandom(3 << 20), *(b"%d" % number for number in range(count - 3))]
        ids = []
        for number, body in enumerate(bodies):
            file = tmp_path / f"file{number}"
            file.write_bytes(body)
            with opened(str(file), os.O_RDONLY) as fd:
                ids.append(objects.add_file(fd, len(body)))
        assert not any((tmp_path / "objects" / each[:2]).exists() for each in ids)
        objects.publish()
        for object_id, body in zip(ids, bodies, strict=True):
            found = subprocess.run(
                ["git", "cat-file", "blob", object_id], cwd=tmp_path, capture_output=True, check=True
            )
            assert found.stdout == body
        assert not list((tmp_path / "objects").glob("tmp_*"))

    @pytest.mark.parametrize("size", [10, 3 << 20])
    @pytest.mark.parametrize("wrong", [-1, 1])
    def test_a_file_of_another_length_is_not_taken(self, tmp_path: Path, size: int, wrong: int) -> None:
        (tmp_path / "file").write_bytes(bytes(size))
        objects = LooseObjects(str(tmp_path), "sha1")
        with opened(str(tmp_path / "file"), os.O_RDONLY) as fd, pytest.raises(ChangedWhileReadError):
            objects.add_file(fd, size + wrong)
        objects.drop()
        assert os.listdir(tmp_path) == ["file"]


class TestReadingUnderARace:
    def test_what_a_swapped_link_points_to_is_never_stored(self, tmp_path: Path) -> None:
        """A process swaps a directory, and a file in another, with links while both are read."""
        secret = tmp_path / "secret"
        tree = tmp_path / "tree"
        objects = tmp_path / "objects"
        for each in (secret, tree / "real", tree / "files", objects):
            each.mkdir(parents=True)
        for each in (secret, tree / "real", tree / "files"):
            (each / "key").write_text(f"of {each.name}\n")
        os.symlink(secret, tree / "link")
        os.symlink(secret / "key", tree / "files/link")
        ended = threading.Event()
        swapping = threading.Thread(target=keep_swapping, args=(tree, ended))
        swapping.start()
        found = Candidates()
        loose = LooseObjects(str(objects), "sha1")
        try:
            with Reading(str(tree), loose, 1000) as reading:
                for _ in range(300):
                    reading.take(b"dir/key", found, tracked=True)
                    # Another parent in between, so that the first one is looked up again.
                    reading.take(b"files/key", found, tracked=True)
                loose.publish()
        finally:
            ended.set()
            swapping.join()
        stored = {zlib.decompress(each.read_bytes()).partition(b"\0")[2] for each in objects.glob("??/*")}
        assert stored <= {b"of real\n", b"of files\n", os.fsencode(secret / "key")}
        assert b"of real\n" in stored
        assert found.refused == []


def keep_swapping(tree: Path, ended: threading.Event) -> None:
    """Let `dir` be a directory and a link by turns, and `files/key` a file and a link."""
    while not ended.is_set():
        os.rename(tree / "real", tree / "dir")
        os.rename(tree / "files/key", tree / "files/kept")
        os.rename(tree / "files/link", tree / "files/key")
        os.rename(tree / "dir", tree / "real")
        os.rename(tree / "link", tree / "dir")
        os.rename(tree / "files/key", tree / "files/link")
        os.rename(tree / "files/kept", tree / "files/key")
        os.rename(tree / "dir", tree / "link")
