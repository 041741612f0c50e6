"""Staging and publishing on a real disk: layout, modes, durability, and who wins."""

import asyncio
import hashlib
import json
import os
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fusiond.domain.artifacts import CHANGES, ProblemCode, RecordedBy
from fusiond.domain.errors import ConflictError, StorageError
from fusiond.ports.snapshots import InjectedArtifact
from fusiond.snapshots.disk import MAX_SINGLE_SYNCS, Disk
from fusiond.snapshots.kernel import rename_exclusive, rename_plainly, sync_file_system
from tests.fakes.freezing import MIB, Attempt, attempt, codes, entry, frozen, output
from tests.waiting import eventually

ROOT = Path(__file__).parents[3]


@pytest.fixture
def ground(tmp_path: Path) -> Attempt:
    return Attempt(tmp_path)


def modes(place: Path) -> dict[str, int]:
    return {
        str(each.relative_to(place)): stat.S_IMODE(each.stat().st_mode) for each in [place, *place.rglob("*")]
    }


def test_a_version_has_the_specified_layout_and_can_only_be_read(ground: Attempt) -> None:
    ground.put("a.txt", "one")
    ground.put("bin/tool", "#!/bin/sh\n").chmod(0o750)
    ground.freeze(ground.request())
    version = ground.version()
    assert modes(version) == {
        ".": 0o555,
        "artifacts.json": 0o444,
        "result.md": 0o444,
        "outputs": 0o555,
        "outputs/a.txt": 0o444,
        "outputs/bin": 0o555,
        "outputs/bin/tool": 0o555,
    }
    assert (version / "outputs/a.txt").read_text() == "one"
    assert ground.leftovers()[0] == ".staging"
    assert not [*(ground.stages / ".staging").iterdir()]


def test_the_process_mask_has_no_say(ground: Attempt) -> None:
    ground.put("a.txt")
    ground.put("b.txt")
    before = os.umask(0o077)
    try:
        ground.freeze(ground.request())
    finally:
        os.umask(before)
    version = modes(ground.version())
    assert (version["outputs/a.txt"], version["outputs/b.txt"], version["result.md"]) == (0o444,) * 3


def test_the_frozen_manifest_says_what_was_really_found(ground: Attempt) -> None:
    ground.put("plan.md", "# Plan")
    ground.put("more.bin", b"\0")
    ground.tell([entry("plan.md", b"# Plan", "plan", "text/markdown"), entry("more.bin", b"\0")])
    contract = (output("plan", "plan.md", media_type="text/markdown"),)
    staged = ground.freeze(ground.request(contract, supervised=False))
    data = (ground.version() / "artifacts.json").read_bytes()
    assert hashlib.sha256(data).hexdigest() == staged.manifest
    assert json.loads(data) == {
        "artifacts": [
            entry("more.bin", b"\0"),
            entry("plan.md", b"# Plan", "plan", "text/markdown"),
        ],
        "recorded_by": "agent",
    }
    summary = (ground.version() / "result.md").read_bytes()
    assert summary == b"Done."
    assert hashlib.sha256(summary).hexdigest() == staged.summary
    assert staged.recorded_by is RecordedBy.AGENT


def test_the_supervisor_writes_what_a_command_did_not(ground: Attempt) -> None:
    ground.put("changelog.md", "- one")
    ground.put("scratch.tmp", "never frozen")
    contract = (output("changelog", "changelog.md"), output("logs", collect="logs/*", optional=True))
    staged = ground.freeze(ground.request(contract))
    assert staged.recorded_by is RecordedBy.SUPERVISOR
    assert [(each.output, each.path, each.media_type) for each in staged.artifacts] == [
        ("changelog", "changelog.md", "text/markdown")
    ]
    assert b"recorded_by: supervisor" in (ground.version() / "result.md").read_bytes()
    assert json.loads((ground.version() / "artifacts.json").read_bytes())["recorded_by"] == "supervisor"
    assert not (ground.version() / "outputs/scratch.tmp").exists()


def test_a_commands_own_manifest_wins(ground: Attempt) -> None:
    ground.put("a.txt", "a")
    ground.put("b.txt", "b")
    ground.tell([entry("b.txt", b"b", media_type="text/plain")], summary=None)
    staged = ground.freeze(ground.request((output("a", "c.txt", optional=True),)))
    assert [each.path for each in staged.artifacts] == ["b.txt"]
    assert staged.recorded_by is RecordedBy.AGENT


def test_a_commands_own_manifest_is_judged_like_an_agents(ground: Attempt) -> None:
    ground.put("a.txt", "a")
    ground.tell([entry("a.txt", b"other", "files")])
    assert codes(ground.check(ground.request())) == [
        (ProblemCode.SIZE_MISMATCH, "a.txt"),
        (ProblemCode.DIGEST_MISMATCH, "a.txt"),
    ]


def test_an_agent_must_write_both_itself(ground: Attempt) -> None:
    ground.put("a.txt")
    found = ground.check(ground.request(supervised=False))
    assert codes(found) == [
        (ProblemCode.MANIFEST_MISSING, "artifacts.json"),
        (ProblemCode.SUMMARY_MISSING, "result.md"),
    ]


