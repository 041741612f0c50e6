"""Delivery: how a result reaches the user's branch and checkout, and everything that stops it."""

import os
from pathlib import Path

import pytest

from fusiond.domain.errors import ConflictError, RefusedError, TryAgainError
from fusiond.domain.ids import CommitId
from fusiond.ports.workspace import MergeConflict, Merged, Revision
from tests.integration.workspace.repositories import Files, add_commits, fingerprint, git
from tests.integration.workspace.site import NOW_US, RUN, Site, Sites, attempt_of, change
from tests.integration.workspace.test_workspace_bases import plant_traps


async def result_of(site: Site, files: Files) -> Revision:
    """Have one attempt on HEAD make a result."""
    base = await site.base()
    await site.assembly.results.pin_run(RUN, base)
    done = await site.committed("build", files, base=base)
    await site.assembly.results.pin_result(RUN, done.revision)
    return done.revision


async def deliver(site: Site, result: Revision) -> Merged | MergeConflict:
    return await site.assembly.results.deliver(RUN, result, "Merge the fix\n")


async def test_nothing_of_the_users_changes_before_delivery(site: Site) -> None:
    (site.root / ".git/hooks").mkdir(exist_ok=True)
    site.git("config", "core.untrackedCache", "true")
    site.git("status")
    before = fingerprint(site.root)
    result = await result_of(site, {"new.txt": b"new\n", "README.md": b"changed\n"})
    await site.assembly.code.page(result, "README.md", 0, 100)
    await site.prepare("later", start=result)
    await site.assembly.workspace.discard(attempt_of("later"))
    change(site.root, {"README.md": b"dirty\n", "untracked.txt": b"x"})
    dirty = fingerprint(site.root)
    await site.assembly.workspace.resolve_base(None, include_dirty=True)
    assert fingerprint(site.root) == dirty
    assert {key: value for key, value in dirty.items() if key.startswith(".git/")} == {
        key: value for key, value in before.items() if key.startswith(".git/")
    }


async def test_a_branch_still_at_the_base_is_moved_forward(site: Site) -> None:
    before = site.git("rev-parse", "HEAD")
    result = await result_of(
        site, {"new/file.txt": b"new\n", "README.md": b"changed\n", "docs/guide.txt": None}
    )
    merged = await deliver(site, result)
    assert merged == Merged(
        ref="refs/heads/main", before=CommitId(before), after=result.commit, fast_forward=True
    )
    assert site.git("rev-parse", "main") == result.commit
    assert site.git("status", "--porcelain") == ""
    assert (site.root / "new/file.txt").read_text() == "new\n"
    assert not (site.root / "docs").exists()
    assert site.git("reflog", "-1", "--format=%gs") == f"fusion merge {RUN}"
    assert site.git("reflog", "main", "-1", "--format=%gs") == f"fusion merge {RUN}"
    assert site.git("fsck", "--full", "--strict") == ""
    assert not (site.root / ".git/objects/info/alternates").exists()
    assert not list((site.root / ".git").rglob("*.lock"))


async def test_delivering_again_changes_nothing(site: Site) -> None:
    result = await result_of(site, {"new.txt": b"new\n"})
    await deliver(site, result)
    before = fingerprint(site.root)
    merged = await deliver(site, result)
    assert merged == Merged(
        ref="refs/heads/main", before=result.commit, after=result.commit, fast_forward=True
    )
    assert fingerprint(site.root) == before


async def test_a_branch_that_moved_on_gets_a_merge_commit_of_the_users(site: Site) -> None:
    (site.home / ".gitconfig").write_text("[user]\n\tname = A Person\n\temail = person@example.invalid\n")
    result = await result_of(site, {"src/app.py": b"one = 1\ntwo = 22\n"})
    add_commits(site.root, "main", [{"theirs.txt": b"meanwhile\n"}], onto="main")
    site.git("reset", "--quiet", "--hard", "main")
    before = site.git("rev-parse", "HEAD")
    merged = await deliver(site, result)
    assert isinstance(merged, Merged)
    assert not merged.fast_forward
    assert site.git("log", "-1", "--format=%P") == f"{before} {result.commit}"
    shown = site.git("log", "-1", "--format=%an <%ae> %ct %s")
    assert shown == f"A Person <person@example.invalid> {NOW_US // 1_000_000} Merge the fix"
    assert site.git("status", "--porcelain") == ""
    assert (site.root / "theirs.txt").exists()
    assert (site.root / "src/app.py").read_text() == "one = 1\ntwo = 22\n"
    assert site.git("fsck", "--full", "--strict") == ""


