"""What in the user's checkout stands in the way of a result.

Owns the comparison of what a delivery would change with what the user has not
committed, and with filters that only the user's own git may run. It changes nothing.
"""

import os
import stat

from fusiond.domain.display import display_safe
from fusiond.domain.errors import RefusedError
from fusiond.domain.ids import CommitId, RunId
from fusiond.domain.records import dataclass
from fusiond.ports.workspace import Revision
from fusiond.workspace.checkout.source import Source
from fusiond.workspace.checkout.view import filter_attributes, listed, uncommitted
from fusiond.workspace.disk.layout import Layout
from fusiond.workspace.plumbing.git import LONG_S, Git, Place
from fusiond.workspace.store import run_ref

_DRIVER_KEYS = {"clean", "smudge", "process"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a branch is to become.

    Args:
        ref: full name of the branch.
        before: where it is.
        after: where it is to be.
        fast_forward: no new commit was needed.
    """

    ref: str
    before: CommitId
    after: Revision
    fast_forward: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Touched:
    """Paths that a plan changes, all of them and those it adds or removes."""

    all: frozenset[str]
    added: frozenset[str]
    removed: frozenset[str]


async def refuse_obstacles(
    git: Git, layout: Layout, source: Source, view: Place, plan: Plan, run: RunId
) -> None:
    """Raise RefusedError where the checkout cannot take the plan without losing something.

    Args:
        git: runs git.
        layout: the workspace.
        source: the user's repository.
        view: a view of it with a copy of the index.
        plan: what is to happen.
        run: whose result, for the cure.
    """
    touched = await _touched(git, layout, source, plan)
    if await is_laid(git, layout, source, view, plan):
        return
    dirty = set(await uncommitted(git, view)) & touched.all
    dirty |= {path for path in touched.added if _is_occupied(source.root, path, touched.removed)}
    if dirty:
        raise RefusedError(
            f"the result changes files with uncommitted changes: {listed(sorted(dirty))}",
            expected="files as they were committed, where the result changes them",
            cure="commit or stash them, and merge again",
            fields={"paths": "\n".join(display_safe(path) for path in sorted(dirty))},
        )
    filtered = await _filtered(git, layout, source, view, plan, touched.all)
    if filtered:
        raise RefusedError(
            f"the result changes files that a filter of yours rewrites: {listed(filtered)}",
            expected="files without a configured `filter` attribute, since Fusion runs no configured program",
            cure=f"run `git pull --no-rebase .fusion/repo.git {run_ref(run, 'result')}` instead",
        )


async def is_laid(git: Git, layout: Layout, source: Source, view: Place, plan: Plan) -> bool:
    """Say whether index and checkout are at the plan's end already, as an interrupted merge leaves them."""
    both = _both(layout, source, view, index=view.index)
    ended = await git.run(both, "write-tree", ok=(0, 128))
    if ended.code != 0 or ended.out.decode().strip() != plan.after.tree:
        return False
    changed = await git.run(view, "ls-files", "-z", "--modified", timeout_s=LONG_S)
    touched = await _touched(git, layout, source, plan)
    return touched.all.isdisjoint(changed.out.decode(errors="surrogateescape").split("\0"))


async def _touched(git: Git, layout: Layout, source: Source, plan: Plan) -> _Touched:
    both = Place(git_dir=layout.repo, alternates=(source.objects,))
    args = ("diff-tree", "-r", "-z", "--name-status", "--no-renames", plan.before, plan.after.commit)
    fields = (await git.run(both, *args)).out.decode(errors="surrogateescape").split("\0")
    changes = list(zip(fields[0::2], fields[1::2], strict=False))
    return _Touched(
        all=frozenset(path for _, path in changes),
        added=frozenset(path for status, path in changes if status == "A"),
        removed=frozenset(path for status, path in changes if status == "D"),
    )


def _is_occupied(root: str, path: str, removed: frozenset[str]) -> bool:
    """Say whether something that is not tracked stands where a new file is to be."""
    above = ""
    for component in path.split("/"):
        above = f"{above}/{component}" if above else component
        try:
            mode = os.lstat(f"{root}/{above}").st_mode
        except FileNotFoundError:
            return False
        if not stat.S_ISDIR(mode):
            return above not in removed
    # A directory: git itself refuses to lose untracked files in it.
    return False


async def _filtered(
    git: Git, layout: Layout, source: Source, view: Place, plan: Plan, paths: frozenset[str]
) -> list[str]:
    """Return those of `paths` for which the user's configuration names a filter program."""
    drivers = {
        name.removeprefix("filter.").rpartition(".")[0]
        for name in source.settings
        if name.startswith("filter.") and name.rpartition(".")[2] in _DRIVER_KEYS
    }
    if not drivers or not paths:
        return []
    place = _both(layout, source, view, index=layout.fresh("index"))
    filters = await filter_attributes(git, place, plan.after.commit, sorted(paths))
    return [path for path, driver in filters.items() if driver in drivers]


def _both(layout: Layout, source: Source, view: Place, *, index: str | None) -> Place:
    """Return a place where our objects and the user's are readable, and only ours are written."""
    return Place(git_dir=view.git_dir, index=index, objects=layout.objects, alternates=(source.objects,))
