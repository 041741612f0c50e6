"""Snapshots and commits: what of a hostile tree becomes a revision, and what never does."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fusiond.domain.errors import RefusedError
from fusiond.domain.ids import TreeId
from fusiond.ports.workspace import Revision, TreeSnapshot
from fusiond.workspace.plumbing.git import GitError
from tests.integration.workspace.repositories import EXECUTABLE, LINK, Stored, fingerprint, git
from tests.integration.workspace.site import RUN, Site, Sites, attempt_of, change
from tests.integration.workspace.test_workspace_bases import plant_traps


async def taken(site: Site) -> TreeSnapshot:
    return await site.assembly.workspace.snapshot(attempt_of())


async def paths_of(site: Site) -> dict[str, str]:
    """Record the attempt and return mode and blob by path."""
    snapshot = await taken(site)
    listed = git(site.root / ".fusion/repo.git", "ls-tree", "-r", "-z", snapshot.tree)
    entries = (entry.partition("\t") for entry in listed.split("\0") if entry)
    return {path: head.split()[0] for head, _, path in entries}


@pytest.fixture
async def tree(site: Site) -> Path:
    return Path((await site.prepare()).places.tree)


class TestContent:
    async def test_added_changed_removed_and_made_executable(self, site: Site, tree: Path) -> None:
        change(tree, {"new/deep/file.txt": b"new\n", "README.md": b"changed\n", "docs/guide.txt": None})
        (tree / "tool.sh").chmod(0o755)
        assert await paths_of(site) == {
            "README.md": "100644",
            "new/deep/file.txt": "100644",
            "src/app.py": "100644",
            "tool.sh": "100755",
        }

    async def test_the_same_files_give_the_same_tree(self, site: Site, tree: Path) -> None:
        before = await taken(site)
        change(tree, {"a.txt": b"a\n"})
        changed = await taken(site)
        assert changed != before
        assert await taken(site) == changed
        change(tree, {"a.txt": None})
        assert await taken(site) == before

    async def test_a_change_that_keeps_size_and_time_is_seen(self, site: Site, tree: Path) -> None:
        before = await taken(site)
        state = (tree / "README.md").stat()
        (tree / "README.md").write_bytes(b"THIRD\n")
        os.utime(tree / "README.md", ns=(state.st_atime_ns, state.st_mtime_ns))
        first = await taken(site)
        assert first != before
        (tree / "README.md").write_bytes(b"tHIRD\n")
        os.utime(tree / "README.md", ns=(state.st_atime_ns, state.st_mtime_ns))
        assert await taken(site) != first

    async def test_files_become_directories_and_the_reverse(self, site: Site, tree: Path) -> None:
        (tree / "README.md").unlink()
        shutil.rmtree(tree / "src")
        change(tree, {"README.md/inside.txt": b"x\n", "src": b"now a file\n"})
        assert set(await paths_of(site)) == {"README.md/inside.txt", "src", "docs/guide.txt", "tool.sh"}

    async def test_links_are_stored_as_links_and_never_followed(
        self, site: Site, tree: Path, tmp_path: Path
    ) -> None:
        secret = tmp_path / "secret"
        secret.mkdir()
        (secret / "app.py").write_text("secret\n")
        (tree / "README.md").unlink()
        (tree / "README.md").symlink_to(secret / "app.py")
        shutil.rmtree(tree / "src")
        (tree / "src").symlink_to(secret)
        (tree / "loop").symlink_to("loop")
        found = await paths_of(site)
        assert found["README.md"] == found["src"] == found["loop"] == "120000"
        assert not any(path.startswith("src/") for path in found)
        done = await site.assembly.workspace.commit(attempt_of(), (await taken(site)).tree, "links")
        assert site.body(done.revision, "README.md") == str(secret / "app.py")

    async def test_many_files_at_once(self, site: Site, tree: Path) -> None:
        change(tree, {f"many/{n % 7}/f{n}.txt": b"%d\n" % n for n in range(300)})
        large = os.urandom(3 * 1024 * 1024)
        (tree / "large.bin").write_bytes(large)
        snapshot = await taken(site)
        repo = site.root / ".fusion/repo.git"
        assert git(repo, "rev-parse", f"{snapshot.tree}:large.bin") == git(
            tree, "hash-object", "--no-filters", "large.bin"
        )
        assert git(repo, "ls-tree", "-r", "--name-only", snapshot.tree).count("many/") == 300
        assert git(repo, "fsck", "--full", "--no-dangling") == ""
        assert not list(repo.glob("objects/tmp_*"))


class TestNotPartOfRevisions:
    async def test_ignored_files_and_caches(self, site: Site, tree: Path) -> None:
        change(
            tree,
            {
                ".gitignore": b"*.log\nbuild/\n",
                "run.log": b"x",
                "build/out": b"x",
                "src/__pycache__/app.cpython-311.pyc": b"x",
                ".pytest_cache/v": b"x",
                "node_modules/left/pad.js": b"x",
                "src/kept.py": b"x",
            },
        )
        assert set(await paths_of(site)) - {"README.md", "docs/guide.txt", "src/app.py", "tool.sh"} == {
            ".gitignore",
            "src/kept.py",
        }

    async def test_a_repository_may_take_a_cache_back_in(self, site: Site, tree: Path) -> None:
        change(tree, {".gitignore": b"!node_modules/\n", "node_modules/a.js": b"x"})
        assert "node_modules/a.js" in await paths_of(site)

    async def test_tracked_files_count_even_where_ignored(self, sites: Sites) -> None:
        site = sites.make([{".gitignore": b"*.log\n", "kept.log": b"one\n"}])
        tree = Path((await site.prepare()).places.tree)
        change(tree, {"kept.log": b"two\n"})
        done = await site.assembly.workspace.commit(attempt_of(), (await taken(site)).tree, "log")
        assert site.body(done.revision, "kept.log") == "two"

    async def test_fifos_and_sockets(self, site: Site, tree: Path) -> None:
        os.mkfifo(tree / "pipe")
        with socket.socket(socket.AF_UNIX) as listening:
            # A socket's path has room for about 100 bytes.
            os.chdir(tree)
            listening.bind("sock")
            os.chdir("/")
            assert set(await paths_of(site)) == {"README.md", "docs/guide.txt", "src/app.py", "tool.sh"}

    async def test_fifo_in_place_of_a_tracked_file_is_no_silent_removal(self, site: Site, tree: Path) -> None:
        (tree / "README.md").unlink()
        os.mkfifo(tree / "README.md")
        with pytest.raises(RefusedError, match=r"README\.md is a FIFO"):
            await taken(site)

    @pytest.mark.parametrize("name", [".gitignore", ".gitattributes", "src/.gitignore", "new/.gitattributes"])
    async def test_rules_that_git_would_wait_for_are_refused_at_once(
        self, site: Site, tree: Path, name: str
    ) -> None:
        (tree / name).parent.mkdir(exist_ok=True)
        os.mkfifo(tree / name)
        with pytest.raises(RefusedError, match="where git reads rules"):
            await taken(site)


class TestNestedRepositories:
    async def test_every_kind_is_reported_and_none_becomes_a_gitlink(self, site: Site, tree: Path) -> None:
        git(tree, "init", "--quiet", "whole")
        change(tree, {"whole/a.txt": b"a\n"})
        git(tree / "whole", "add", "--all")
        git(tree / "whole", "commit", "--quiet", "-m", "nested")
        git(tree, "init", "--quiet", "empty")
        (tree / "src/.git").mkdir()
        change(tree, {"docs/.git": b"gitdir: /etc\n", "deep/er/file.txt": b"x\n", "deep/.git": b""})
        change(tree, {"alone/.git": b"nothing else is here\n", ":(glob)*/.git": b"x", "*/.git": b"x"})
        (tree / "hollow/.git").mkdir(parents=True)
        snapshot = await taken(site)
        assert snapshot.nested == (
            "*",
            ":(glob)*",
            "alone",
            "deep",
            "docs",
            "empty",
            "hollow",
            "src",
            "whole",
        )
        listed = git(site.root / ".fusion/repo.git", "ls-tree", "-r", snapshot.tree)
        assert "160000" not in listed
        assert "whole" not in listed

    async def test_ignored_ones_are_nobodys_business(self, site: Site, tree: Path) -> None:
        change(tree, {".gitignore": b"/vendor/\n"})
        git(tree, "init", "--quiet", "vendor/lib")
        git(tree, "init", "--quiet", "node_modules/pkg")
        (tree / "vendor/broken/.git").mkdir(parents=True)
        assert (await taken(site)).nested == ()


class TestRefused:
    async def test_names_that_no_revision_may_have(self, site: Site, tree: Path) -> None:
        (tree / ".GIT").mkdir()
        change(
            tree,
            {".GIT/config": b"x", "git~1": b"x", "a/.g\u200cit": b"x", "new\nline": b"x", "esc\x1b": b"x"},
        )
        Path(os.fsdecode(os.fsencode(tree) + b"/latin\xe9")).write_bytes(b"x")
        with pytest.raises(RefusedError) as caught:
            await taken(site)
        assert len(caught.value.fields["paths"].split("\n")) == 6
        assert "not UTF-8" in caught.value.found
        assert "\x1b" not in caught.value.sentence()

    async def test_files_over_the_limit_are_not_read(self, sites: Sites, site: Site, tree: Path) -> None:
        (tree / "sparse").touch()
        os.truncate(tree / "sparse", 1 << 40)
        with pytest.raises(RefusedError, match="limit") as caught:
            await taken(site)
        assert caught.value.fields["paths"] == "sparse"
        assert not list((site.root / ".fusion/repo.git/objects").glob("tmp_*"))

    def test_what_cannot_be_read_is_named_and_not_taken_for_removed(self) -> None:
        # As root every file can be read, so the program becomes another user first.
        with tempfile.TemporaryDirectory(prefix="fu-") as place:
            ended = subprocess.run(
                [sys.executable, "-m", "tests.integration.workspace.unreadable_files", place],
                capture_output=True,
                text=True,
                check=False,
                cwd=Path(__file__).parents[3],
            )
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.split() == ["closed", "sealed.txt", "src", "src/app.py"]


class TestAgentsRepository:
    async def test_its_state_has_no_effect(self, site: Site, tree: Path, tmp_path: Path) -> None:
        marker = tmp_path / "executed"
        plant_traps(tree, marker)
        git(tree, "-c", "core.fsmonitor=false", "update-index", "--skip-worktree", "README.md")
        git(tree, "-c", "core.fsmonitor=false", "update-index", "--assume-unchanged", "src/app.py")
        (tree / ".git/info/exclude").write_text("*\n")
        change(tree, {"README.md": b"changed\n", "src/app.py": b"changed\n", "new.txt": b"a\r\n"})
        marker.unlink(missing_ok=True)
        done = await site.assembly.workspace.commit(attempt_of(), (await taken(site)).tree, "m")
        assert site.body(done.revision, "README.md") == "changed"
        assert site.body(done.revision, "src/app.py") == "changed"
        assert "new.txt" in site.stored(done.revision)
        assert not marker.exists()

    @pytest.mark.parametrize("kind", ["gone", "file", "link"])
    async def test_it_may_be_gone_or_something_else(
        self, site: Site, tree: Path, tmp_path: Path, kind: str
    ) -> None:
        shutil.rmtree(tree / ".git")
        if kind == "file":
            (tree / ".git").write_text(f"gitdir: {site.root}/.git\n")
        if kind == "link":
            (tree / ".git").symlink_to(site.root / ".git")
        before = fingerprint(site.root)
        change(tree, {"new.txt": b"new\n"})
        snapshot = await taken(site)
        await site.assembly.workspace.commit(attempt_of(), snapshot.tree, "m")
        assert snapshot.nested == ()
        assert "new.txt" in await paths_of(site)
        assert fingerprint(site.root) == before


class TestCommits:
    async def test_the_same_call_gives_the_same_commit(self, site: Site, tree: Path) -> None:
        change(tree, {"new.txt": b"new\n"})
        snapshot = await taken(site)
        workspace = site.assembly.workspace
        done = await workspace.commit(attempt_of(), snapshot.tree, "message\n\nbody \ud800 \0 end")
        assert await workspace.commit(attempt_of(), snapshot.tree, "message\n\nbody \ud800 \0 end") == done
        shown = git(site.root / ".fusion/repo.git", "cat-file", "commit", done.revision.commit)
        base = await site.base()
        assert f"parent {base.commit}" in shown
        date = site.git("log", "-1", "--format=%ct")
        assert f"author Fusion <fusion@localhost> {date} +0000" in shown
        assert shown.endswith("message\n\nbody ?  end")

    async def test_nothing_changed_is_the_start_itself(self, site: Site, tree: Path) -> None:
        base = await site.base()
        done = await site.assembly.workspace.commit(attempt_of(), base.tree, "nothing")
        assert done.revision == base
        assert Path(done.patch_path).read_bytes() == b""

    async def test_a_later_call_moves_the_attempts_pin(self, site: Site, tree: Path) -> None:
        workspace = site.assembly.workspace
        change(tree, {"new.txt": b"one\n"})
        first = await workspace.commit(attempt_of(), (await taken(site)).tree, "one")
        change(tree, {"new.txt": b"two\n"})
        second = await workspace.commit(attempt_of(), (await taken(site)).tree, "two")
        assert first.revision != second.revision
        pin = git(site.root / ".fusion/repo.git", "rev-parse", f"refs/runs/{RUN}/nodes/build/1")
        assert pin == second.revision.commit
        assert b"+two" in Path(second.patch_path).read_bytes()

    async def test_the_patch_makes_the_revision_from_the_start(self, sites: Sites, tmp_path: Path) -> None:
        site = sites.make(
            [
                {
                    "text.txt": b"a\nb\n",
                    "gone.bin": b"\0\1\2",
                    "mode.sh": b"#!/bin/sh\n",
                    "link": Stored(LINK, b"text.txt"),
                    "x.sh": Stored(EXECUTABLE, b"x"),
                    ".gitattributes": b"* -diff\n",
                }
            ]
        )
        tree = Path((await site.prepare()).places.tree)
        change(
            tree, {"text.txt": b"a\nB\n", "gone.bin": None, "new.bin": bytes(range(256)) * 9, "no-eol": b"x"}
        )
        (tree / "mode.sh").chmod(0o755)
        (tree / "link").unlink()
        (tree / "link").symlink_to("elsewhere")
        done = await site.assembly.workspace.commit(attempt_of(), (await taken(site)).tree, "all kinds")
        assert Path(done.patch_path).parent == tree.parent
        site.git("apply", "--index", "--binary", done.patch_path)
        assert site.git("write-tree") == done.revision.tree

    async def test_a_tree_that_is_not_there_is_an_error(self, site: Site, tree: Path) -> None:
        with pytest.raises(GitError):
            await site.assembly.workspace.commit(attempt_of(), TreeId("1" * 40), "lost")


class TestMerges:
    async def test_a_fold_of_independent_work(self, site: Site) -> None:
        base = await site.base()
        done = [await site.committed(each, {f"{each}.txt": each.encode()}, base=base) for each in "abc"]
        workspace = site.assembly.workspace
        commits = [each.revision.commit for each in done]
        merged = await workspace.merge(base, commits)
        assert isinstance(merged, Revision)
        assert await workspace.merge(base, commits) == merged
        assert {"a.txt", "b.txt", "c.txt"} < set(site.stored(merged))

    async def test_none_is_the_base_and_one_is_itself(self, site: Site) -> None:
        base = await site.base()
        workspace = site.assembly.workspace
        done = await site.committed("build", {"a.txt": b"a"}, base=base)
        assert await workspace.merge(base, []) == base
        assert await workspace.merge(base, [done.revision.commit]) == done.revision
        assert await workspace.merge(base, [base.commit, base.commit]) == base

    async def test_what_is_contained_already_is_left_out(self, site: Site) -> None:
        base = await site.base()
        plan = await site.committed("plan", {"plan.md": b"plan"}, base=base)
        build = await site.committed("build", {"b.txt": b"b"}, base=base, start=plan.revision)
        workspace = site.assembly.workspace
        for order in ([plan, build], [build, plan], [plan, build, plan]):
            assert await workspace.merge(base, [each.revision.commit for each in order]) == build.revision

    async def test_a_conflict_names_its_paths_sorted(self, site: Site) -> None:
        base = await site.base()
        changes = {"src/app.py": b"%b\n", "README.md": b"%b\n"}
        done = [
            await site.committed(
                node, {path: body % node.encode() for path, body in changes.items()}, base=base
            )
            for node in ("one", "two")
        ]
        merged = await site.assembly.workspace.merge(base, [each.revision.commit for each in done])
        assert getattr(merged, "paths", None) == ("README.md", "src/app.py")
