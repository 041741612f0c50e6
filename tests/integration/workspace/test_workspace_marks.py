"""Looking at the user's checkout: every write that counts is seen, git's own housekeeping is not."""

import os
from pathlib import Path

import pytest

from fusiond.domain.errors import FusionError
from fusiond.execution.attempts.intrusion import changed_paths
from fusiond.ports.workspace import CheckoutMarks
from tests.integration.workspace.repositories import git
from tests.integration.workspace.site import Site, Sites, change


async def marks(site: Site) -> CheckoutMarks:
    return await site.assembly.checkout.marks()


async def test_untouched_checkout_looks_the_same(site: Site) -> None:
    assert changed_paths(await marks(site), await marks(site)) == []


async def test_new_changed_removed_and_linked_files(site: Site) -> None:
    before = await marks(site)
    change(site.root, {"new.txt": b"new\n", "src/app.py": b"other\n"})
    (site.root / "README.md").unlink()
    (site.root / "tool.sh").unlink()
    (site.root / "tool.sh").symlink_to("/etc/passwd")
    assert changed_paths(before, await marks(site)) == ["README.md", "new.txt", "src/app.py", "tool.sh"]


async def test_forged_time_hides_nothing(site: Site) -> None:
    path = site.root / "README.md"
    state = path.stat()
    before = await marks(site)
    with path.open("r+b") as stream:
        stream.write(b"THIRD")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert changed_paths(before, await marks(site)) == ["README.md"]


async def test_what_steers_git_counts_and_its_housekeeping_does_not(site: Site) -> None:
    before = await marks(site)
    git(site.root, "status")
    git(site.root, "hash-object", "-w", "README.md")
    assert changed_paths(before, await marks(site)) == []
    hook = site.root / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")
    git(site.root, "branch", "planted")
    git(site.root, "config", "core.fsmonitor", "evil")
    assert changed_paths(before, await marks(site)) == [
        ".git/config",
        ".git/hooks/post-checkout",
        ".git/refs/heads/planted",
    ]


async def test_ignored_files_do_not_count(sites: Sites) -> None:
    site = sites.make([{".gitignore": b"*.log\n"}])
    before = await marks(site)
    change(site.root, {"build.log": b"noise\n"})
    assert changed_paths(before, await marks(site)) == []


async def test_linked_worktree_has_a_head_of_its_own(sites: Sites, tmp_path: Path) -> None:
    main = sites.make([{"a.txt": b"a\n"}])
    linked = tmp_path / "linked"
    git(main.root, "worktree", "add", "--quiet", str(linked))
    site = sites.over(linked)
    before = await marks(site)
    git(linked, "symbolic-ref", "HEAD", "refs/heads/elsewhere")
    assert ".git/HEAD" in changed_paths(before, await marks(site))


async def test_checkout_that_cannot_be_read_says_so(site: Site) -> None:
    git(site.root, "config", "core.sparseCheckout", "true")
    with pytest.raises(FusionError, match="sparse"):
        await marks(site)
