"""What every adapter of the snapshots port keeps to: the real one and the fake."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fusiond.domain.artifacts import CHANGES, FrozenArtifact, ProblemCode, RecordedBy
from fusiond.domain.digest import digest_bytes
from fusiond.domain.errors import ConflictError, CorruptError, InvalidError
from fusiond.domain.ids import AttemptNumber
from fusiond.domain.steps.attempt import LaidInput
from fusiond.ports.snapshots import InjectedArtifact, Snapshots, Staged
from fusiond.snapshots.store import FileSnapshots
from tests.fakes.freezing import NODE, OTHER_RUN, RUN, Attempt, attempt, codes, entry, frozen, output, tokens
from tests.fakes.snapshots import FakeSnapshots

PLAN = output("plan", "plan.md")
NOTES = output("notes", collect="notes/*.md", optional=True)
CONTRACT = (PLAN, NOTES)

Make = Callable[[Path], Snapshots]


def real(stages: Path) -> Snapshots:
    return FileSnapshots(stages, token=tokens())


def fake(_stages: Path) -> Snapshots:
    return FakeSnapshots()


@pytest.fixture
def ground(tmp_path: Path) -> Attempt:
    made = Attempt(tmp_path)
    made.put("plan.md", "# Plan")
    return made


@pytest.fixture(params=[real, fake])
def snapshots(request: pytest.FixtureRequest, ground: Attempt) -> Snapshots:
    make: Make = request.param
    return make(ground.stages)


async def freeze(snapshots: Snapshots, ground: Attempt, number: int = 1) -> Staged:
    staged = await snapshots.stage(ground.request(CONTRACT, number=number))
    assert staged.problems == ()
    await snapshots.publish(staged)
    return staged


def laid(name: str, artifact: FrozenArtifact) -> LaidInput:
    return LaidInput(
        name=name,
        node=NODE,
        attempt=AttemptNumber(1),
        output=artifact.output,
        path=artifact.path,
        digest=artifact.digest,
    )


async def test_check_and_stage_find_the_same(snapshots: Snapshots, ground: Attempt) -> None:
    ground.put("notes/a.md")
    checked = await snapshots.check(ground.request(CONTRACT))
    staged = await snapshots.stage(ground.request(CONTRACT))
    assert (checked.problems, checked.outputs) == ((), staged.outputs)
    assert [(each.output, each.path) for each in staged.artifacts] == [
        ("notes", "notes/a.md"),
        ("plan", "plan.md"),
    ]
    assert frozen(staged, "plan.md").digest == digest_bytes(b"# Plan")


async def test_a_change_of_any_output_shows(snapshots: Snapshots, ground: Attempt) -> None:
    before = (await snapshots.check(ground.request(CONTRACT))).outputs
    ground.put("temporary.txt")
    assert (await snapshots.check(ground.request(CONTRACT))).outputs == before
    ground.put("plan.md", "# Plan B")
    assert (await snapshots.check(ground.request(CONTRACT))).outputs != before


async def test_the_supervisor_lists_what_it_found_and_never_the_contract(
    snapshots: Snapshots, ground: Attempt
) -> None:
    staged = await snapshots.stage(ground.request(CONTRACT))
    assert staged.recorded_by is RecordedBy.SUPERVISOR
    assert [each.path for each in staged.artifacts] == ["plan.md"]


async def test_a_nodes_own_manifest_wins(snapshots: Snapshots, ground: Attempt) -> None:
    ground.tell([entry("plan.md", b"# Plan", "plan", "text/markdown")])
    staged = await snapshots.stage(ground.request(CONTRACT))
    assert (staged.recorded_by, staged.problems) == (RecordedBy.AGENT, ())
    assert staged.summary == digest_bytes(b"Done.")


async def test_both_shapes_of_a_manifest_are_the_same(snapshots: Snapshots, ground: Attempt) -> None:
    entries = [entry("plan.md", b"# Plan!", "plan", "text/markdown"), entry("gone", b""), {"path": "plan.md"}]
    ground.tell(entries)
    canonical = await snapshots.check(ground.request(CONTRACT, supervised=False))
    (ground.report / "artifacts.json").write_text(json.dumps(entries))
    array = await snapshots.check(ground.request(CONTRACT, supervised=False))
    assert canonical == array
    assert {each.code for each in array.problems} >= {
        ProblemCode.MANIFEST_FIELD,
        ProblemCode.MANIFEST_DUPLICATE,
        ProblemCode.FILE_MISSING,
        ProblemCode.SIZE_MISMATCH,
        ProblemCode.DIGEST_MISMATCH,
    }


async def test_an_agent_that_wrote_neither_file(snapshots: Snapshots, ground: Attempt) -> None:
    found = await snapshots.check(ground.request(CONTRACT, supervised=False))
    assert {code for code, _ in codes(found)} == {ProblemCode.MANIFEST_MISSING, ProblemCode.SUMMARY_MISSING}


async def test_all_problems_come_at_once(snapshots: Snapshots, ground: Attempt) -> None:
    (ground.outputs / "plan.md").unlink()
    (ground.report / "result.md").write_text(" ")
    (ground.report / "artifacts.json").write_text("[]")
    found = await snapshots.stage(ground.request(CONTRACT, supervised=False))
    assert codes(found) == [
        (ProblemCode.MANIFEST_EMPTY, "artifacts.json"),
        (ProblemCode.SUMMARY_INVALID, "result.md"),
        (ProblemCode.OUTPUT_MISSING, "plan"),
    ]


async def test_what_is_injected_is_an_artifact_but_no_output(snapshots: Snapshots, ground: Attempt) -> None:
    source = ground.place / "patch"
    source.write_text("diff")
    injected = InjectedArtifact(
        output=CHANGES, path="changes.patch", media_type="text/x-diff", source=str(source)
    )
    plain = await snapshots.check(ground.request(CONTRACT))
    staged = await snapshots.stage(ground.request(CONTRACT, injected=[injected]))
    assert staged.outputs == plain.outputs
    await snapshots.publish(staged)
    change = frozen(staged, "changes.patch")
    assert (await snapshots.page(attempt(), change, 0, 100)).data == b"diff"


async def test_a_published_version_outlives_its_source(snapshots: Snapshots, ground: Attempt) -> None:
    staged = await freeze(snapshots, ground)
    ground.put("plan.md", "another")
    page = await snapshots.page(attempt(), frozen(staged, "plan.md"), 2, 3)
    assert (page.offset, page.total, page.data) == (2, 6, b"Pla")
    assert await snapshots.verify(attempt(), staged.artifacts) == []


async def test_a_version_is_never_replaced(snapshots: Snapshots, ground: Attempt) -> None:
    staged = await freeze(snapshots, ground)
    ground.put("plan.md", "another")
    again = await snapshots.stage(ground.request(CONTRACT))
    with pytest.raises(ConflictError):
        await snapshots.publish(again)
    assert (await snapshots.page(attempt(), frozen(staged, "plan.md"), 0, 100)).data == b"# Plan"


async def test_what_is_dropped_is_not_a_version(snapshots: Snapshots, ground: Attempt) -> None:
    staged = await snapshots.stage(ground.request(CONTRACT))
    await snapshots.drop(staged)
    await snapshots.drop(staged)
    with pytest.raises(CorruptError):
        await snapshots.page(attempt(), frozen(staged, "plan.md"), 0, 100)
    assert await snapshots.verify(attempt(), staged.artifacts) == ["plan.md"]
    await freeze(snapshots, ground)


async def test_pages_are_capped_and_end(snapshots: Snapshots, ground: Attempt) -> None:
    body = bytes(range(256)) * 2048
    ground.put("plan.md", body)
    artifact = frozen(await freeze(snapshots, ground), "plan.md")
    assert (await snapshots.page(attempt(), artifact, 0, 10**9)).data == body[: 256 * 1024]
    assert (await snapshots.page(attempt(), artifact, len(body) - 1, 10)).data == body[-1:]
    assert (await snapshots.page(attempt(), artifact, len(body) + 5, 10)).data == b""
    for offset, limit in [(-1, 10), (0, 0)]:
        with pytest.raises(InvalidError):
            await snapshots.page(attempt(), artifact, offset, limit)


async def test_a_forged_identity_reads_nothing(snapshots: Snapshots, ground: Attempt) -> None:
    artifact = frozen(await freeze(snapshots, ground), "plan.md")
    forged = replace(artifact, digest=digest_bytes(b"other"))
    with pytest.raises(CorruptError):
        await snapshots.page(attempt(), forged, 0, 1)
    assert await snapshots.verify(attempt(), [forged, artifact]) == ["plan.md"]


async def test_inputs_are_laid_by_name(snapshots: Snapshots, ground: Attempt) -> None:
    ground.put("notes/a.md", "a")
    ground.put("notes/b.md", "b")
    staged = await freeze(snapshots, ground)
    target = ground.place / "inputs"
    notes = [laid("notes", frozen(staged, f"notes/{name}.md")) for name in "ab"]
    await snapshots.hand_over(RUN, [laid("plan", frozen(staged, "plan.md")), *notes], str(target))
    assert (target / "plan").read_text() == "# Plan"
    assert (target / "notes/notes/b.md").read_text() == "b"
    listed = json.loads((target / "inputs.json").read_text())["inputs"]
    assert [(each["name"], each["file"], each["sha256"]) for each in listed] == [
        ("plan", "plan", digest_bytes(b"# Plan")),
        ("notes", "notes/notes/a.md", digest_bytes(b"a")),
        ("notes", "notes/notes/b.md", digest_bytes(b"b")),
    ]


async def test_an_input_that_may_be_several_is_a_directory_of_one(
    snapshots: Snapshots, ground: Attempt
) -> None:
    plan = laid("plans", frozen(await freeze(snapshots, ground), "plan.md"))
    target = ground.place / "inputs"
    await snapshots.hand_over(RUN, [replace(plan, many=True)], str(target))
    assert (target / "plans/plan.md").read_text() == "# Plan"


async def test_an_input_that_is_not_as_recorded_is_not_laid(snapshots: Snapshots, ground: Attempt) -> None:
    plan = laid("plan", frozen(await freeze(snapshots, ground), "plan.md"))
    for wrong in (replace(plan, digest=digest_bytes(b"x")), replace(plan, attempt=AttemptNumber(2))):
        with pytest.raises(CorruptError):
            await snapshots.hand_over(RUN, [wrong], str(ground.place / "inputs"))


async def test_sweeping_removes_versions_of_open_runs_that_nobody_recorded(
    snapshots: Snapshots, ground: Attempt
) -> None:
    first, second = await freeze(snapshots, ground, 1), await freeze(snapshots, ground, 2)
    assert await snapshots.sweep(frozenset({OTHER_RUN}), frozenset()) == []
    removed = await snapshots.sweep(frozenset({RUN}), frozenset({second.attempt}))
    assert removed == [f"{RUN}.{NODE}/attempt-1"]
    assert await snapshots.verify(first.attempt, first.artifacts) == ["plan.md"]
    assert await snapshots.verify(second.attempt, second.artifacts) == []
