"""Uncommitted changes: refused by name, or snapshotted without touching the user's `.git`."""

import os

import pytest

from fusiond.domain.errors import RefusedError
from tests.integration.workspace.repositories import all_objects, git
from tests.integration.workspace.site import Site, Sites, change


@pytest.mark.parametrize("how", ["edited", "removed", "staged", "untracked"])
async def test_a_dirty_checkout_is_refused_with_its_paths(site: Site, how: str) -> None:
    if how == "removed":
        (site.root / "README.md").unlink()
    else:
        change(site.root, {"new.txt" if how == "untracked" else "README.md": b"dirty\n"})
    if how == "staged":
        site.git("add", "README.md")
    with pytest.raises(RefusedError) as caught:
        await site.base()
    assert caught.value.fields["paths"] == ("new.txt" if how == "untracked" else "README.md")
    assert "--include-dirty" in caught.value.cure


async def test_very_many_paths_are_counted_not_listed(site: Site) -> None:
    change(site.root, {f"n{number:03}.txt": b"x" for number in range(200)})
    with pytest.raises(RefusedError) as caught:
        await site.base()
    assert "and 180 more" in caught.value.found
    assert "n199" not in caught.value.found


async def test_what_a_submission_pins_anyway_makes_nothing_dirty(site: Site) -> None:
    change(site.root, {"flows/fix.yaml": b"flow: x\n", "README.md": b"a prompt\n"})
    resolve = site.assembly.workspace.resolve_base
    pinned = frozenset({"flows/fix.yaml", "README.md"})
    await resolve(None, include_dirty=False, aside=pinned)
    change(site.root, {"flows/other.txt": b"x"})
    with pytest.raises(RefusedError) as caught:
        await resolve(None, include_dirty=False, aside=pinned)
    assert caught.value.fields["paths"] == "flows/other.txt"


async def test_touched_and_ignored_files_make_nothing_dirty(site: Site) -> None:
    (site.home / ".config/git").mkdir(parents=True)
    (site.home / ".config/git/ignore").write_text(".idea/\n")
    (site.root / ".git/info").mkdir(exist_ok=True)
    (site.root / ".git/info/exclude").write_text("local.txt\n")
    change(site.root, {".idea/x": b"x", "local.txt": b"x"})
    os.utime(site.root / "README.md", ns=(1, 1))
    await site.base()
    await site.base()


async def test_line_endings_as_the_user_configured_them_are_no_change(site: Site) -> None:
    site.git("config", "core.autocrlf", "true")
    (site.root / "README.md").unlink()
    site.git("checkout", "README.md")
    assert (site.root / "README.md").read_bytes() == b"third\r\n"
    # Now its time tells git nothing, and the bytes are looked at.
    os.utime(site.root / "README.md", ns=(1, 1))
    await site.base()


async def test_a_named_revision_does_not_look_at_the_checkout(site: Site) -> None:
    change(site.root, {"README.md": b"dirty\n"})
    base = await site.assembly.workspace.resolve_base("HEAD", include_dirty=False)
    assert base.commit == site.git("rev-parse", "HEAD")


async def test_a_snapshot_is_a_commit_on_head_with_everything_not_ignored(sites: Sites) -> None:
    site = sites.make([{"kept.txt": b"1\n", "gone.txt": b"1\n", ".gitignore": b"*.log\n"}])
    change(site.root, {"kept.txt": b"2\n", "gone.txt": None, "new/file.txt": b"new\n", "x.log": b"x"})
    change(site.root, {"staged.txt": b"staged\n"})
    site.git("add", "staged.txt")
    staged = site.git("rev-parse", ":staged.txt")
    (site.root / "staged.txt").touch()
    base = await site.assembly.workspace.resolve_base(None, include_dirty=True)
    assert set(site.stored(base)) == {"kept.txt", "new/file.txt", ".gitignore", "staged.txt"}
    assert staged in site.stored(base)["staged.txt"]
    packed = site.root / ".fusion/bases" / f"{base.commit}.git"
    assert git(packed, "rev-parse", f"{base.commit}^") == site.git("rev-parse", "HEAD")
    assert git(packed, "fsck", "--full") == ""
    assert site.git("cat-file", "-t", base.commit, ok=(128,)) == ""


async def test_the_same_changes_give_the_same_base(site: Site) -> None:
    change(site.root, {"README.md": b"dirty\n"})
    resolve = site.assembly.workspace.resolve_base
    first = await resolve(None, include_dirty=True)
    assert await resolve(None, include_dirty=True) == first
    change(site.root, {"README.md": b"dirtier\n"})
    assert await resolve("HEAD", include_dirty=True) != first


async def test_an_attempt_on_a_snapshot_sees_only_its_history(site: Site) -> None:
    change(site.root, {"README.md": b"dirty\n"})
    base = await site.assembly.workspace.resolve_base(None, include_dirty=True)
    prepared = await site.committed("build", {"a.txt": b"a"}, base=base)
    assert site.body(prepared.revision, "README.md") == "dirty"
    packed = site.root / ".fusion/bases" / f"{base.commit}.git"
    visible = all_objects(packed)
    assert prepared.revision.commit not in visible
    assert base.commit in visible


async def test_a_clean_checkout_needs_no_snapshot(site: Site) -> None:
    base = await site.assembly.workspace.resolve_base(None, include_dirty=True)
    assert base.commit == site.git("rev-parse", "HEAD")


async def test_changes_cannot_be_put_onto_another_revision(site: Site) -> None:
    with pytest.raises(RefusedError, match="not what is checked out"):
        await site.assembly.workspace.resolve_base("HEAD~1", include_dirty=True)


async def test_repositories_inside_the_checkout_are_not_snapshotted(site: Site) -> None:
    git(site.root, "init", "--quiet", "vendor")
    change(site.root, {"vendor/a.txt": b"a"})
    with pytest.raises(RefusedError, match="vendor/"):
        await site.assembly.workspace.resolve_base(None, include_dirty=True)