async def test_a_conflict_names_its_paths_and_changes_nothing(site: Site) -> None:
    result = await result_of(site, {"src/app.py": b"by the agent\n", "ok.txt": b"x"})
    change(site.root, {"src/app.py": b"by the user\n"})
    site.git("commit", "--quiet", "--all", "-m", "meanwhile")
    before = fingerprint(site.root)
    assert await deliver(site, result) == MergeConflict(paths=("src/app.py",))
    assert fingerprint(site.root).keys() == before.keys()
    assert site.git("status", "--porcelain") == ""


async def test_a_result_on_uncommitted_changes_merges_once_they_are_committed(site: Site) -> None:
    change(site.root, {"README.md": b"being edited\n"})
    site.git("add", "README.md")
    change(site.root, {"notes.txt": b"untracked\n"})
    base = await site.assembly.workspace.resolve_base(None, include_dirty=True)
    done = await site.committed("build", {"new.txt": b"new\n"}, base=base)
    with pytest.raises(RefusedError) as caught:
        await deliver(site, done.revision)
    assert caught.value.fields["paths"] == "README.md\nnotes.txt"
    site.git("add", "--all")
    site.git("commit", "--quiet", "-m", "mine")
    assert isinstance(await deliver(site, done.revision), Merged)
    assert (site.root / "new.txt").exists()
    assert site.git("status", "--porcelain") == ""


async def test_uncommitted_changes_elsewhere_are_kept(site: Site) -> None:
    result = await result_of(site, {"new.txt": b"new\n", "src/app.py": b"agent\n"})
    change(site.root, {"README.md": b"edited\n", "mine.txt": b"mine\n"})
    os.utime(site.root / "src/app.py", ns=(1, 1))
    assert isinstance(await deliver(site, result), Merged)
    assert site.git("status", "--porcelain") == "M README.md\n?? mine.txt"
    assert (site.root / "src/app.py").read_text() == "agent\n"


async def test_a_split_index_stays_whole(site: Site) -> None:
    site.git("config", "core.splitIndex", "true")
    site.git("update-index", "--split-index")
    result = await result_of(site, {"new.txt": b"new\n"})
    assert isinstance(await deliver(site, result), Merged)
    assert site.git("status", "--porcelain") == ""


