"""Attempt trees: made, found again, recorded, removed.

Owns an attempt's directory: the private repository that the agent sees as its own,
and beside it, where no agent reaches, the daemon's git directory and index for the
same tree. Nothing the agent writes into its repository is ever read back: what the
daemon knows about the tree comes from its own index and from the files themselves.
"""

import asyncio
import contextlib
import dataclasses
import os
import re
from collections.abc import Mapping
from pathlib import Path

from fusiond.domain.errors import FusionError, IsolationError, NotFoundError, StorageError
from fusiond.domain.ids import AttemptId, CommitId, TreeId
from fusiond.domain.records import dataclass
from fusiond.ports.workspace import PreparedTree, Revision
from fusiond.workspace.bases import INSIDE, Bases
from fusiond.workspace.checkout.view import copy_index
from fusiond.workspace.disk.layout import Layout, git_directory, read_stamp, storing, write_ref, write_stamp
from fusiond.workspace.listing import CACHES
from fusiond.workspace.plumbing.git import LONG_S, Git, Place
from fusiond.workspace.store import Store

BRANCH = "refs/heads/fusion"
"""The branch that is checked out in an attempt's private repository."""

PATCH = "changes.patch"
NEVER = "never"
"""File of the daemon's git directory with ignore patterns that no `.gitignore` can take back."""

