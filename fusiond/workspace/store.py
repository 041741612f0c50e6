"""`.fusion/repo.git`: the daemon's own repository, where revisions are kept and merged.

Owns its skeleton, the list of bases it borrows objects from, pins, commits with
Fusion's identity, and merges. Neither agents nor the user's git write here. Every
commit made here is a function of its inputs: the same call gives the same id.
"""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fusiond.domain.errors import ConflictError, CorruptError, UnsupportedError
from fusiond.domain.ids import AttemptId, CommitId, RunId, TreeId, is_object_id
from fusiond.ports.workspace import MergeConflict, Revision
from fusiond.workspace.disk.layout import (
    Layout,
    git_directory,
    storing,
    sync_directory,
)
from fusiond.workspace.disk.removal import remove_tree
from fusiond.workspace.plumbing.git import QUICK_S, Git, Place, Signature
from fusiond.workspace.plumbing.objects import ObjectReader

NAME = "Fusion"
EMAIL = "fusion@localhost"
_OPTIONS = {"bare": "true", "logAllRefUpdates": "false"}


def run_ref(run: RunId, what: str) -> str:
    """Return the name of a run's pin; `what` is `base` or `result`."""
    return f"refs/runs/{run}/{what}"


def attempt_ref(attempt: AttemptId) -> str:
    """Return the name of an attempt's pin."""
    return f"refs/runs/{attempt.stage.run}/nodes/{attempt.stage.node}/{attempt.number}"


@dataclass(slots=True)
class Store:
    """The daemon's own repository."""

    git: Git
    layout: Layout
    reader: ObjectReader = field(init=False)
    _refs: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def __post_init__(self) -> None:
        """Prepare the reader; no process starts before it is needed."""
        self.reader = ObjectReader(self.git, self.place, self.generation)

    @property
    def place(self) -> Place:
        """The repository as git sees it."""
        return Place(git_dir=self.layout.repo)

    @property
    def _alternates(self) -> str:
        return f"{self.layout.objects}/info/alternates"

    def generation(self) -> int:
        """Return a number that changes whenever another base is borrowed from."""
        try:
            return os.stat(self._alternates).st_size
        except FileNotFoundError:
            return 0

    @property
    def object_format(self) -> str:
        """`sha1` or `sha256`, as the repository was made."""
        config = Path(self.layout.repo, "config").read_text(encoding="utf-8")
        return "sha256" if "sha256" in config else "sha1"

    async def create(self, object_format: str) -> None:
        """Make the repository unless it is there.

        Raises:
            UnsupportedError: it is there with another object format.
        """
        if not os.path.isdir(self.layout.repo):
            making = self.layout.fresh("repo")
            with storing("the workspace's own repository"):
                git_directory(making, object_format=object_format, head="refs/heads/none", options=_OPTIONS)
                try:
                    os.rename(making, self.layout.repo)
                except OSError:
                    if not os.path.isdir(self.layout.repo):
                        raise
                    remove_tree(making)
        if self.object_format != object_format:
            raise UnsupportedError(
                f"the workspace was begun with {self.object_format} and the repository now has {object_format}",
                cure="move `.fusion` away and begin a new workspace",
            )

    async def borrow(self, commit: CommitId) -> None:
        """Make a packed base's objects part of the repository, without copying them."""
        async with self._refs:
            with storing("the workspace's own repository"):
                await asyncio.to_thread(self._add_alternate, f"../../bases/{commit}.git/objects\n")

    def _add_alternate(self, line: str) -> None:
        path = Path(self._alternates)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if line in text.splitlines(keepends=True):
            return
        # One short append: a second process that does the same at the same time loses nothing.
        with path.open("a", encoding="utf-8") as file:
            file.write(line if text.endswith("\n") or not text else f"\n{line}")
            file.flush()
            os.fsync(file.fileno())
        sync_directory(os.path.dirname(self._alternates))

    async def pin(self, ref: str, commit: CommitId) -> None:
        """Create a ref that then never moves; the same call again changes nothing.

        Raises:
            ConflictError: it is there with another commit.
        """
        async with self._refs:
            # This lock's holder is the only writer, so a lock file is a killed git's leftover.
            Path(self.layout.repo, f"{ref}.lock").unlink(missing_ok=True)
            update = f"create {ref} {commit}\n".encode()
            ended = await self.git.run(self.place, "update-ref", "--stdin", stdin=update, ok=(0, 128))
            if ended.code == 0:
                return
            found = await self._pinned(ref)
            if found is None:
                await self.git.run(self.place, "update-ref", "--stdin", stdin=update)
            elif found != commit:
                raise ConflictError(f"{ref} is {found}", expected=commit, state=found)

    async def repin(self, ref: str, commit: CommitId) -> None:
        """Set a ref that may still move: an attempt's, until the attempt is frozen."""
        async with self._refs:
            Path(self.layout.repo, f"{ref}.lock").unlink(missing_ok=True)
            update = f"update {ref} {commit}\n".encode()
            await self.git.run(self.place, "update-ref", "--stdin", stdin=update)

    async def _pinned(self, ref: str) -> CommitId | None:
        args = ("show-ref", "--verify", "--hash", "--", ref)
        ended = await self.git.run(self.place, *args, ok=(0, 1, 128))
        text = ended.out.decode().strip()
        return CommitId(text) if ended.code == 0 and is_object_id(text) else None

    async def revision(self, commit: CommitId) -> Revision:
        """Return a commit with its tree. NotFoundError, CorruptError."""
        tree, _ = await self._facts(commit)
        return Revision(commit=commit, tree=tree)

    async def _facts(self, commit: CommitId) -> tuple[TreeId, int]:
        return commit_facts(await self.reader.read(commit, "commit"))

    async def commit(
        self, tree: TreeId, parents: Sequence[CommitId], message: str, *, place: Place | None = None
    ) -> Revision:
        """Make a commit with Fusion's identity, dated as its first parent.

        Args:
            tree: its tree.
            parents: at least one.
            message: any text.
            place: where, if not here.
        """
        _, at_s = await self._facts(parents[0])
        sign = Signature(name=NAME, email=EMAIL, at_s=at_s)
        return Revision(
            commit=await commit_tree(self.git, place or self.place, tree, parents, message, sign), tree=tree
        )

    async def merge(self, base: Revision, parents: Sequence[CommitId]) -> Revision | MergeConflict:
        """Fold `parents` from the left; see `ports.workspace.Workspace.merge`."""
        merged = base
        for parent in parents:
            ancestor = await merge_base(self.git, self.place, merged.commit, parent)
            if ancestor == parent:
                continue
            if ancestor == merged.commit:
                merged = await self.revision(parent)
                continue
            tree = await merge_trees(self.git, self.place, merged.commit, parent)
            if isinstance(tree, MergeConflict):
                return tree
            merged = await self.commit(tree, (merged.commit, parent), f"Merge {parent}")
        return merged

    async def close(self) -> None:
        """End the reader's process."""
        await self.reader.close()

    def remove_stale_locks(self) -> None:
        """Remove lock files that a killed git left; only while no git runs here."""
        repo = Path(self.layout.repo)
        left = [*repo.glob("*.lock"), *repo.glob("refs/**/*.lock"), *repo.glob("objects/info/*.lock")]
        for each in (*left, *repo.glob("objects/tmp_*"), *repo.glob("objects/pack/tmp_*")):
            each.unlink(missing_ok=True)