class TestObstacles:
    @pytest.mark.parametrize(
        "mine, theirs",
        [
            ({"src/app.py": b"edited\n"}, {"src/app.py": b"agent\n"}),
            ({"src/app.py": b"edited\n"}, {"src/app.py": None}),
            ({"new.txt": b"untracked\n"}, {"new.txt": b"agent\n"}),
            ({"ignored.log": b"untracked\n"}, {".gitignore": b"", "ignored.log": b"agent\n"}),
            ({"new": b"a file\n"}, {"new/inside.txt": b"agent\n"}),
            ({"new/mine.txt": b"mine\n"}, {"new": b"agent\n"}),
        ],
        ids=["edited", "edited and removed", "untracked", "ignored", "file for directory", "the reverse"],
    )
    async def test_what_would_be_lost_is_refused_and_kept(
        self, sites: Sites, mine: dict[str, bytes], theirs: Files
    ) -> None:
        site = sites.make([{"src/app.py": b"one\n", ".gitignore": b"*.log\n"}])
        result = await result_of(site, theirs)
        change(site.root, mine)
        before = fingerprint(site.root)
        with pytest.raises(RefusedError) as caught:
            await deliver(site, result)
        assert "commit or stash" in caught.value.cure
        after = fingerprint(site.root)
        for path, body in mine.items():
            assert (site.root / path).read_bytes() == body
            assert after[path] == before[path]
        assert after[".git/refs/heads/main"] == before[".git/refs/heads/main"]

    async def test_a_detached_head(self, site: Site) -> None:
        result = await result_of(site, {"new.txt": b"new\n"})
        site.git("checkout", "--quiet", "--detach")
        with pytest.raises(RefusedError, match="detached") as caught:
            await deliver(site, result)
        assert "git switch" in caught.value.cure

    async def test_an_unfinished_merge(self, site: Site) -> None:
        result = await result_of(site, {"new.txt": b"new\n"})
        (site.root / ".git/MERGE_HEAD").write_text(site.git("rev-parse", "HEAD~1") + "\n")
        with pytest.raises(RefusedError, match="unfinished"):
            await deliver(site, result)

    async def test_histories_that_share_nothing(self, site: Site) -> None:
        result = await result_of(site, {"new.txt": b"new\n"})
        site.git("checkout", "--quiet", "--orphan", "fresh")
        site.git("commit", "--quiet", "-m", "unrelated")
        with pytest.raises(RefusedError, match="shares no history"):
            await deliver(site, result)

    @pytest.mark.parametrize("lock", ["index.lock", "refs/heads/main.lock"])
    async def test_another_git_at_work(self, site: Site, lock: str) -> None:
        result = await result_of(site, {"new.txt": b"new\n"})
        (site.root / ".git" / lock).touch()
        with pytest.raises(TryAgainError) as caught:
            await deliver(site, result)
        assert "merge again" in caught.value.cure
        assert site.git("rev-parse", "main") != result.commit
        assert not (site.root / "new.txt").exists()

    async def test_filters_of_the_users_are_not_run_and_not_bypassed(
        self, sites: Sites, tmp_path: Path
    ) -> None:
        site = sites.make([{".gitattributes": b"*.secret filter=crypt\n", "a.secret": b"x", "b.txt": b"x"}])
        result = await result_of(site, {"a.secret": b"y", "b.txt": b"y"})
        (site.home / ".gitconfig").write_text(f'[filter "crypt"]\n\tsmudge = touch {tmp_path}/ran; cat\n')
        with pytest.raises(RefusedError, match="filter of yours") as caught:
            await deliver(site, result)
        assert "a.secret" in caught.value.found
        assert "b.txt" not in caught.value.found
        command = caught.value.cure.removeprefix("run `").removesuffix("` instead")
        site.git(*command.split()[1:])
        assert (site.root / "b.txt").read_text() == "y"
        assert not (tmp_path / "ran").exists()

    async def test_hooks_are_not_run(self, site: Site, tmp_path: Path) -> None:
        result = await result_of(site, {"new.txt": b"new\n"})
        plant_traps(site.root, tmp_path / "executed")
        (site.root / ".gitattributes").unlink()
        (site.root / ".git/info/attributes").unlink()
        (tmp_path / "executed").unlink(missing_ok=True)
        assert isinstance(await deliver(site, result), Merged)
        assert not (tmp_path / "executed").exists()


class TestInterrupted:
    async def test_a_checkout_that_is_already_changed_is_only_joined_by_its_branch(self, site: Site) -> None:
        result = await result_of(site, {"new.txt": b"new\n", "README.md": b"changed\n"})
        repo = site.root / ".fusion/repo.git"
        pack = git(
            repo,
            "pack-objects",
            "--revs",
            str(site.root / ".git/objects/pack/pack"),
            stdin=result.commit.encode(),
        )
        assert pack
        site.git("read-tree", "-m", "-u", "HEAD", result.commit)
        assert site.git("rev-parse", "main") != result.commit
        assert isinstance(await deliver(site, result), Merged)
        assert site.git("rev-parse", "main") == result.commit
        assert site.git("status", "--porcelain") == ""


class TestPins:
    async def test_base_and_result_are_pinned_for_good(self, site: Site) -> None:
        result = await result_of(site, {"new.txt": b"new\n"})
        await site.assembly.results.pin_result(RUN, result)
        with pytest.raises(ConflictError):
            await site.assembly.results.pin_result(RUN, await site.base())
        pins = git(site.root / ".fusion/repo.git", "for-each-ref", "--format=%(refname) %(objectname)")
        base = await site.base()
        assert pins.splitlines() == [
            f"refs/runs/{RUN}/base {base.commit}",
            f"refs/runs/{RUN}/nodes/build/1 {result.commit}",
            f"refs/runs/{RUN}/result {result.commit}",
        ]
