"""Frozen versions as inputs: places, identities, read-only copies, and what stops them."""

import asyncio
import json
import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fusiond.domain.artifacts import ArtifactKey, FrozenArtifact, artifact_id
from fusiond.domain.digest import digest_bytes
from fusiond.domain.errors import CorruptError, InvalidError, StorageError
from fusiond.domain.ids import AttemptNumber
from fusiond.domain.steps.attempt import LaidInput
from fusiond.snapshots.disk import Disk
from tests.fakes.freezing import NODE, RUN, Attempt

BIG = os.urandom(300_000)


@pytest.fixture
def ground(tmp_path: Path) -> Attempt:
    return Attempt(tmp_path)


@pytest.fixture
def artifacts(ground: Attempt) -> Sequence[FrozenArtifact]:
    ground.put("plan.md", "# Plan")
    ground.put("notes/a.md", "a")
    ground.put("notes/b.bin", BIG)
    ground.put("tool", "#!/bin/sh\n").chmod(0o755)
    return ground.freeze(ground.request()).artifacts


def laid(name: str, artifact: FrozenArtifact) -> LaidInput:
    return LaidInput(
        name=name,
        node=NODE,
        attempt=AttemptNumber(1),
        output=artifact.output,
        path=artifact.path,
        digest=artifact.digest,
    )


def lay(ground: Attempt, inputs: Sequence[LaidInput]) -> Path:
    target = ground.place / "inputs"
    asyncio.run(ground.snapshots.hand_over(RUN, inputs, str(target)))
    return target


def by_path(artifacts: Sequence[FrozenArtifact]) -> dict[str, FrozenArtifact]:
    return {each.path: each for each in artifacts}


def test_one_artifact_is_a_file_and_several_are_a_directory(
    ground: Attempt, artifacts: Sequence[FrozenArtifact]
) -> None:
    known = by_path(artifacts)
    notes = [laid("notes", known["notes/a.md"]), laid("notes", known["notes/b.bin"])]
    target = lay(ground, [laid("plan", known["plan.md"]), *notes, laid("tool", known["tool"])])
    assert (target / "plan").read_text() == "# Plan"
    assert (target / "notes/notes/a.md").read_text() == "a"
    assert (target / "notes/notes/b.bin").read_bytes() == BIG
    assert {
        str(each.relative_to(target)): stat.S_IMODE(each.stat().st_mode)
        for each in [target, *target.rglob("*")]
    } == {
        ".": 0o755,
        "inputs.json": 0o444,
        "notes": 0o555,
        "notes/notes": 0o555,
        "notes/notes/a.md": 0o444,
        "notes/notes/b.bin": 0o444,
        "plan": 0o444,
        "tool": 0o555,
    }


def test_identities_are_laid_beside_the_inputs(ground: Attempt, artifacts: Sequence[FrozenArtifact]) -> None:
    plan = by_path(artifacts)["plan.md"]
    target = lay(ground, [laid("plan", plan)])
    key = ArtifactKey(
        run=RUN, node=NODE, attempt=AttemptNumber(1), output=plan.output, path=plan.path, digest=plan.digest
    )
    assert json.loads((target / "inputs.json").read_bytes()) == {
        "inputs": [
            {
                "artifact": artifact_id(key),
                "attempt": 1,
                "file": "plan",
                "name": "plan",
                "node": "build",
                "output": "files",
                "path": "plan.md",
                "sha256": plan.digest,
                "size": 6,
            }
        ]
    }


def test_a_node_without_inputs_gets_an_empty_list(ground: Attempt) -> None:
    assert json.loads((lay(ground, []) / "inputs.json").read_bytes()) == {"inputs": []}


def test_copies_are_no_links(ground: Attempt, artifacts: Sequence[FrozenArtifact]) -> None:
    target = lay(ground, [laid("plan", by_path(artifacts)["plan.md"])])
    (target / "plan").chmod(0o644)
    (target / "plan").write_text("changed")
    assert (ground.version() / "outputs/plan.md").read_text() == "# Plan"


def test_laying_again_replaces_what_a_crash_or_an_attempt_left(
    ground: Attempt, artifacts: Sequence[FrozenArtifact]
) -> None:
    known = by_path(artifacts)
    outside = ground.place / "outside"
    outside.mkdir()
    (outside / "keep").touch()
    target = lay(ground, [laid("all", each) for each in artifacts])
    (target / "link").symlink_to(outside)
    (target / "half").write_text("made")
    target = lay(ground, [laid("plan", known["plan.md"])])
    assert sorted(each.name for each in target.iterdir()) == ["inputs.json", "plan"]
    assert (outside / "keep").exists()


def test_an_inputs_directory_that_is_a_link_is_not_followed(ground: Attempt) -> None:
    outside = ground.place / "outside"
    outside.mkdir()
    (outside / "keep").touch()
    (ground.place / "inputs").symlink_to(outside)
    with pytest.raises(StorageError):
        lay(ground, [])
    assert (outside / "keep").exists()


def test_a_digest_that_differs_stops_everything(ground: Attempt, artifacts: Sequence[FrozenArtifact]) -> None:
    plan = laid("plan", by_path(artifacts)["plan.md"])
    with pytest.raises(CorruptError, match=r"plan\.md"):
        lay(ground, [replace(plan, digest=digest_bytes(b"other"))])


@pytest.mark.parametrize("path", ["gone.md", "notes"])
def test_an_artifact_that_is_no_file_stops_everything(
    ground: Attempt, artifacts: Sequence[FrozenArtifact], path: str
) -> None:
    with pytest.raises(CorruptError, match=path):
        lay(ground, [replace(laid("plan", by_path(artifacts)["plan.md"]), path=path)])


def test_a_version_that_is_gone_stops_everything(
    ground: Attempt, artifacts: Sequence[FrozenArtifact]
) -> None:
    plan = laid("plan", by_path(artifacts)["plan.md"])
    with pytest.raises(CorruptError, match="its version is no file"):
        lay(ground, [replace(plan, attempt=AttemptNumber(2))])


@pytest.mark.parametrize(
    "name,path", [("../x", "plan.md"), ("inputs.json", "plan.md"), ("plan", "../plan.md")]
)
def test_names_that_were_never_judged_are_refused(ground: Attempt, name: str, path: str) -> None:
    bad = LaidInput(
        name=name, node=NODE, attempt=AttemptNumber(1), output=None, path=path, digest=digest_bytes(b"")
    )
    with pytest.raises(InvalidError):
        lay(ground, [bad])


def test_one_artifact_twice_under_one_name_is_refused(
    ground: Attempt, artifacts: Sequence[FrozenArtifact]
) -> None:
    plan = laid("plan", by_path(artifacts)["plan.md"])
    with pytest.raises(InvalidError, match="two inputs"):
        lay(ground, [plan, plan])


def test_a_full_disk_is_a_storage_error(tmp_path: Path) -> None:
    def write(descriptor: int, data: bytes | memoryview) -> int:
        raise OSError(28, "No space left on device")

    ground = Attempt(tmp_path)
    ground.put("plan.md", "# Plan")
    artifacts = ground.freeze(ground.request()).artifacts
    full = tmp_path / "full"
    full.mkdir()
    other = Attempt(full, stages=ground.stages, disk=Disk(write=write))
    with pytest.raises(StorageError) as caught:
        lay(other, [laid("plan", artifacts[0])])
    assert caught.value.fields["errno"] == "ENOSPC"
