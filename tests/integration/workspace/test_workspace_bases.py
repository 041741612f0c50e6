"""Bases: what may be one, what a packed one holds, and that packing runs nothing of the user's."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from fusiond.domain.errors import InvalidError, RefusedError, UnsupportedError
from fusiond.domain.ids import CommitId
from fusiond.ports.workspace import Revision
from tests.integration.workspace.repositories import (
    GITLINK,
    Stored,
    add_commits,
    all_objects,
    fingerprint,
    git,
    make_repository,
    reachable,
)
from tests.integration.workspace.site import RUN, Site, Sites, attempt_of


def packed(site: Site, revision: Revision) -> Path:
    return site.root / ".fusion/bases" / f"{revision.commit}.git"


async def test_head_is_resolved_to_full_ids(site: Site) -> None:
    base = await site.base()
    assert base.commit == site.git("rev-parse", "HEAD")
    assert base.tree == site.git("rev-parse", "HEAD^{tree}")


async def test_names_are_resolved_once_and_only_as_commits(site: Site) -> None:
    site.git("tag", "-a", "v1", "-m", "one", "HEAD~1")
    resolve = site.assembly.workspace.resolve_base
    tagged = await resolve("v1", include_dirty=False)
    assert tagged.commit == site.git("rev-parse", "HEAD~1")
    assert await resolve(tagged.commit[:12], include_dirty=False) == tagged
    with pytest.raises(RefusedError, match="no commit"):
        await resolve("HEAD^{tree}", include_dirty=False)
    with pytest.raises(RefusedError, match="no commit"):
        await resolve("--all", include_dirty=False)
    with pytest.raises(InvalidError):
        await resolve("HEAD\nHEAD~1", include_dirty=False)


async def test_a_packed_base_holds_its_ancestors_and_nothing_else(site: Site) -> None:
    add_commits(site.root, "other", [{"other.txt": b"on another branch\n"}], onto="main~1")
    base = await site.assembly.workspace.resolve_base("main~1", include_dirty=False)
    assert all_objects(packed(site, base)) == reachable(site.root, base.commit)
    for hidden in ("main", "other"):
        commit = site.git("rev-parse", hidden)
        assert git(packed(site, base), "cat-file", "-t", commit, ok=(128,)) == ""


async def test_a_later_base_borrows_from_the_one_before(site: Site) -> None:
    first = await site.assembly.workspace.resolve_base("main~2", include_dirty=False)
    last = await site.base()
    assert all_objects(packed(site, last)) == reachable(site.root, last.commit)
    alternates = packed(site, last) / "objects/info/alternates"
    assert alternates.read_text() == f"../../{first.commit}.git/objects\n"
    own = git(packed(site, last), "count-objects", "-v")
    assert f"in-pack: {len(reachable(site.root, last.commit) - reachable(site.root, first.commit))}" in own
    prepared = await site.prepare(sandboxed=True)
    targets = {mount.target: mount.source for mount in prepared.mounts}
    assert targets == {
        "/fusion/base": str(packed(site, last)),
        f"/fusion/{first.commit}.git": str(packed(site, first)),
    }


async def test_a_base_that_is_no_descendant_borrows_nothing(site: Site) -> None:
    await site.base()
    older = await site.assembly.workspace.resolve_base("main~1", include_dirty=False)
    assert not (packed(site, older) / "objects/info/alternates").exists()


async def test_two_clients_submit_the_same_base_at_once(sites: Sites, site: Site) -> None:
    # Another process's adapters, which share nothing but the disk.
    other = sites.over(site.root)
    submits = [each.base() for each in (site, other) for _ in range(4)]
    bases = await asyncio.gather(*submits)
    assert len(set(bases)) == 1
    assert os.listdir(site.root / ".fusion/bases") == [f"{bases[0].commit}.git"]
    assert os.listdir(site.root / ".fusion/making") == []
    assert git(packed(site, bases[0]), "fsck", "--full") == ""


async def test_a_half_made_base_is_made_again(site: Site) -> None:
    commit = CommitId(site.git("rev-parse", "HEAD"))
    left = site.root / ".fusion/bases" / f"{commit}.git/objects/pack"
    left.mkdir(parents=True)
    (left / "pack-1.pack").write_bytes(b"PACK")
    base = await site.base()
    assert all_objects(packed(site, base)) == reachable(site.root, commit)


async def test_history_outlives_what_the_user_does_to_theirs(site: Site) -> None:
    base = await site.base()
    done = await site.committed("build", {"new.txt": b"new\n"})
    site.git("checkout", "--quiet", "--orphan", "fresh")
    site.git("commit", "--quiet", "-m", "rewritten")
    site.git("branch", "-D", "main")
    site.git("reflog", "expire", "--expire=now", "--all")
    site.git("gc", "--quiet", "--prune=now")
    assert site.git("cat-file", "-t", base.commit, ok=(128,)) == ""
    assert git(site.root / ".fusion/repo.git", "fsck", "--full", "--connectivity-only") == ""
    again = await site.assembly.workspace.prepare(
        (attempt := attempt_of("build", 2)), base, done.revision, sandboxed=False
    )
    assert (Path(again.places.tree) / "new.txt").read_text() == "new\n"
    assert (await site.assembly.workspace.snapshot(attempt)).tree == done.revision.tree


async def test_sha256_repositories_are_supported(sites: Sites) -> None:
    site = sites.make([{"a.txt": b"a\n"}, {"b.txt": b"b\n"}], object_format="sha256")
    done = await site.committed("build", {"c.txt": b"c\n", "a.txt": None})
    assert len(done.revision.commit) == 64
    assert sorted(site.stored(done.revision)) == ["b.txt", "c.txt"]
    page = await site.assembly.code.page(done.revision, "c.txt", 0, 10)
    assert page.data == b"c\n"


class TestRefusals:
    async def test_no_repository(self, sites: Sites, tmp_path: Path) -> None:
        (tmp_path / "plain").mkdir()
        with pytest.raises(RefusedError, match="no git repository") as caught:
            await sites.over(tmp_path / "plain").base()
        assert "git init" in caught.value.cure

    async def test_a_directory_inside_a_repository(self, sites: Sites, site: Site) -> None:
        with pytest.raises(RefusedError, match="inside the repository") as caught:
            await sites.over(site.root / "src").base()
        assert str(site.root) in caught.value.cure

    async def test_no_commit_yet(self, sites: Sites, tmp_path: Path) -> None:
        git(tmp_path, "init", "--quiet", "unborn")
        with pytest.raises(RefusedError, match="no commit yet"):
            await sites.over(tmp_path / "unborn").base()

    async def test_a_bare_repository(self, sites: Sites, site: Site, tmp_path: Path) -> None:
        git(tmp_path, "clone", "--quiet", "--bare", str(site.root), "bare.git")
        with pytest.raises(UnsupportedError, match="bare"):
            await sites.over(tmp_path / "bare.git").base()

    async def test_a_shallow_clone(self, sites: Sites, site: Site, tmp_path: Path) -> None:
        git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{site.root}", "shallow")
        with pytest.raises(UnsupportedError, match="shallow") as caught:
            await sites.over(tmp_path / "shallow").base()
        assert "--unshallow" in caught.value.cure

    async def test_a_sparse_checkout(self, site: Site) -> None:
        site.git("sparse-checkout", "set", "src")
        with pytest.raises(UnsupportedError, match="sparse") as caught:
            await site.base()
        assert "sparse-checkout disable" in caught.value.cure

    async def test_a_partial_clone_fetches_nothing(self, sites: Sites, site: Site, tmp_path: Path) -> None:
        site.git("config", "uploadpack.allowFilter", "true")
        git(
            tmp_path, "clone", "--quiet", "--no-checkout", "--filter=blob:none", f"file://{site.root}", "part"
        )
        git(tmp_path / "part", "config", "protocol.file.allow", "always")
        git(tmp_path / "part", "config", "core.bare", "false")
        before = all_objects(tmp_path / "part")
        with pytest.raises(UnsupportedError, match="cannot be read whole") as caught:
            await sites.over(tmp_path / "part").assembly.workspace.resolve_base("HEAD", include_dirty=False)
        assert "--refetch" in caught.value.cure
        assert all_objects(tmp_path / "part") == before

    async def test_submodules(self, sites: Sites, site: Site) -> None:
        commit = site.git("rev-parse", "HEAD").encode()
        parent = sites.make([{"lib/sub": Stored(GITLINK, commit)}], name="parent")
        with pytest.raises(UnsupportedError, match="submodules") as caught:
            await parent.assembly.workspace.resolve_base("HEAD", include_dirty=False)
        assert caught.value.fields["paths"] == "lib/sub"

    async def test_lfs_pointers_but_not_their_look_alikes(self, sites: Sites) -> None:
        pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 5\n"
        rules = b"*.bin filter=lfs diff=lfs merge=lfs -text\n"
        sample = sites.make([{"sample.txt": pointer, ".gitattributes": rules}], name="sample")
        await sample.base()
        kept = sites.make(
            [{"big.bin": pointer, "a/.gitattributes": b"", ".gitattributes": rules}], name="kept"
        )
        with pytest.raises(UnsupportedError, match="Git LFS") as caught:
            await kept.base()
        assert caught.value.fields["paths"] == "big.bin"

    async def test_another_object_format_than_the_workspace_began_with(
        self, sites: Sites, site: Site
    ) -> None:
        await site.base()
        shutil.rmtree(site.root / ".git")
        make_repository(site.root, [{"a": b"a"}], object_format="sha256")
        with pytest.raises(UnsupportedError, match="sha1"):
            await site.base()

    async def test_extensions_and_ref_storages_of_another_time(self, site: Site) -> None:
        site.git("config", "core.repositoryFormatVersion", "1")
        site.git("config", "extensions.tomorrow", "true", ok=(0,))
        with pytest.raises(UnsupportedError, match="tomorrow"):
            await site.base()

    async def test_a_foreign_thing_where_the_link_to_the_attempts_belongs(self, site: Site) -> None:
        (site.root / ".fusion/worktrees").mkdir(parents=True)
        with pytest.raises(RefusedError, match="no link"):
            await site.base()


async def test_a_linked_worktree_of_the_user_is_a_workspace(sites: Sites, site: Site, tmp_path: Path) -> None:
    site.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    add_commits(site.root, "side", [{"side.txt": b"side\n"}], onto="main")
    git(tmp_path / "side", "reset", "--quiet", "--hard")
    side = sites.over(tmp_path / "side")
    base = await side.base()
    assert base.commit == site.git("rev-parse", "side")
    done = await side.committed("build", {"more.txt": b"more\n"})
    merged = await side.assembly.results.deliver(RUN, done.revision, "merge")
    assert git(tmp_path / "side", "rev-parse", "HEAD") == done.revision.commit, merged
    assert git(tmp_path / "side", "status", "--porcelain") == ""


class TestNothingOfTheUsersRuns:
    async def test_hooks_filters_monitors_and_attributes_are_not_executed(
        self, sites: Sites, site: Site, tmp_path: Path
    ) -> None:
        marker = tmp_path / "executed"
        plant_traps(site.root, marker)
        (site.root / "README.md").write_text("changed\n")
        workspace = site.assembly.workspace
        with pytest.raises(RefusedError):
            await workspace.resolve_base(None, include_dirty=False)
        base = await workspace.resolve_base(None, include_dirty=True)
        assert not marker.exists(), marker.read_text()
        site.git("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "reset", "-q", "--hard")
        assert marker.exists(), "the traps do not bite"
        marker.unlink()
        await workspace.resolve_base("HEAD", include_dirty=False)
        done = await site.committed("build", {"README.md": b"by the agent\n"}, base=base)
        await site.assembly.code.diff(base, done.revision, "")
        assert not marker.exists(), marker.read_text()

    async def test_a_repository_of_another_user_is_read(self, site: Site) -> None:
        if os.getuid() == 0:
            for parent, directories, files in os.walk(site.root):
                for name in (".", *directories, *files):
                    os.chown(os.path.join(parent, name), 12345, 12345, follow_symlinks=False)
        base = await site.base()
        assert base.commit == (site.root / ".git/refs/heads/main").read_text().strip()

    async def test_an_inherited_git_directory_redirects_nothing(
        self, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        elsewhere = make_repository(tmp_path / "elsewhere", [{"x": b"x"}])
        expected = site.git("rev-parse", "HEAD")
        before = fingerprint(elsewhere)
        monkeypatch.setenv("GIT_DIR", str(elsewhere / ".git"))
        monkeypatch.setenv("GIT_INDEX_FILE", str(elsewhere / ".git/index"))
        monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
        monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.bare")
        monkeypatch.setenv("GIT_CONFIG_VALUE_0", "true")
        assert (await site.base()).commit == expected
        await site.committed("build", {"y": b"y"})
        assert fingerprint(elsewhere) == before


def plant_traps(root: Path, marker: Path) -> None:
    """Make every program that git could run for this repository leave a mark."""
    trap = f"{root}/.git/trap"
    Path(trap).write_text(f'#!/bin/sh\necho "$0 $*" >> {marker}\ncat\n')
    Path(trap).chmod(0o755)
    hooks = root / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction", "post-merge"):
        shutil.copy(trap, hooks / name)
    for key, value in {
        "core.fsmonitor": trap,
        "core.hooksPath": str(hooks),
        "core.alternateRefsCommand": trap,
        "core.pager": trap,
        "core.sshCommand": trap,
        "core.askPass": trap,
        "core.gitProxy": trap,
        "diff.external": trap,
        "diff.trap.textconv": trap,
        "diff.trap.command": trap,
        "merge.trap.driver": trap,
        "filter.trap.clean": trap,
        "filter.trap.smudge": trap,
        "gpg.program": trap,
        "commit.gpgSign": "true",
        "protocol.allow": "always",
        "protocol.ext.allow": "always",
        "remote.origin.url": f"ext::{trap}",
        "remote.origin.promisor": "true",
        "uploadpack.packObjectsHook": trap,
        "include.path": str(root / ".git/more"),
    }.items():
        git(root, "-c", "core.fsmonitor=false", "config", key, value)
    (root / ".git/more").write_text(f"[core]\n\tfsmonitor = {trap}\n")
    (root / ".git/info").mkdir(exist_ok=True)
    (root / ".git/info/attributes").write_text("* filter=trap diff=trap merge=trap\n")
    (root / ".gitattributes").write_text("* filter=trap diff=trap merge=trap\n")
