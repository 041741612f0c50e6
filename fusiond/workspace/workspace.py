"""The workspace port over git: attempt trees and their revisions.

Owns the order of steps of each port method; how each is done is in the modules it
calls. Everything durable is in `.fusion` and in the attempts' directories, so that a
new process continues where another ended.
"""

import asyncio
import errno
import logging
import os
from collections.abc import Callable, Sequence

from fusiond.domain.display import display_safe
from fusiond.domain.errors import FusionError
from fusiond.domain.ids import AttemptId, CommitId, RunId, TreeId
from fusiond.domain.records import dataclass
from fusiond.ports.workspace import (
    CommittedTree,
    MergeConflict,
    PreparedTree,
    Revision,
    TreeSnapshot,
    Workspace,
)
from fusiond.workspace.attempts import PATCH, Attempts
from fusiond.workspace.basing import Basing
from fusiond.workspace.disk.layout import Layout, storing, sync_directory
from fusiond.workspace.disk.removal import remove_tree
from fusiond.workspace.plumbing.git import LONG_S, Git
from fusiond.workspace.plumbing.loose import LooseObjects
from fusiond.workspace.recording import MAX_FILE_BYTES, record_tree
from fusiond.workspace.store import Store, attempt_ref

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class GitWorkspace(Workspace):
    """Attempt trees in private repositories over packed bases."""

    git: Git
    layout: Layout
    store: Store
    basing: Basing
    attempts: Attempts
    max_file_bytes: int = MAX_FILE_BYTES

    async def resolve_base(
        self, revision: str | None, *, include_dirty: bool, aside: frozenset[str] = frozenset()
    ) -> Revision:
        """Resolve and pack the base; see `basing`.

        Raises:
            RefusedError: no repository, no commit, no such revision, a dirty checkout.
            UnsupportedError: bare, shallow, sparse, with submodules or LFS pointers; git too old.
            InvalidError: `revision` is no name at all.
        """
        await asyncio.to_thread(self.layout.create)
        return await self.basing.resolve(revision, include_dirty=include_dirty, aside=aside)

    async def merge(self, base: Revision, parents: Sequence[CommitId]) -> Revision | MergeConflict:
        """Left-fold `parents`; those already contained are left out."""
        return await self.store.merge(base, parents)

    async def prepare(
        self, attempt: AttemptId, base: Revision, start: Revision, *, sandboxed: bool
    ) -> PreparedTree:
        """Make the attempt's tree; an intact one with the same arguments is returned as it is."""
        return await self.attempts.prepare(attempt, base, start, sandboxed=sandboxed)

    async def existing(self, attempt: AttemptId) -> PreparedTree | None:
        """Return the attempt's tree if its stamp and directories are there, else None."""
        found = await asyncio.to_thread(self.attempts.find, attempt)
        return None if found is None else found.prepared

    async def snapshot(self, attempt: AttemptId) -> TreeSnapshot:
        """Record the worktree; see `recording` for what is part of it and what is refused."""
        self.attempts.need(attempt)
        objects = LooseObjects(self.layout.objects, self.store.object_format)
        never = self.attempts.never(attempt)
        return await record_tree(
            self.git, self.attempts.own(attempt), objects, never, max_file_bytes=self.max_file_bytes
        )

    async def commit(self, attempt: AttemptId, tree: TreeId, message: str) -> CommittedTree:
        """Commit `tree` on the attempt's start and pin it; an unchanged tree is the start itself.

        A later call with another tree moves the pin: what counts is the commit that the
        ledger names when the attempt is frozen, after which nothing calls this.
        """
        found = self.attempts.need(attempt)
        start = found.prepared.start
        revision = start
        if tree != start.tree:
            revision = await self.store.commit(tree, (start.commit,), message)
        patch = f"{found.prepared.places.root}/{PATCH}"
        await self._write_patch(start, revision, patch)
        await self.store.repin(attempt_ref(attempt), revision.commit)
        return CommittedTree(revision=revision, patch_path=patch)

    async def _write_patch(self, start: Revision, end: Revision, path: str) -> None:
        """Write the patch that `git apply` turns `start` into `end` with."""
        args = ("diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames")
        with storing("the attempt's patch"):
            aside = f"{path}.new"
            fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                if end.tree != start.tree:
                    await self.git.run(
                        self.store.place,
                        *args,
                        "--no-ext-diff",
                        "--no-textconv",
                        start.tree,
                        end.tree,
                        stdout_fd=fd,
                        timeout_s=LONG_S,
                    )
                os.fsync(fd)
            finally:
                os.close(fd)
            os.rename(aside, path)
            sync_directory(os.path.dirname(path))

    async def discard(self, attempt: AttemptId) -> None:
        """Remove the attempt's directories; nothing happens where there are none."""
        await asyncio.to_thread(self._discard, self.layout.attempt(attempt))

    def _discard(self, path: str) -> None:
        self.layout.discard(path)
        try:
            os.rmdir(os.path.dirname(path))
        except OSError as error:
            # Another attempt of the stage is there, or nothing is.
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT}:
                raise

    async def sweep(self, keep: frozenset[str], keep_runs: frozenset[RunId]) -> Sequence[str]:
        """Remove attempts that nobody keeps, and what crashes left; only while nothing else runs.

        Args:
            keep: attempts as `str(AttemptId)` writes them.
            keep_runs: runs of which every attempt stays.

        Returns:
            The attempts removed, in the same form, sorted.
        """
        return await asyncio.to_thread(self._sweep, keep, keep_runs)

    def _sweep(self, keep: frozenset[str], keep_runs: frozenset[RunId]) -> list[str]:
        self.layout.create()
        removed: list[str] = []
        for name, path in sorted(self.attempts.all().items()):
            if name not in keep and name.partition(".")[0] not in keep_runs and _removed(self._discard, path):
                removed.append(name)
        for place in (self.layout.making, self.layout.trash):
            for entry in os.listdir(place):
                _removed(remove_tree, f"{place}/{entry}")
        self.attempts.remove_empty_stages()
        self.store.remove_stale_locks()
        return removed


def _removed(remove: Callable[[str], object], path: str) -> bool:
    """Remove a leftover; one that cannot be removed harms nobody and must not keep the daemon from starting."""
    try:
        remove(path)
    except (FusionError, OSError) as error:
        log.warning("a leftover stays: %s", display_safe(str(error)))
        return False
    return True
