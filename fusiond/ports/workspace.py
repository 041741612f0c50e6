"""The ports of the workspace: git revisions, attempt trees, setup results, code evidence."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from fusiond.domain.digest import Digest
from fusiond.domain.ids import AttemptId, CommitId, NodeId, RunId, TreeId
from fusiond.domain.launch import Mount
from fusiond.domain.records import dataclass
from fusiond.ports.content import Page


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A commit and its tree, as full object ids."""

    commit: CommitId
    tree: TreeId


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeConflict:
    """Revisions that do not merge, with the paths, sorted."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptPlaces:
    """Host directories of one attempt, all private to it.

    Args:
        root: holds the others.
        tree: the worktree, seen as `/attempt`.
        outputs: `$FUSION_OUTPUTS`.
        report: holds `artifacts.json` and `result.md`.
        session: `$FUSION_SESSION`, kept across reruns.
        inputs: laid read-only copies.
        feedback: feedback files, written by the supervisor only.
        home: the attempt's `$HOME`.
    """

    root: str
    tree: str
    outputs: str
    report: str
    session: str
    inputs: str
    feedback: str
    home: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTree:
    """A worktree ready to run in. `mounts` make its base history readable inside."""

    places: AttemptPlaces
    start: Revision
    mounts: tuple[Mount, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSnapshot:
    """The worktree as a tree id; `nested` are repositories inside it, which are problems."""

    tree: TreeId
    nested: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedTree:
    """The attempt's pinned revision and its patch against the start, as a host file."""

    revision: Revision
    patch_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What `fusion merge` did to the user's repository."""

    ref: str
    before: CommitId
    after: CommitId
    fast_forward: bool


class Workspace(Protocol):
    """Attempt trees and their revisions; the user's `.git` is only read, but for `deliver`."""

    async def resolve_base(
        self, revision: str | None, *, include_dirty: bool, aside: frozenset[str] = frozenset()
    ) -> Revision:
        """Resolve and pack the base (default HEAD). RefusedError for a dirty checkout and kin.

        `aside` are paths, relative to the workspace, that the submission pins by digest
        anyway, so their changes make no checkout dirty.
        """
        ...

    async def merge(self, base: Revision, parents: Sequence[CommitId]) -> Revision | MergeConflict:
        """Left-fold `parents` with `git merge-tree`; the base itself when there are none."""
        ...

    async def prepare(
        self, attempt: AttemptId, base: Revision, start: Revision, *, sandboxed: bool
    ) -> PreparedTree:
        """Make the attempt's private repository and tree at `start`; idempotent over leftovers."""
        ...

    async def existing(self, attempt: AttemptId) -> PreparedTree | None:
        """Return the attempt's tree if it is intact on disk, else None."""
        ...

    async def snapshot(self, attempt: AttemptId) -> TreeSnapshot:
        """Record the worktree as a tree; no hooks, filters or agent-written configuration."""
        ...

    async def commit(self, attempt: AttemptId, tree: TreeId, message: str) -> CommittedTree:
        """Commit `tree` on the attempt's start and pin it; the same call gives the same commit."""
        ...

    async def discard(self, attempt: AttemptId) -> None:
        """Remove an attempt's directories. Only after it is frozen or its failure recorded."""
        ...

    async def sweep(self, keep: frozenset[str], keep_runs: frozenset[RunId]) -> Sequence[str]:
        """Remove attempt directories that no open attempt owns; return what was removed.

        Args:
            keep: attempts as `str(AttemptId)` writes them.
            keep_runs: runs of which nobody can say what is open: nothing of theirs goes.
        """
        ...


FileMark = tuple[int, int, int, int]
"""Inode, mode, size in bytes, and the kernel's time of the last change (ctime) in nanoseconds."""

CheckoutMarks = Mapping[str, FileMark]
"""Files of the user's checkout by relative path, those of `.git` that steer git included."""


class Checkout(Protocol):
    """The user's checkout, looked at to say whether an attempt without walls wrote into it."""

    async def marks(self) -> CheckoutMarks:
        """Look at every file that git lists, and at HEAD, refs, hooks and configuration.

        Raises:
            RefusedError, UnsupportedError: the repository is not one that a run can start from.
        """
        ...


class Results(Protocol):
    """Pins of a run in `.fusion/repo.git` and their delivery into the user's repository."""

    async def pin_run(self, run: RunId, base: Revision) -> None:
        """Pin the base as `refs/runs/<run>/base`."""
        ...

    async def pin_result(self, run: RunId, result: Revision) -> None:
        """Pin the run's result as `refs/runs/<run>/result`."""
        ...

    async def deliver(self, run: RunId, result: Revision, message: str) -> Merged | MergeConflict:
        """Bring the result into the user's repository: the only writer of its `.git`."""
        ...


class SetupCache(Protocol):
    """Results of `setup:` commands by key, never writable by an agent afterwards."""

    async def find(self, key: Digest) -> bool:
        """Say whether a complete result is stored."""
        ...

    async def store(self, key: Digest, scratch: AttemptPlaces) -> None:
        """Keep what the setup command added to the scratch tree."""
        ...

    async def lay(self, key: Digest, attempt: AttemptId, *, sandboxed: bool) -> tuple[Mount, ...]:
        """Make the result visible in the attempt's tree; mounts when sandboxed, else copies."""
        ...


class EntryKind(StrEnum):
    """Kinds of entries in a code listing."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    SUBMODULE = "submodule"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeEntry:
    """One entry: path, size, media type, digest, nothing else (`engine.md`, Evidence)."""

    path: str
    kind: EntryKind
    size: int
    media_type: str
    digest: Digest | None


class CodeEvidence(Protocol):
    """Reads frozen trees by handle and normalised relative path, never by revision name."""

    async def entries(self, revision: Revision, path: str) -> Sequence[CodeEntry]:
        """List one directory (`""` is the root). RefusedError for anything but a plain path."""
        ...

    async def page(self, revision: Revision, path: str, offset: int, limit: int) -> Page:
        """Read a page of a file's body. NotFoundError, RefusedError."""
        ...

    async def diff(self, old: Revision, new: Revision, path: str) -> bytes:
        """Return the unified diff between two frozen trees, optionally below one path."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRevision:
    """A pinned revision with the node that made it."""

    node: NodeId
    revision: Revision
