"""The contract of `ports.workspace`, held by git's adapters and by the fakes alike."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fusiond.domain.digest import digest_bytes
from fusiond.domain.errors import ConflictError, NotFoundError, RefusedError
from fusiond.domain.ids import AttemptId, CommitId, RunId, TreeId
from fusiond.ports.workspace import (
    CodeEvidence,
    CommittedTree,
    MergeConflict,
    Merged,
    Results,
    Revision,
    SetupCache,
    Workspace,
)
from tests.fakes.workspace import FakeCode, FakeResults, FakeSetupCache, FakeWorkspace, fake_workspace
from tests.integration.workspace.repositories import git
from tests.integration.workspace.site import RUN, Site, Sites, attempt_of, change

FILES = {"README.md": b"# Title\n", "src/app.py": b"one = 1\n"}
KEY = digest_bytes(b"key")


@dataclass(slots=True)
class World:
    """The ports over one workspace, and what the user does to their checkout."""

    workspace: Workspace
    results: Results
    setups: SetupCache
    code: CodeEvidence
    site: Site | None = None
    fake: FakeWorkspace | None = None
    base: Revision = field(init=False)

    def edit(self, files: Mapping[str, bytes]) -> None:
        """Change files of the user's checkout."""
        if self.site is not None:
            change(self.site.root, files)
        if self.fake is not None:
            self.fake.dirty = {**(self.fake.dirty or self.fake.repository.files(self.fake.head)), **files}

    def head(self) -> CommitId:
        """Return the commit that the user has checked out."""
        if self.site is not None:
            return CommitId(git(self.site.root, "rev-parse", "HEAD"))
        assert self.fake is not None
        return self.fake.head.commit

    async def work(
        self, attempt: AttemptId, files: Mapping[str, bytes | None], *, start: Revision | None = None
    ) -> CommittedTree:
        """Have an attempt change files, and commit them."""
        prepared = await self.workspace.prepare(attempt, self.base, start or self.base, sandboxed=False)
        change(Path(prepared.places.tree), files)
        snapshot = await self.workspace.snapshot(attempt)
        return await self.workspace.commit(attempt, snapshot.tree, f"work of {attempt}\n")


