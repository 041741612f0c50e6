"""Setup results: what is kept, how it is laid, and that no agent can change it."""

import asyncio
import os
import stat
from pathlib import Path

import pytest

from fusiond.domain.digest import Digest, digest_bytes
from fusiond.domain.errors import NotFoundError, RefusedError
from fusiond.ports.workspace import AttemptPlaces
from tests.integration.workspace.repositories import git
from tests.integration.workspace.site import Site, Sites, attempt_of, change

KEY = digest_bytes(b"key")


@pytest.fixture
async def scratch(site: Site) -> AttemptPlaces:
    """A scratch tree in which a setup command has run."""
    places = (await site.prepare("build", 0)).places
    tree = Path(places.tree)
    change(
        tree,
        {
            ".gitignore": b".venv/\n",
            ".venv/bin/tool": b"#!/bin/sh\n",
            ".venv/lib/mod.py": b"x = 1\n",
            "src/gen/out.py": b"made\n",
            "lone file.txt": b"alone\n",
            "README.md": b"changed by setup\n",
            ".venv/src/pkg/.git": b"an editable install\n",
        },
    )
    (tree / ".venv/bin/tool").chmod(0o4755)
    (tree / ".venv/bin/python").symlink_to("/usr/bin/env")
    (tree / "alias").symlink_to(".venv")
    os.mkfifo(tree / ".venv/pipe")
    return places


def kept(site: Site, key: Digest = KEY) -> Path:
    return site.root / ".fusion/setup" / key / "tree"


async def test_only_what_was_added_is_kept_and_it_is_read_only(site: Site, scratch: AttemptPlaces) -> None:
    setups = site.assembly.setups
    assert not await setups.find(KEY)
    await setups.store(KEY, scratch)
    assert await setups.find(KEY)
    found = {
        str(path.relative_to(kept(site)))
        for path in kept(site).rglob("*")
        if path.is_symlink() or not path.is_dir()
    }
    assert found == {
        ".gitignore",
        ".venv/bin/tool",
        ".venv/bin/python",
        ".venv/lib/mod.py",
        ".venv/src/pkg/.git",
        "alias",
        "lone file.txt",
        "src/gen/out.py",
    }
    assert stat.S_IMODE((kept(site) / ".venv/bin/tool").stat().st_mode) == 0o555
    assert stat.S_IMODE((kept(site) / ".venv/lib/mod.py").stat().st_mode) == 0o444
    assert stat.S_IMODE((kept(site) / ".venv/lib").stat().st_mode) == 0o555


async def test_behind_walls_the_result_is_mounted_read_only(site: Site, scratch: AttemptPlaces) -> None:
    setups = site.assembly.setups
    await setups.store(KEY, scratch)
    tree = Path((await site.prepare("build", 1)).places.tree)
    mounts = await setups.lay(KEY, attempt_of("build", 1), sandboxed=True)
    assert {mount.target: mount.source for mount in mounts} == {
        f"/attempt/{path}": str(kept(site) / path)
        for path in (".gitignore", ".venv", "lone file.txt", "src/gen")
    }
    assert not any(mount.writable for mount in mounts)
    assert (tree / ".venv").is_dir()
    assert os.listdir(tree / ".venv") == []
    assert (tree / "alias").readlink() == Path(".venv")
    assert await setups.lay(KEY, attempt_of("build", 1), sandboxed=True) == mounts


async def test_without_walls_it_is_copied_read_only(site: Site, scratch: AttemptPlaces) -> None:
    setups = site.assembly.setups
    await setups.store(KEY, scratch)
    tree = Path((await site.prepare("build", 1)).places.tree)
    for _ in range(2):
        assert await setups.lay(KEY, attempt_of("build", 1), sandboxed=False) == ()
    assert (tree / ".venv/lib/mod.py").read_text() == "x = 1\n"
    assert (tree / "src/gen/out.py").read_text() == "made\n"
    assert stat.S_IMODE((tree / ".venv/lib/mod.py").stat().st_mode) == 0o444
    assert (tree / ".venv/lib/mod.py").stat().st_ino != (kept(site) / ".venv/lib/mod.py").stat().st_ino
    assert (tree / "README.md").read_text() == "third\n"
    await site.assembly.workspace.discard(attempt_of("build", 1))
    assert not tree.exists()
    assert (kept(site) / ".venv/lib/mod.py").exists()


@pytest.mark.parametrize("sandboxed", [True, False])
async def test_a_laid_result_is_never_part_of_a_revision(
    site: Site, scratch: AttemptPlaces, *, sandboxed: bool
) -> None:
    setups, workspace = site.assembly.setups, site.assembly.workspace
    await setups.store(KEY, scratch)
    prepared = await site.prepare("build", 1)
    await setups.lay(KEY, attempt_of("build", 1), sandboxed=sandboxed)
    snapshot = await workspace.snapshot(attempt_of("build", 1))
    assert (snapshot.tree, snapshot.nested) == (prepared.start.tree, ())
    tree = Path(prepared.places.tree)
    assert git(tree, "status", "--porcelain") == ""
    (tree / "src/.gitignore").write_text("!gen\n!gen/**\n")
    snapshot = await workspace.snapshot(attempt_of("build", 1))
    listed = git(site.root / ".fusion/repo.git", "ls-tree", "-r", "--name-only", snapshot.tree)
    assert "src/.gitignore" in listed
    assert "gen" not in listed.replace("src/.gitignore", "")