def commit_facts(body: bytes) -> tuple[TreeId, int]:
    """Return tree and committer's date (seconds since 1970) of a commit object's body. CorruptError."""
    tree, at_s = "", None
    for line in body.partition(b"\n\n")[0].split(b"\n"):
        word, _, rest = line.partition(b" ")
        if word == b"tree":
            tree = rest.decode(errors="replace")
        elif word == b"committer":
            date = rest.rpartition(b"> ")[2].split(b" ")[0]
            at_s = int(date) if date.isdigit() else 0
    if not is_object_id(tree) or at_s is None:
        raise CorruptError("a commit object without tree or committer", cure="run `git fsck`")
    return TreeId(tree), at_s


async def commit_tree(
    git: Git, place: Place, tree: TreeId, parents: Sequence[CommitId], message: str, sign: Signature
) -> CommitId:
    """Write a commit object; no hook runs and nothing is signed."""
    args = [part for parent in parents for part in ("-p", parent)]
    # git refuses NUL, and a lone surrogate is no text.
    text = message.replace("\0", "").encode(errors="replace") or b"(no message)"
    if not text.endswith(b"\n"):
        text += b"\n"
    ended = await git.run(place, "commit-tree", *args, tree, stdin=text, sign=sign)
    return CommitId(ended.out.decode().strip())


async def merge_base(git: Git, place: Place, one: CommitId, other: CommitId) -> CommitId | None:
    """Return the best common ancestor of two commits, None where they share no history."""
    ended = await git.run(place, "merge-base", one, other, ok=(0, 1))
    return CommitId(ended.out.decode().strip()) if ended.code == 0 else None


async def merge_trees(git: Git, place: Place, ours: CommitId, theirs: CommitId) -> TreeId | MergeConflict:
    """Merge two commits' trees, with neither checkout nor index."""
    args = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs)
    ended = await git.run(place, *args, ok=(0, 1), timeout_s=QUICK_S)
    tree, *paths = ended.out.split(b"\0")
    if ended.code == 0:
        return TreeId(tree.decode().strip())
    names = {path.decode(errors="backslashreplace") for path in paths if path}
    return MergeConflict(paths=tuple(sorted(names)))
