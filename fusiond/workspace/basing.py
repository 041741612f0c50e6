"""Turns what a user asks to start from into a packed base.

Owns the refusal of a dirty checkout and the snapshot of one (`flow.md`, Code between
nodes). The user's `.git` and checkout are only read: even the index that the
snapshot is made with is a copy.
"""

from dataclasses import dataclass

from fusiond.domain.display import display_safe
from fusiond.domain.errors import RefusedError
from fusiond.domain.ids import CommitId, TreeId
from fusiond.ports.workspace import Revision
from fusiond.workspace.bases import Bases
from fusiond.workspace.checkout.source import Source, find_source
from fusiond.workspace.checkout.view import listed, resolve_commit, uncommitted, viewing
from fusiond.workspace.disk.layout import Layout
from fusiond.workspace.plumbing.git import LONG_S, Git, Place
from fusiond.workspace.store import Store

SNAPSHOT_MESSAGE = "Uncommitted changes at the start of a Fusion run"
_HEAD = "HEAD"
_GITLINK = b"160000"


@dataclass(slots=True)
class Basing:
    """Resolves, snapshots and packs bases.

    Args:
        git: runs git.
        layout: the workspace.
        bases: where they are packed.
        store: the daemon's own repository.
        home: the user's home, None for none.
    """

    git: Git
    layout: Layout
    bases: Bases
    store: Store
    home: str | None

    async def resolve(
        self, revision: str | None, *, include_dirty: bool, aside: frozenset[str] = frozenset()
    ) -> Revision:
        """Resolve and pack a base; see `ports.workspace.Workspace.resolve_base`.

        The checkout matters only where no revision is named.
        """
        source = await find_source(self.git, self.layout, self.home)
        await self.store.create(source.object_format)
        async with viewing(source, self.layout, index=True) as view:
            head = await resolve_commit(self.git, view, _HEAD) if revision is None or include_dirty else None
            commit = head if revision is None else await resolve_commit(self.git, view, revision)
            assert commit is not None
            if include_dirty and commit != head:
                raise RefusedError(
                    f"{display_safe(revision or '', max_chars=100)} is not what is checked out",
                    expected="uncommitted changes on top of HEAD",
                    cure="leave out either the revision or --include-dirty",
                )
            if revision is None and not include_dirty:
                await self._refuse_dirty(view, aside)
            base = await self._packed(commit, view, source)
            if include_dirty:
                base = await self._with_uncommitted(base, view, source)
        return base

    async def _packed(self, commit: CommitId, place: Place, source: Source) -> Revision:
        await self.bases.ensure(commit, place, source.object_format)
        await self.store.borrow(commit)
        return await self.store.revision(commit)

    async def _refuse_dirty(self, view: Place, aside: frozenset[str]) -> None:
        found = await uncommitted(self.git, view, every_file=bool(aside))
        paths = [path for path in found if path not in aside]
        if paths:
            raise RefusedError(
                f"the checkout has uncommitted changes in {len(paths)} "
                f"file{'' if len(paths) == 1 else 's'}: {listed(paths)}",
                expected="a clean checkout, since attempts start from a commit",
                cure="commit or stash them, ignore them, or submit with --include-dirty",
                fields={"paths": "\n".join(display_safe(path) for path in paths)},
            )

    async def _with_uncommitted(self, head: Revision, view: Place, source: Source) -> Revision:
        """Snapshot the checkout as a commit on HEAD, in the daemon's own repository."""
        await self._refuse_nested(view)
        # Objects are written to our own store and the user's are not even borrowed: git
        # touches the times of objects that it was about to write and finds present.
        writing = Place(
            git_dir=view.git_dir, work_tree=view.work_tree, index=view.index, objects=self.layout.objects
        )
        await self.git.run(writing, "add", "--all", "--", ".", timeout_s=LONG_S)
        tree = (await self.git.run(writing, "write-tree", "--missing-ok")).out.decode().strip()
        if tree == head.tree:
            return head
        await self._bring_staged(TreeId(tree), head, source)
        dirty = await self.store.commit(TreeId(tree), (head.commit,), SNAPSHOT_MESSAGE)
        return await self._packed(dirty.commit, self.store.place, source)

    async def _refuse_nested(self, view: Place) -> None:
        ended = await self.git.run(view, "ls-files", "-z", "--others", "--exclude-standard")
        nested = [path for path in ended.out.decode(errors="surrogateescape").split("\0") if path[-1:] == "/"]
        if nested:
            raise RefusedError(
                f"the checkout has other repositories inside: {listed(nested)}",
                expected="files only",
                cure="have `.gitignore` name them, or move them away",
            )

    async def _bring_staged(self, tree: TreeId, head: Revision, source: Source) -> None:
        """Bring over blobs that the user staged: they are in no commit and only in their objects."""
        args = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", head.tree, tree)
        fields = (await self.git.run(self.store.place, *args)).out.split(b"\0")
        blobs: list[str] = []
        for line in fields[0::2]:
            if not line:
                continue
            _, mode, _, blob, status = line.split(b" ")
            if mode != _GITLINK and status != b"D":
                blobs.append(blob.decode())
        both = Place(git_dir=self.layout.repo, alternates=(source.objects,))
        asked = "".join(f"{blob}\n" for blob in blobs).encode()
        pack = f"{self.layout.objects}/pack/pack"
        await self.git.run(both, "pack-objects", "--quiet", "--window=0", pack, stdin=asked)
