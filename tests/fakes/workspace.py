"""An in-memory workspace: commits and trees as dictionaries, attempt directories on disk.

Owns the promises of `ports.workspace` that execution relies on: ids that are functions of
content, attempts laid at their start, snapshots of what is in the directory, merges with
conflicts, pins that never move, setup results laid beside them. Knows no git, no ignore
files, no links and no modes; a directory with a `.git` in it is nested.
"""

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path

from fusiond.domain.digest import Digest, digest_bytes
from fusiond.domain.errors import ConflictError, NotFoundError, RefusedError
from fusiond.domain.ids import AttemptId, CommitId, RunId, TreeId
from fusiond.domain.launch import Mount
from fusiond.domain.paths import media_type_by_suffix
from fusiond.ports.content import Page
from fusiond.ports.workspace import (
    AttemptPlaces,
    CodeEntry,
    CodeEvidence,
    CommittedTree,
    EntryKind,
    MergeConflict,
    Merged,
    PreparedTree,
    Results,
    Revision,
    SetupCache,
    TreeSnapshot,
    Workspace,
)

Files = dict[str, bytes]


def _id(*parts: object) -> str:
    return hashlib.sha1(repr(parts).encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeCommit:
    """A commit: its tree, its parents, its message."""

    tree: TreeId
    parents: tuple[CommitId, ...]
    message: str


@dataclass(slots=True)
class FakeRepository:
    """Every object and pin; what the fakes of one workspace share.

    Args:
        root: real directory below which attempts and setup results lie.
    """

    root: Path
    trees: dict[TreeId, Files] = field(default_factory=dict)
    commits: dict[CommitId, FakeCommit] = field(default_factory=dict)
    pins: dict[str, CommitId] = field(default_factory=dict)

    def add_tree(self, files: Mapping[str, bytes]) -> TreeId:
        """Keep a tree and return its id."""
        tree = TreeId(_id("tree", sorted(files.items())))
        self.trees[tree] = dict(files)
        return tree

    def add_commit(self, tree: TreeId, parents: Sequence[CommitId], message: str) -> Revision:
        """Keep a commit and return it."""
        commit = CommitId(_id("commit", tree, tuple(parents), message))
        self.commits[commit] = FakeCommit(tree=tree, parents=tuple(parents), message=message)
        return Revision(commit=commit, tree=tree)

    def revision(self, commit: CommitId) -> Revision:
        """Return a commit with its tree. NotFoundError."""
        if commit not in self.commits:
            raise NotFoundError(f"no commit {commit}")
        return Revision(commit=commit, tree=self.commits[commit].tree)

    def files(self, revision: Revision) -> Files:
        """Return a copy of a revision's files. NotFoundError."""
        if revision.tree not in self.trees:
            raise NotFoundError(f"no tree {revision.tree}")
        return dict(self.trees[revision.tree])

    def lineage(self, commit: CommitId) -> list[CommitId]:
        """Return a commit and its ancestors, the nearest first."""
        found: list[CommitId] = []
        waiting = [commit]
        while waiting:
            each = waiting.pop(0)
            if each not in found:
                found.append(each)
                waiting.extend(self.commits[each].parents)
        return found

    def pin(self, name: str, commit: CommitId) -> None:
        """Pin a commit under a name for good. ConflictError."""
        if self.pins.setdefault(name, commit) != commit:
            raise ConflictError(f"{name} is {self.pins[name]}", expected=commit)

    def merge(self, ours: Revision, theirs: Revision, message: str) -> Revision | MergeConflict:
        """Merge two revisions, file by file, over their nearest common ancestor."""
        older = self.lineage(ours.commit)
        newer = self.lineage(theirs.commit)
        if theirs.commit in older:
            return ours
        if ours.commit in newer:
            return theirs
        shared = next(each for each in older if each in newer)
        old = self.files(self.revision(shared))
        mine, yours = self.files(ours), self.files(theirs)
        merged: Files = {}
        conflicts: list[str] = []
        for path in sorted({*old, *mine, *yours}):
            was, here, there = old.get(path), mine.get(path), yours.get(path)
            if here not in (was, there) and there != was:
                conflicts.append(path)
                continue
            body = there if here == was else here
            if body is not None:
                merged[path] = body
        if conflicts:
            return MergeConflict(paths=tuple(conflicts))
        return self.add_commit(self.add_tree(merged), (ours.commit, theirs.commit), message)


@dataclass(slots=True)
class FakeWorkspace(Workspace):
    """Attempt directories over a FakeRepository.

    Args:
        repository: objects and pins.
        head: what is checked out.
        dirty: the checkout's files where they differ from `head`; None when clean.
        branches: names that `resolve_base` knows beside HEAD.
        fails: an error for the next `prepare`, raised once.
        prepared: attempts on disk, with what they were prepared with.
    """

    repository: FakeRepository
    head: Revision
    dirty: Files | None = None
    branches: dict[str, CommitId] = field(default_factory=dict)
    fails: Exception | None = None
    prepared: dict[AttemptId, PreparedTree] = field(default_factory=dict)

    async def resolve_base(
        self, revision: str | None, *, include_dirty: bool, aside: frozenset[str] = frozenset()
    ) -> Revision:
        if include_dirty and self.dirty is not None:
            tree = self.repository.add_tree(self.dirty)
            return self.repository.add_commit(tree, (self.head.commit,), "uncommitted")
        if revision is None:
            if self._changed() - aside:
                raise RefusedError("the checkout has uncommitted changes", cure="commit them")
            return self.head
        commit = self.branches.get(revision, CommitId(revision))
        if revision == "HEAD":
            commit = self.head.commit
        if commit not in self.repository.commits:
            raise RefusedError(f"{revision!r} names no commit")
        return self.repository.revision(commit)

    def _changed(self) -> set[str]:
        """Return the paths in which the checkout differs from `head`."""
        if self.dirty is None:
            return set()
        files = self.repository.files(self.head)
        return {path for path in {*files, *self.dirty} if files.get(path) != self.dirty.get(path)}

    async def merge(self, base: Revision, parents: Sequence[CommitId]) -> Revision | MergeConflict:
        merged = base
        for parent in parents:
            found = self.repository.merge(merged, self.repository.revision(parent), f"Merge {parent}")
            if isinstance(found, MergeConflict):
                return found
            merged = found
        return merged

    def places(self, attempt: AttemptId) -> AttemptPlaces:
        """Return where an attempt lies."""
        root = self.repository.root / "worktrees" / str(attempt.stage) / f"attempt-{attempt.number}"
        names = ("tree", "outputs", "report", "session", "inputs", "feedback", "home")
        return AttemptPlaces(root=str(root), **{name: str(root / name) for name in names})

    async def prepare(
        self, attempt: AttemptId, base: Revision, start: Revision, *, sandboxed: bool
    ) -> PreparedTree:
        if self.fails is not None:
            error, self.fails = self.fails, None
            raise error
        mounts = (Mount(source=str(self.repository.root / "bases" / base.commit), target="/fusion/base"),)
        prepared = PreparedTree(places=self.places(attempt), start=start, mounts=mounts)
        if self.prepared.get(attempt) == prepared and Path(prepared.places.tree).is_dir():
            return prepared
        shutil.rmtree(prepared.places.root, ignore_errors=True)
        for place in astuple(prepared.places):
            Path(place).mkdir(parents=True, exist_ok=True)
        for path, body in self.repository.files(start).items():
            file = Path(prepared.places.tree, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(body)
        self.prepared[attempt] = prepared
        return prepared

    async def existing(self, attempt: AttemptId) -> PreparedTree | None:
        prepared = self.prepared.get(attempt)
        return prepared if prepared is not None and Path(prepared.places.tree).is_dir() else None

    async def snapshot(self, attempt: AttemptId) -> TreeSnapshot:
        tree = Path((await self._need(attempt)).places.tree)
        nested = {each.parent for each in tree.rglob(".git") if each.parent != tree}
        laid = self._laid(attempt)
        files = {
            str(path.relative_to(tree)): path.read_bytes()
            for path in sorted(tree.rglob("*"))
            if path.is_file()
            and not any(each in nested for each in path.parents)
            and path.relative_to(tree).parts[0] not in {".git", *laid}
        }
        names = tuple(sorted(str(each.relative_to(tree)) for each in nested))
        return TreeSnapshot(tree=self.repository.add_tree(files), nested=names)

    async def commit(self, attempt: AttemptId, tree: TreeId, message: str) -> CommittedTree:
        prepared = await self._need(attempt)
        revision = prepared.start
        if tree != revision.tree:
            revision = self.repository.add_commit(tree, (prepared.start.commit,), message)
        self.repository.pins[str(attempt)] = revision.commit
        patch = Path(prepared.places.root, "changes.patch")
        patch.write_bytes(_diff(self.repository.files(prepared.start), self.repository.files(revision), ""))
        return CommittedTree(revision=revision, patch_path=str(patch))

    async def discard(self, attempt: AttemptId) -> None:
        self.prepared.pop(attempt, None)
        shutil.rmtree(self.places(attempt).root, ignore_errors=True)

    async def sweep(self, keep: frozenset[str], keep_runs: frozenset[RunId]) -> Sequence[str]:
        doomed = [
            attempt
            for attempt in self.prepared
            if str(attempt) not in keep and attempt.stage.run not in keep_runs
        ]
        for attempt in doomed:
            await self.discard(attempt)
        return sorted(map(str, doomed))

    async def _need(self, attempt: AttemptId) -> PreparedTree:
        prepared = await self.existing(attempt)
        if prepared is None:
            raise NotFoundError(f"the tree of {attempt} is not there")
        return prepared

    def _laid(self, attempt: AttemptId) -> set[str]:
        laid = Path(self.places(attempt).root, "laid")
        return set(laid.read_text().splitlines()) if laid.exists() else set()


@dataclass(slots=True)
class FakeResults(Results):
    """Pins, and a branch of the user's that results are delivered to.

    Args:
        repository: objects and pins.
        workspace: its `head` is the user's branch.
        ref: name of that branch.
    """

    repository: FakeRepository
    workspace: FakeWorkspace
    ref: str = "refs/heads/main"

    async def pin_run(self, run: RunId, base: Revision) -> None:
        self.repository.pin(f"{run}/base", base.commit)

    async def pin_result(self, run: RunId, result: Revision) -> None:
        self.repository.pin(f"{run}/result", result.commit)

    async def deliver(self, run: RunId, result: Revision, message: str) -> Merged | MergeConflict:
        before = self.workspace.head
        if self.workspace.dirty is not None:
            raise RefusedError("the checkout has uncommitted changes", cure="commit them")
        after = self.repository.merge(before, result, message)
        if isinstance(after, MergeConflict):
            return after
        self.workspace.head = after
        return Merged(
            ref=self.ref,
            before=before.commit,
            after=after.commit,
            fast_forward=after in (before, result),
        )


@dataclass(slots=True)
class FakeSetupCache(SetupCache):
    """Setup results as directories below the repository's root."""

    workspace: FakeWorkspace
    stored: dict[Digest, Files] = field(default_factory=dict)

    async def find(self, key: Digest) -> bool:
        return key in self.stored

    async def store(self, key: Digest, scratch: AttemptPlaces) -> None:
        start = next(
            each.start for each in self.workspace.prepared.values() if each.places.root == scratch.root
        )
        tracked = self.workspace.repository.files(start)
        tree = Path(scratch.tree)
        found = {str(each.relative_to(tree)): each for each in sorted(tree.rglob("*")) if each.is_file()}
        added = {path: file.read_bytes() for path, file in found.items() if path not in tracked}
        self.stored.setdefault(key, added)

    async def lay(self, key: Digest, attempt: AttemptId, *, sandboxed: bool) -> tuple[Mount, ...]:
        if key not in self.stored:
            raise NotFoundError(f"no setup result {key}")
        places = self.workspace.places(attempt)
        kept = self.workspace.repository.root / "setup" / key
        tops = sorted({path.split("/")[0] for path in self.stored[key]})
        Path(places.root, "laid").write_text("".join(f"{top}\n" for top in tops))
        for path, body in self.stored[key].items():
            file = (kept if sandboxed else Path(places.tree)) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(body)
        if not sandboxed:
            return ()
        return tuple(Mount(source=str(kept / top), target=f"/attempt/{top}") for top in tops)


@dataclass(slots=True)
class FakeCode(CodeEvidence):
    """Code evidence over a FakeRepository."""

    repository: FakeRepository

    async def entries(self, revision: Revision, path: str) -> Sequence[CodeEntry]:
        files = self.repository.files(revision)
        below = f"{_plain(path)}/" if path else ""
        names = {each[len(below) :].split("/")[0] for each in files if each.startswith(below)}
        if not names:
            raise RefusedError(f"{path} is a file") if path in files else NotFoundError(f"no {path}")
        return [self._entry(files, below + name) for name in sorted(names)]

    def _entry(self, files: Files, path: str) -> CodeEntry:
        body = files.get(path)
        if body is None:
            kind, media_type = EntryKind.DIRECTORY, "inode/directory"
            return CodeEntry(path=path, kind=kind, size=0, media_type=media_type, digest=None)
        return CodeEntry(
            path=path,
            kind=EntryKind.FILE,
            size=len(body),
            media_type=media_type_by_suffix(path),
            digest=digest_bytes(body),
        )

    async def page(self, revision: Revision, path: str, offset: int, limit: int) -> Page:
        files = self.repository.files(revision)
        body = files.get(_plain(path))
        if body is None:
            is_directory = any(each.startswith(f"{path}/") for each in files)
            raise RefusedError(f"{path} is a directory") if is_directory else NotFoundError(f"no {path}")
        return Page(offset=offset, total=len(body), data=body[offset : offset + limit])

    async def diff(self, old: Revision, new: Revision, path: str) -> bytes:
        return _diff(self.repository.files(old), self.repository.files(new), path and _plain(path))


def _plain(path: str) -> str:
    if not path or any(part in {"", ".", "..", ".git"} for part in path.split("/")) or path[0] == ":":
        raise RefusedError(f"{path!r} is no plain path")
    return path


def _diff(old: Files, new: Files, path: str) -> bytes:
    changed = [each for each in sorted({*old, *new}) if old.get(each) != new.get(each)]
    within = [each for each in changed if not path or each == path or each.startswith(f"{path}/")]
    lines = [b"diff --git a/%s b/%s\n" % (each.encode(), each.encode()) for each in within]
    return b"".join(lines)


def fake_workspace(root: Path, files: Mapping[str, bytes]) -> FakeWorkspace:
    """Make a workspace whose checkout has one commit with `files`."""
    repository = FakeRepository(root)
    head = repository.add_commit(repository.add_tree(files), (), "first")
    return FakeWorkspace(repository, head)