@pytest.fixture(params=["git", "fake"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    sites = Sites(tmp_path)
    if request.param == "git":
        site = sites.make([FILES])
        made = site.assembly
        built = World(made.workspace, made.results, made.setups, made.code, site=site)
    else:
        fake = fake_workspace(tmp_path, FILES)
        repository = fake.repository
        results = FakeResults(repository, fake)
        built = World(fake, results, FakeSetupCache(fake), FakeCode(repository), fake=fake)
    built.base = await built.workspace.resolve_base(None, include_dirty=False)
    yield built
    await sites.close()


class TestBases:
    async def test_head_by_default_and_by_name(self, world: World) -> None:
        assert world.base.commit == world.head()
        resolve = world.workspace.resolve_base
        assert await resolve("HEAD", include_dirty=False) == world.base
        assert await resolve(world.base.commit, include_dirty=False) == world.base
        with pytest.raises(RefusedError):
            await resolve("no-such-branch", include_dirty=False)

    async def test_a_dirty_checkout_is_refused_set_aside_or_included(self, world: World) -> None:
        world.edit({"README.md": b"dirty\n"})
        resolve = world.workspace.resolve_base
        with pytest.raises(RefusedError):
            await resolve(None, include_dirty=False)
        assert await resolve(None, include_dirty=False, aside=frozenset({"README.md"})) == world.base
        dirty = await resolve(None, include_dirty=True)
        assert dirty != world.base
        assert await resolve(None, include_dirty=True) == dirty
        assert (await world.code.page(dirty, "README.md", 0, 100)).data == b"dirty\n"


class TestAttempts:
    async def test_a_tree_is_laid_and_found_again(self, world: World) -> None:
        workspace = world.workspace
        assert await workspace.existing(attempt_of()) is None
        prepared = await workspace.prepare(attempt_of(), world.base, world.base, sandboxed=True)
        assert prepared.start == world.base
        assert "/fusion/base" in {mount.target for mount in prepared.mounts}
        tree = Path(prepared.places.tree)
        assert {path: (tree / path).read_bytes() for path in FILES} == FILES
        assert all(Path(each).is_dir() for each in (prepared.places.outputs, prepared.places.session))
        assert await workspace.existing(attempt_of()) == prepared
        assert await workspace.prepare(attempt_of(), world.base, world.base, sandboxed=True) == prepared
        assert (await workspace.snapshot(attempt_of())).tree == world.base.tree

    async def test_what_is_gone_is_not_found_and_made_again(self, world: World) -> None:
        workspace = world.workspace
        await world.work(attempt_of(), {"new.txt": b"new\n"})
        await workspace.discard(attempt_of())
        assert await workspace.existing(attempt_of()) is None
        with pytest.raises(NotFoundError):
            await workspace.snapshot(attempt_of())
        prepared = await workspace.prepare(attempt_of(), world.base, world.base, sandboxed=False)
        assert not Path(prepared.places.tree, "new.txt").exists()

    async def test_sweep_keeps_what_is_owned(self, world: World) -> None:
        for number in (0, 1, 2):
            await world.work(attempt_of(number=number), {})
        removed = await world.workspace.sweep(frozenset({str(attempt_of(number=1))}), frozenset())
        assert list(removed) == [str(attempt_of(number=0)), str(attempt_of(number=2))]
        assert await world.workspace.existing(attempt_of(number=1)) is not None

    async def test_sweep_leaves_a_run_alone_of_which_nobody_knows_what_is_open(self, world: World) -> None:
        await world.work(attempt_of(), {})
        run = attempt_of().stage.run
        assert list(await world.workspace.sweep(frozenset(), frozenset({run}))) == []
        assert await world.workspace.existing(attempt_of()) is not None
        assert list(await world.workspace.sweep(frozenset(), frozenset({RunId("0" * 13)}))) == [
            str(attempt_of())
        ]


class TestRevisions:
    async def test_content_decides_ids(self, world: World) -> None:
        one = await world.work(attempt_of("one"), {"new.txt": b"new\n", "README.md": None})
        other = await world.work(attempt_of("two"), {"new.txt": b"new\n", "README.md": None})
        assert one.revision.tree == other.revision.tree != world.base.tree
        again = await world.workspace.commit(
            attempt_of("one"), one.revision.tree, f"work of {attempt_of('one')}\n"
        )
        assert again == one
        assert Path(one.patch_path).read_bytes().count(b"diff --git") == 2

    async def test_an_unchanged_tree_is_the_start(self, world: World) -> None:
        done = await world.work(attempt_of(), {})
        assert done.revision == world.base
        assert Path(done.patch_path).read_bytes() == b""

    async def test_a_later_commit_of_the_attempt_counts(self, world: World) -> None:
        first = await world.work(attempt_of(), {"new.txt": b"one\n"})
        second = await world.work(attempt_of(), {"new.txt": b"two\n"})
        assert first.revision != second.revision

    async def test_nested_repositories_are_reported_and_left_out(self, world: World) -> None:
        done = await world.work(attempt_of(), {"vendor/.git": b"gitdir: /nowhere\n", "kept.txt": b"x"})
        snapshot = await world.workspace.snapshot(attempt_of())
        assert snapshot.nested == ("vendor",)
        with pytest.raises(NotFoundError):
            await world.code.page(done.revision, "vendor/.gitx", 0, 10)

    async def test_merges_fold_from_the_left(self, world: World) -> None:
        merge = world.workspace.merge
        plan = (await world.work(attempt_of("plan"), {"plan.md": b"plan\n"})).revision
        left = (await world.work(attempt_of("left"), {"left.txt": b"l"}, start=plan)).revision
        right = (await world.work(attempt_of("right"), {"src/app.py": b"two = 2\n"}, start=plan)).revision
        assert await merge(world.base, []) == world.base
        assert await merge(world.base, [plan.commit]) == plan
        assert await merge(world.base, [plan.commit, left.commit, plan.commit]) == left
        merged = await merge(world.base, [left.commit, right.commit])
        assert isinstance(merged, Revision)
        assert await merge(world.base, [left.commit, right.commit]) == merged
        names = {entry.path for entry in await world.code.entries(merged, "")}
        assert names == {"README.md", "left.txt", "plan.md", "src"}
        assert (await world.code.page(merged, "src/app.py", 0, 100)).data == b"two = 2\n"

    async def test_conflicts_are_values(self, world: World) -> None:
        ours = (await world.work(attempt_of("ours"), {"src/app.py": b"a\n", "README.md": b"a\n"})).revision
        theirs = (
            await world.work(attempt_of("theirs"), {"src/app.py": b"b\n", "README.md": b"b\n"})
        ).revision
        merged = await world.workspace.merge(world.base, [ours.commit, theirs.commit])
        assert merged == MergeConflict(paths=("README.md", "src/app.py"))


class TestResults:
    async def test_pins_of_a_run_never_move(self, world: World) -> None:
        result = (await world.work(attempt_of(), {"new.txt": b"new\n"})).revision
        await world.results.pin_run(RUN, world.base)
        await world.results.pin_run(RUN, world.base)
        await world.results.pin_result(RUN, result)
        with pytest.raises(ConflictError):
            await world.results.pin_result(RUN, world.base)

    async def test_a_result_moves_the_users_branch(self, world: World) -> None:
        first = (await world.work(attempt_of("one"), {"one.txt": b"1"})).revision
        second = (await world.work(attempt_of("two"), {"two.txt": b"2"})).revision
        merged = await world.results.deliver(RUN, first, "first\n")
        assert merged == Merged(
            ref="refs/heads/main", before=world.base.commit, after=first.commit, fast_forward=True
        )
        assert world.head() == first.commit
        again = await world.results.deliver(RUN, first, "first\n")
        assert again == Merged(
            ref="refs/heads/main", before=first.commit, after=first.commit, fast_forward=True
        )
        joined = await world.results.deliver(RUN, second, "second\n")
        assert isinstance(joined, Merged)
        assert not joined.fast_forward
        assert world.head() == joined.after

    async def test_a_conflict_moves_nothing(self, world: World) -> None:
        ours = (await world.work(attempt_of("one"), {"README.md": b"1\n"})).revision
        theirs = (await world.work(attempt_of("two"), {"README.md": b"2\n"})).revision
        await world.results.deliver(RUN, ours, "ours\n")
        assert await world.results.deliver(RUN, theirs, "theirs\n") == MergeConflict(paths=("README.md",))
        assert world.head() == ours.commit

    async def test_uncommitted_changes_in_the_way_are_refused(self, world: World) -> None:
        result = (await world.work(attempt_of(), {"README.md": b"agent\n"})).revision
        world.edit({"README.md": b"user\n"})
        with pytest.raises(RefusedError):
            await world.results.deliver(RUN, result, "x\n")
        assert world.head() == world.base.commit


class TestSetups:
    @pytest.mark.parametrize("sandboxed", [True, False])
    async def test_a_result_is_kept_laid_and_no_part_of_revisions(
        self, world: World, *, sandboxed: bool
    ) -> None:
        scratch, attempt = attempt_of(number=0), attempt_of(number=1)
        prepared = await world.workspace.prepare(scratch, world.base, world.base, sandboxed=sandboxed)
        change(Path(prepared.places.tree), {"deps/lib.py": b"x\n"})
        assert not await world.setups.find(KEY)
        with pytest.raises(NotFoundError):
            await world.setups.lay(KEY, attempt, sandboxed=sandboxed)
        await world.setups.store(KEY, prepared.places)
        await world.workspace.discard(scratch)
        assert await world.setups.find(KEY)
        tree = (
            await world.workspace.prepare(attempt, world.base, world.base, sandboxed=sandboxed)
        ).places.tree
        mounts = await world.setups.lay(KEY, attempt, sandboxed=sandboxed)
        assert [mount.target for mount in mounts] == (["/attempt/deps"] if sandboxed else [])
        where = Path(mounts[0].source) if sandboxed else Path(tree, "deps")
        assert (where / "lib.py").read_bytes() == b"x\n"
        assert await world.setups.lay(KEY, attempt, sandboxed=sandboxed) == mounts
        assert (await world.workspace.snapshot(attempt)).tree == world.base.tree


class TestCode:
    async def test_listings_and_pages(self, world: World) -> None:
        entries = {entry.path: entry for entry in await world.code.entries(world.base, "")}
        assert list(entries) == ["README.md", "src"]
        assert entries["README.md"].digest == digest_bytes(FILES["README.md"])
        assert [entry.path for entry in await world.code.entries(world.base, "src")] == ["src/app.py"]
        page = await world.code.page(world.base, "README.md", 2, 3)
        assert (page.offset, page.total, page.data) == (2, 8, b"Tit")

    @pytest.mark.parametrize("path", ["", "../x", "/x", "src//app.py", "src/", ".git/config", ":x"])
    async def test_only_plain_paths(self, world: World, path: str) -> None:
        with pytest.raises(RefusedError):
            await world.code.page(world.base, path, 0, 1)

    async def test_what_is_not_a_file_or_not_there(self, world: World) -> None:
        with pytest.raises(NotFoundError):
            await world.code.page(world.base, "nothing", 0, 1)
        with pytest.raises(RefusedError):
            await world.code.page(world.base, "src", 0, 1)
        with pytest.raises(RefusedError):
            await world.code.entries(world.base, "README.md")
        lost = Revision(commit=world.base.commit, tree=TreeId("1" * 40))
        with pytest.raises(NotFoundError):
            await world.code.page(lost, "README.md", 0, 1)

    async def test_diffs(self, world: World) -> None:
        done = (await world.work(attempt_of(), {"src/app.py": b"2\n", "new.txt": b"n"})).revision
        assert (await world.code.diff(world.base, done, "")).count(b"diff --git") == 2
        assert (await world.code.diff(world.base, done, "src")).count(b"diff --git") == 1
        assert await world.code.diff(done, done, "") == b""