async def test_files_with_other_names_elsewhere_become_files_of_our_own(
    site: Site, scratch: AttemptPlaces, tmp_path: Path
) -> None:
    outside = tmp_path / "cache.py"
    outside.write_text("shared\n")
    os.link(outside, Path(scratch.tree, ".venv/lib/linked.py"))
    await site.assembly.setups.store(KEY, scratch)
    assert (kept(site) / ".venv/lib/linked.py").stat().st_nlink == 1
    outside.write_text("changed later\n")
    assert (kept(site) / ".venv/lib/linked.py").read_text() == "shared\n"
    assert os.access(outside, os.W_OK)


async def test_a_stored_result_is_never_replaced(sites: Sites, site: Site, scratch: AttemptPlaces) -> None:
    second = (await site.prepare("other", 0)).places
    change(Path(second.tree), {"late.txt": b"late\n"})
    other = sites.over(site.root).assembly.setups
    await asyncio.gather(site.assembly.setups.store(KEY, scratch), other.store(KEY, second))
    await site.assembly.setups.store(KEY, second)
    assert (kept(site) / "late.txt").exists() != (kept(site) / ".venv").exists()
    assert os.listdir(site.root / ".fusion/making") == []


async def test_nothing_added_is_a_result_too(site: Site) -> None:
    places = (await site.prepare("build", 0)).places
    await site.assembly.setups.store(KEY, places)
    await site.prepare("build", 1)
    assert await site.assembly.setups.lay(KEY, attempt_of("build", 1), sandboxed=True) == ()


async def test_half_stored_results_are_not_found(site: Site) -> None:
    (site.root / ".fusion/setup" / KEY / "tree").mkdir(parents=True)
    assert not await site.assembly.setups.find(KEY)
    await site.prepare("build", 1)
    with pytest.raises(NotFoundError):
        await site.assembly.setups.lay(KEY, attempt_of("build", 1), sandboxed=True)
    places = (await site.prepare("build", 0)).places
    change(Path(places.tree), {"made.txt": b"x"})
    await site.assembly.setups.store(KEY, places)
    assert await site.assembly.setups.find(KEY)


class TestMountPoints:
    @pytest.mark.parametrize("sandboxed", [True, False])
    @pytest.mark.parametrize("path", ["src", "src/gen", ".venv"])
    async def test_no_link_leads_to_one(
        self, site: Site, scratch: AttemptPlaces, tmp_path: Path, path: str, *, sandboxed: bool
    ) -> None:
        target = tmp_path / "target"
        target.mkdir()
        await site.assembly.setups.store(KEY, scratch)
        tree = Path((await site.prepare("build", 1)).places.tree)
        if path == "src":
            (tree / "src").rename(tree / "moved")
        (tree / path).symlink_to(target)
        with pytest.raises(RefusedError, match="in the attempt's tree"):
            await site.assembly.setups.lay(KEY, attempt_of("build", 1), sandboxed=sandboxed)
        assert os.listdir(target) == []

    async def test_one_replaced_after_the_agent_ran_is_noticed(
        self, site: Site, scratch: AttemptPlaces, tmp_path: Path
    ) -> None:
        await site.assembly.setups.store(KEY, scratch)
        tree = Path((await site.prepare("build", 1)).places.tree)
        await site.assembly.setups.lay(KEY, attempt_of("build", 1), sandboxed=True)
        (tree / ".git/info/exclude").unlink()
        (tree / ".git/info/exclude").symlink_to(tmp_path / "written")
        (tree / "src").rename(tree / "moved")
        (tree / "src").symlink_to(tmp_path)
        with pytest.raises(RefusedError):
            await site.assembly.setups.lay(KEY, attempt_of("build", 1), sandboxed=True)
        assert not (tmp_path / "written").exists()

    async def test_tracked_files_are_not_hidden(self, site: Site, scratch: AttemptPlaces) -> None:
        await site.assembly.setups.store(KEY, scratch)
        upstream = await site.committed("plan", {"src/gen/mine.py": b"written by hand\n"})
        await site.prepare("build", 1, start=upstream.revision)
        with pytest.raises(RefusedError, match="hide tracked files"):
            await site.assembly.setups.lay(KEY, attempt_of("build", 1), sandboxed=True)

    async def test_names_that_no_tree_may_have_are_refused(self, site: Site, scratch: AttemptPlaces) -> None:
        change(Path(scratch.tree), {"esc\x1b[2J": b"x"})
        with pytest.raises(RefusedError, match="control character"):
            await site.assembly.setups.store(KEY, scratch)
        assert not await site.assembly.setups.find(KEY)