_PRIVATE = {"bare": "false", "fileMode": "true", "logAllRefUpdates": "true"}
_OWN = {"bare": "false", "fileMode": "true", "symlinks": "true", "logAllRefUpdates": "false"}
_IDENTITY = "[user]\n\tname = Fusion agent\n\temail = agent@localhost\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"
_ROOT_TRIES = 10
_DIRECTORY = re.compile(r"attempt-(\d+)\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt's tree on disk, with what its stamp says."""

    prepared: PreparedTree
    base: CommitId
    sandboxed: bool


@dataclass(slots=True)
class Attempts:
    """Makes and finds attempt trees."""

    git: Git
    layout: Layout
    bases: Bases
    store: Store

    async def prepare(
        self, attempt: AttemptId, base: Revision, start: Revision, *, sandboxed: bool
    ) -> PreparedTree:
        """Make an attempt's tree; see `ports.workspace.Workspace.prepare`.

        Raises:
            IsolationError: it cannot be made private; nothing may run.
            StorageError: the disk refused.
        """
        found = self.find(attempt)
        if found is not None and _same(found, base, start, sandboxed=sandboxed):
            return found.prepared
        await asyncio.to_thread(self.layout.discard, self.layout.attempt(attempt))
        try:
            with storing("the attempt's tree", IsolationError):
                await asyncio.to_thread(self._lay_skeleton, attempt, base, start, sandboxed=sandboxed)
                await self._fill(attempt, base, start)
                facts = _facts(base, start, sandboxed=sandboxed)
                await asyncio.to_thread(write_stamp, self.layout.attempt(attempt), facts)
        except (IsolationError, StorageError):
            raise
        except FusionError as error:
            raise IsolationError(
                f"the tree of {attempt} cannot be made: {error.found}",
                expected=error.expected,
                cure=error.cure or "run `fusion doctor`",
            ) from error
        return self._prepared(attempt, base.commit, start)

    def find(self, attempt: AttemptId) -> Attempt | None:
        """Return an attempt whose directory is complete, else None."""
        stamp = read_stamp(self.layout.attempt(attempt))
        places = self.layout.places(attempt)
        needed = (places.tree, places.outputs, places.report, places.session, self.own(attempt).index)
        if stamp is None or not all(each and os.path.exists(each) for each in needed):
            return None
        base = CommitId(stamp["base"])
        if not self.bases.is_packed(base):
            return None
        start = Revision(commit=CommitId(stamp["start"]), tree=TreeId(stamp["tree"]))
        return Attempt(
            prepared=self._prepared(attempt, base, start),
            base=base,
            sandboxed=stamp["sandboxed"] == "yes",
        )

    def need(self, attempt: AttemptId) -> Attempt:
        """Return an attempt whose directory is complete. NotFoundError."""
        found = self.find(attempt)
        if found is None:
            raise NotFoundError(
                f"the tree of {attempt} is not there or half-made", cure="start another attempt"
            )
        return found

    def own(self, attempt: AttemptId) -> Place:
        """Return the daemon's own view of an attempt's tree; nothing in it is the agent's."""
        root = self.layout.attempt(attempt)
        return Place(
            git_dir=f"{root}/git",
            work_tree=f"{root}/tree",
            index=f"{root}/git/index",
            objects=self.layout.objects,
        )

    def never(self, attempt: AttemptId) -> tuple[str, ...]:
        """Return the ignore patterns of an attempt that no `.gitignore` can take back."""
        path = Path(self.own(attempt).git_dir, NEVER)
        return tuple(path.read_text(encoding="utf-8").splitlines()) if path.exists() else ()

    def all(self) -> Mapping[str, str]:
        """Return every attempt directory on disk by the attempt's text form, also half-made ones."""
        found: dict[str, str] = {}
        for stage in os.scandir(self.layout.worktrees):
            if stage.name.startswith(".") or not stage.is_dir(follow_symlinks=False):
                continue
            for entry in os.scandir(stage.path):
                if match := _DIRECTORY.match(entry.name):
                    found[f"{stage.name}/{match[1]}"] = entry.path
        return found

    def remove_empty_stages(self) -> None:
        """Remove directories of stages without any attempt, as a crash in the midst of a removal leaves them."""
        for stage in os.scandir(self.layout.worktrees):
            if not stage.name.startswith(".") and stage.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    os.rmdir(stage.path)

    def _prepared(self, attempt: AttemptId, base: CommitId, start: Revision) -> PreparedTree:
        return PreparedTree(places=self.layout.places(attempt), start=start, mounts=self.bases.mounts(base))

    def _lay_skeleton(self, attempt: AttemptId, base: Revision, start: Revision, *, sandboxed: bool) -> None:
        places = self.layout.places(attempt)
        _make_root(places.root)
        for each in dataclasses.astuple(places):
            if each != places.root:
                os.mkdir(each, mode=0o700)
        object_format = self.store.object_format
        excludes = "".join(f"{pattern}\n" for pattern in CACHES)
        own, private = f"{places.root}/git", f"{places.tree}/.git"
        git_directory(own, object_format=object_format, head=BRANCH, options=_OWN)
        Path(own, "info/exclude").write_text(excludes)
        git_directory(private, object_format=object_format, head=BRANCH, options=_PRIVATE)
        Path(private, "info/attributes").unlink()
        Path(private, "info/exclude").write_text(excludes)
        with open(f"{private}/config", "a", encoding="utf-8") as config:
            config.write(_IDENTITY)
        objects = f"{INSIDE}/objects" if sandboxed else self.bases.objects_of(base.commit)
        Path(private, "objects/info/alternates").write_text(f"{objects}\n")
        write_ref(private, BRANCH, start.commit)

    async def _fill(self, attempt: AttemptId, base: Revision, start: Revision) -> None:
        own = self.own(attempt)
        private = f"{own.work_tree}/.git"
        if not self.bases.is_packed(base.commit):
            raise NotFoundError(f"the packed base {base.commit} is gone", cure="submit the run again")
        if start.commit != base.commit:
            wanted = f"{start.commit}\n^{base.commit}\n".encode()
            args = (
                "pack-objects",
                "--revs",
                "--quiet",
                "--delta-base-offset",
                f"{private}/objects/pack/pack",
            )
            await self.git.run(self.store.place, *args, stdin=wanted, timeout_s=LONG_S)
        await self.git.run(own, "read-tree", "--reset", "-u", start.tree, timeout_s=LONG_S)
        assert own.index is not None
        await asyncio.to_thread(copy_index, own.index, f"{private}/index")


def _same(found: Attempt, base: Revision, start: Revision, *, sandboxed: bool) -> bool:
    return (found.base, found.prepared.start, found.sandboxed) == (base.commit, start, sandboxed)


def _facts(base: Revision, start: Revision, *, sandboxed: bool) -> dict[str, str]:
    return {
        "base": base.commit,
        "start": start.commit,
        "tree": start.tree,
        "sandboxed": "yes" if sandboxed else "no",
    }


def _make_root(root: str) -> None:
    """Make an attempt's directory; the removal of an earlier attempt may take the stage's away meanwhile."""
    for _ in range(_ROOT_TRIES):
        os.makedirs(os.path.dirname(root), mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.mkdir(root, mode=0o700)
            return
    raise IsolationError(f"{os.path.dirname(root)} vanishes again and again", cure="end what removes it")
