"""What interrupted freezes leave, and that nothing else is removed."""

import asyncio
from pathlib import Path

import pytest

from fusiond.domain.ids import AttemptId, RunId
from fusiond.ports.snapshots import Staged
from fusiond.snapshots.store import FileSnapshots
from tests.fakes.freezing import NODE, OTHER_RUN, RUN, Attempt, attempt, tokens


@pytest.fixture
def ground(tmp_path: Path) -> Attempt:
    made = Attempt(tmp_path)
    made.put("d/a.txt")
    return made


def restarted(ground: Attempt) -> FileSnapshots:
    """Return the adapter of a daemon that has just started."""
    return FileSnapshots(ground.stages, token=tokens())


def sweep(snapshots: FileSnapshots, runs: set[RunId], frozen: set[AttemptId]) -> list[str]:
    return [*asyncio.run(snapshots.sweep(frozenset(runs), frozenset(frozen)))]


def freeze_many(ground: Attempt, numbers: list[int]) -> list[Staged]:
    return [ground.freeze(ground.request(number=number)) for number in numbers]


def test_staged_bytes_of_a_crash_are_removed(ground: Attempt) -> None:
    staged = ground.stage(ground.request())
    assert sweep(restarted(ground), set(), set()) == [f".staging/{Path(staged.place).name}"]
    assert ground.leftovers() == [".staging"]


def test_staged_bytes_of_a_freeze_that_is_going_on_are_kept(ground: Attempt) -> None:
    staged = ground.stage(ground.request())
    assert sweep(ground.snapshots, {RUN}, set()) == []
    asyncio.run(ground.snapshots.publish(staged))
    assert (ground.version() / "outputs/d/a.txt").exists()


def test_published_versions_that_no_step_names_are_removed(ground: Attempt) -> None:
    freeze_many(ground, [1, 2, 3])
    assert sweep(restarted(ground), {RUN}, {attempt(2)}) == [
        f"{RUN}.{NODE}/attempt-1",
        f"{RUN}.{NODE}/attempt-3",
    ]
    assert [each for each, _ in ground.layout.published({RUN})] == [attempt(2)]
    assert ground.freeze(ground.request(number=3)).artifacts != ()


def test_an_emptied_stage_goes_too(ground: Attempt) -> None:
    freeze_many(ground, [1])
    sweep(restarted(ground), {RUN}, set())
    assert ground.leftovers() == [".staging"]


def test_versions_of_runs_that_are_not_open_are_never_touched(ground: Attempt) -> None:
    freeze_many(ground, [1])
    assert sweep(restarted(ground), {OTHER_RUN}, set()) == []
    assert sweep(restarted(ground), set(), set()) == []
    assert (ground.version() / "outputs/d/a.txt").exists()


def test_what_is_not_ours_is_left_alone(ground: Attempt) -> None:
    freeze_many(ground, [1])
    stage = ground.version().parent
    (ground.stages / "notes.txt").write_text("mine")
    (stage / "attempt-1.old").mkdir()
    (stage / "attempt-7").symlink_to(ground.outputs)
    assert sweep(restarted(ground), {RUN}, set()) == [f"{RUN}.{NODE}/attempt-1"]
    assert (ground.stages / "notes.txt").exists()
    assert (stage / "attempt-1.old").exists()
    assert (ground.outputs / "d/a.txt").exists()


def test_links_in_leftovers_are_not_followed(ground: Attempt) -> None:
    staged = ground.stage(ground.request())
    (Path(staged.place) / "outputs/d/link").symlink_to(ground.outputs)
    (ground.stages / ".staging/link").symlink_to(ground.outputs)
    sweep(restarted(ground), set(), set())
    assert ground.leftovers() == [".staging"]
    assert (ground.outputs / "d/a.txt").exists()


def test_there_may_be_nothing_at_all(tmp_path: Path) -> None:
    assert sweep(FileSnapshots(tmp_path / "none", token=tokens()), {RUN}, set()) == []