def test_a_node_that_declares_nothing_may_have_produced_nothing(ground: Attempt) -> None:
    ground.tell([])
    assert ground.check(ground.request((), supervised=False)).problems == ()
    assert ground.check(ground.request((output("x", "x", optional=True),), supervised=False)).problems != ()
    assert ground.freeze(ground.request(())).artifacts == ()


def test_what_the_supervisor_injects_is_frozen_and_left_out_of_the_outputs_digest(ground: Attempt) -> None:
    patch = ground.place / "work.patch"
    patch.write_bytes(b"diff " * 100_000)
    injected = InjectedArtifact(
        output=CHANGES, path="changes.patch", media_type="text/x-diff", source=str(patch)
    )
    ground.put("a.txt")
    plain = ground.check(ground.request())
    staged = ground.freeze(ground.request(injected=[injected]))
    assert staged.outputs == plain.outputs
    change = frozen(staged, "changes.patch")
    assert (change.output, change.size, change.media_type) == (CHANGES, 500_000, "text/x-diff")
    assert (ground.version() / "outputs/changes.patch").read_bytes() == patch.read_bytes()
    page = asyncio.run(ground.snapshots.page(attempt(), change, 300_000, 10))
    assert page.data == patch.read_bytes()[300_000:300_010]


def test_check_and_stage_agree_until_something_changes(ground: Attempt) -> None:
    ground.put("a.txt", "one")
    ground.put("d/b.json", "{}")
    first = ground.check(ground.request())
    assert ground.check(ground.request()).outputs == first.outputs
    assert ground.stage(ground.request()).outputs == first.outputs
    ground.put("a.txt", "two")
    assert ground.check(ground.request()).outputs != first.outputs
    ground.put("a.txt", "one")
    assert ground.stage(ground.request(number=2)).outputs == first.outputs
    ground.put("new.txt")
    assert ground.check(ground.request()).outputs != first.outputs


def test_a_later_change_of_the_source_does_not_reach_the_version(ground: Attempt) -> None:
    source = ground.put("a.txt", "one")
    ground.freeze(ground.request())
    source.write_text("two")
    source.unlink()
    assert (ground.version() / "outputs/a.txt").read_text() == "one"
    assert os.stat(ground.version() / "outputs/a.txt").st_nlink == 1


def test_a_version_is_never_replaced(ground: Attempt) -> None:
    ground.put("a.txt", "one")
    ground.freeze(ground.request())
    ground.put("a.txt", "two")
    with pytest.raises(ConflictError):
        ground.freeze(ground.request())
    assert (ground.version() / "outputs/a.txt").read_text() == "one"
    assert not [*(ground.stages / ".staging").iterdir()]


def test_dropping_leaves_nothing_and_may_be_repeated(ground: Attempt) -> None:
    ground.put("d/a.txt")
    staged = ground.stage(ground.request())
    assert Path(staged.place).is_dir()
    asyncio.run(ground.snapshots.drop(staged))
    asyncio.run(ground.snapshots.drop(staged))
    assert ground.leftovers() == [".staging"]


def test_dropping_after_publishing_does_not_touch_the_version(ground: Attempt) -> None:
    ground.put("a.txt")
    staged = ground.freeze(ground.request())
    asyncio.run(ground.snapshots.drop(staged))
    assert (ground.version() / "outputs/a.txt").exists()


@pytest.mark.parametrize("rename", [rename_exclusive, rename_plainly])
class TestRenaming:
    def test_to_a_free_name(self, tmp_path: Path, rename: Callable[[str, str], None]) -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "a/x").touch()
        rename(str(tmp_path / "a"), str(tmp_path / "b"))
        assert (tmp_path / "b/x").exists()

    @pytest.mark.parametrize("taken", ["empty", "full", "file", "link", "dangling"])
    def test_never_over_anything(
        self, tmp_path: Path, rename: Callable[[str, str], None], taken: str
    ) -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "a/x").touch()
        (tmp_path / "empty").mkdir()
        (tmp_path / "full").mkdir()
        (tmp_path / "full/y").touch()
        (tmp_path / "file").touch()
        (tmp_path / "link").symlink_to(tmp_path / "empty")
        (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
        with pytest.raises(FileExistsError):
            rename(str(tmp_path / "a"), str(tmp_path / taken))
        assert (tmp_path / "a/x").exists()

    def test_other_failures_are_told_as_they_are(
        self, tmp_path: Path, rename: Callable[[str, str], None]
    ) -> None:
        with pytest.raises(FileNotFoundError):
            rename(str(tmp_path / "none"), str(tmp_path / "b"))


class Recorder:
    """A disk that notes in which order things become durable."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def disk(self) -> Disk:
        return Disk(fsync=self._fsync, sync_file_system=self._sync_file_system, rename_exclusive=self._rename)

    def _fsync(self, descriptor: int) -> None:
        self.calls.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        os.fsync(descriptor)

    def _sync_file_system(self, descriptor: int) -> bool:
        self.calls.append("<file system>")
        return sync_file_system(descriptor)

    def _rename(self, source: str, target: str) -> None:
        self.calls.append("<rename>")
        rename_exclusive(source, target)


def test_few_files_are_durable_one_by_one_before_the_rename(tmp_path: Path) -> None:
    recorder = Recorder()
    ground = Attempt(tmp_path, disk=recorder.disk())
    ground.put("d/a.txt")
    staged = ground.freeze(ground.request())
    renamed = recorder.calls.index("<rename>")
    before, after = recorder.calls[:renamed], recorder.calls[renamed + 1 :]
    assert before == [
        "artifacts.json",
        "result.md",
        "a.txt",
        "d",
        "outputs",
        Path(staged.place).name,
        ground.stages.name,
        ground.place.name,
    ]
    assert after == [ground.version().parent.name]


def test_many_files_are_durable_as_one_file_system_before_the_rename(tmp_path: Path) -> None:
    recorder = Recorder()
    ground = Attempt(tmp_path, disk=recorder.disk())
    for index in range(MAX_SINGLE_SYNCS + 1):
        ground.put(f"{index}")
    ground.freeze(ground.request())
    assert recorder.calls == [
        "<file system>",
        "<file system>",
        ground.stages.name,
        ground.place.name,
        "<rename>",
        ground.version().parent.name,
    ]


def test_without_a_call_for_file_systems_every_file_is_durable_for_itself(tmp_path: Path) -> None:
    synced: list[str] = []

    def fsync(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)

    ground = Attempt(tmp_path, disk=Disk(fsync=fsync, sync_file_system=lambda _: False))
    names = {f"{index}" for index in range(MAX_SINGLE_SYNCS + 1)}
    for name in names:
        ground.put(name)
    ground.freeze(ground.request())
    assert names < set(synced)


def test_a_freeze_that_nobody_waits_for_leaves_nothing(tmp_path: Path) -> None:
    started = threading.Event()

    def write(descriptor: int, data: bytes | memoryview) -> int:
        started.set()
        return os.write(descriptor, data)

    ground = Attempt(tmp_path, disk=Disk(write=write))
    for index in range(300):
        ground.put(f"{index}")

    async def cancelled() -> None:
        task = asyncio.create_task(ground.snapshots.stage(ground.request()))
        await eventually(started.is_set, "first write")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert ground.leftovers() == [".staging"]
    assert len(ground.freeze(ground.request()).artifacts) == 300


def test_our_own_broken_source_is_a_storage_error_and_leaves_nothing(ground: Attempt) -> None:
    injected = InjectedArtifact(
        output=CHANGES, path="changes.patch", media_type="text/x-diff", source=str(ground.place / "gone")
    )
    with pytest.raises(StorageError):
        ground.stage(ground.request(injected=[injected]))
    assert ground.leftovers() == [".staging"]


@pytest.mark.parametrize("size", [0, 1, 256 * 1024, 256 * 1024 + 1, MIB, 17 * MIB + 3])
def test_files_of_every_size_are_copied_whole(ground: Attempt, size: int) -> None:
    data = os.urandom(1024) * (size // 1024) + b"x" * (size % 1024)
    ground.put("a.bin", data)
    staged = ground.freeze(ground.request())
    artifact = frozen(staged, "a.bin")
    assert (artifact.size, artifact.digest) == (size, hashlib.sha256(data).hexdigest())
    assert (ground.version() / "outputs/a.bin").read_bytes() == data
    assert (artifact.chunks is None) == (size <= 256 * 1024)


AS_NOBODY = """
import asyncio, os, sys
from pathlib import Path
from tests.fakes.freezing import RUN, Attempt
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
ground = Attempt(Path(sys.argv[1]))
ground.put("d/e/a.txt", "one")
ground.freeze(ground.request())
asyncio.run(ground.snapshots.drop(ground.stage(ground.request(number=2))))
assert asyncio.run(ground.snapshots.sweep(frozenset({RUN}), frozenset())) != []
assert ground.leftovers() == [".staging"], ground.leftovers()
print("done as", os.getuid())
"""


def test_everything_works_without_being_root() -> None:
    """Read-only directories bind an ordinary user, not root."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o777)
        command = [sys.executable, "-c", AS_NOBODY, place]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("done as")


def test_the_whole_contract_of_the_flow_file_example(ground: Attempt) -> None:
    ground.put("plan.md", "# Plan")
    ground.put("notes/a.md", "a")
    ground.put("notes/b.md", "b")
    contract = (
        output("plan", "plan.md", media_type="text/markdown", max_size_bytes=256 * 1024),
        output("notes", collect="notes/*.md", optional=True),
    )
    staged = ground.freeze(ground.request(contract))
    assert [(each.output, each.path) for each in staged.artifacts] == [
        ("notes", "notes/a.md"),
        ("notes", "notes/b.md"),
        ("plan", "plan.md"),
    ]
