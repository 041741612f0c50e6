"""Packed base histories: all that an attempt can see of the past.

Owns `.fusion/bases/<commit>.git`, one bare repository a base, which holds the base,
its ancestors and nothing else, and the rules on which trees can be a base. A base
that descends from one packed before holds only what is new and borrows the rest,
so that many runs on a moving branch do not copy its history each time.
"""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fusiond.domain.errors import UnsupportedError
from fusiond.domain.ids import CommitId
from fusiond.domain.launch import Mount
from fusiond.workspace.checkout.view import filter_attributes, is_ancestor, listed
from fusiond.workspace.disk.layout import (
    STAMP,
    Layout,
    git_directory,
    read_stamp,
    storing,
    sync_directory,
    write_ref,
    write_stamp,
)
from fusiond.workspace.disk.removal import remove_tree
from fusiond.workspace.plumbing.git import LONG_S, Git, GitError, Place

INSIDE = "/fusion/base"
"""Where the packed base is seen inside a sandbox."""

_CANDIDATES = 4
_GITLINK = "160000"
_LFS_ATTRIBUTE = b"filter=lfs"
_LFS_HEAD = b"version https://git-lfs.github.com/spec/"
_LFS_MAX_BYTES = 1024
_OPTIONS = {"bare": "true", "logAllRefUpdates": "false"}


@dataclass(slots=True)
class Bases:
    """Packs bases and names them."""

    git: Git
    layout: Layout
    _locks: dict[CommitId, asyncio.Lock] = field(default_factory=dict, init=False)

    def is_packed(self, commit: CommitId) -> bool:
        """Say whether the base is there, whole."""
        return read_stamp(self.layout.base(commit)) is not None

    async def ensure(self, commit: CommitId, place: Place, object_format: str) -> None:
        """Pack a base unless it is packed.

        Args:
            commit: the base.
            place: a repository that holds its whole history.
            object_format: `sha1` or `sha256`.

        Raises:
            UnsupportedError: its tree has submodules or LFS pointers, or objects are missing.
        """
        async with self._locks.setdefault(commit, asyncio.Lock()):
            if self.is_packed(commit):
                return
            await self._judge_tree(commit, place)
            onto = await self._packed_ancestor(commit, place)
            making = self.layout.fresh("base")
            try:
                await self._pack(commit, onto, place, making, object_format)
                with storing("the packed base"):
                    await asyncio.to_thread(self._publish, commit, onto, making)
            finally:
                await asyncio.to_thread(remove_tree, making)

    def objects_of(self, commit: CommitId) -> str:
        """Return the object directory of a packed base."""
        return f"{self.layout.base(commit)}/objects"

    def mounts(self, commit: CommitId) -> tuple[Mount, ...]:
        """Return what makes a packed base readable inside a sandbox, at `INSIDE`."""
        base = Mount(source=os.path.realpath(self.layout.base(commit)), target=INSIDE)
        stamp = read_stamp(self.layout.base(commit)) or {}
        if "onto" not in stamp:
            return (base,)
        # `../../<onto>.git/objects`, as the borrowing base writes it, leads here.
        onto = CommitId(stamp["onto"])
        below = os.path.realpath(self.layout.base(onto))
        return (base, Mount(source=below, target=f"{os.path.dirname(INSIDE)}/{onto}.git"))

    async def _packed_ancestor(self, commit: CommitId, place: Place) -> CommitId | None:
        for each in await asyncio.to_thread(self._whole_bases):
            # Another process may have packed the base itself meanwhile.
            if each != commit and await is_ancestor(self.git, place, each, commit):
                return each
        return None

    def _whole_bases(self) -> list[CommitId]:
        """Return the bases that borrow nothing, the newest first."""
        found: list[tuple[int, CommitId]] = []
        for entry in os.scandir(self.layout.bases):
            stamp = read_stamp(entry.path)
            if stamp is not None and "onto" not in stamp:
                commit = CommitId(entry.name.removesuffix(".git"))
                found.append((os.stat(f"{entry.path}/{STAMP}").st_mtime_ns, commit))
        return [commit for _, commit in sorted(found, reverse=True)[:_CANDIDATES]]

    async def _pack(
        self, commit: CommitId, onto: CommitId | None, place: Place, making: str, object_format: str
    ) -> None:
        with storing("the packed base"):
            git_directory(making, object_format=object_format, head="refs/heads/base", options=_OPTIONS)
        wanted = f"{commit}\n" + (f"^{onto}\n" if onto is not None else "")
        args = ("pack-objects", "--revs", "--quiet", "--delta-base-offset", "--window=0")
        try:
            await self.git.run(
                place, *args, f"{making}/objects/pack/pack", stdin=wanted.encode(), timeout_s=LONG_S
            )
        except GitError as error:
            raise UnsupportedError(
                f"the history of {commit} cannot be read whole: {error.found}",
                expected="every object of the base's history in the repository",
                cure="run `git fsck`; in a partial clone, run `git fetch --refetch --no-filter`",
            ) from error

    def _publish(self, commit: CommitId, onto: CommitId | None, making: str) -> None:
        write_ref(making, "refs/heads/base", commit)
        facts: dict[str, str] = {"commit": commit}
        if onto is not None:
            facts["onto"] = onto
            with open(f"{making}/objects/info/alternates", "w", encoding="utf-8") as file:
                file.write(f"../../{onto}.git/objects\n")
        sync_directory(f"{making}/objects/pack")
        write_stamp(making, facts)
        target = self.layout.base(commit)
        if os.path.lexists(target) and not self.is_packed(commit):
            # What stands there without a stamp is damaged, and never trusted.
            self.layout.discard(target)
        try:
            os.rename(making, target)
        except OSError:
            # Another process packed the same base first.
            if not self.is_packed(commit):
                raise
        sync_directory(self.layout.bases)

    async def _judge_tree(self, commit: CommitId, place: Place) -> None:
        ended = await self.git.run(place, "ls-tree", "-r", "-z", "--long", "--full-tree", commit)
        entries = [_entry(line) for line in ended.out.split(b"\0") if line]
        modules = [path for mode, _, _, path in entries if mode == _GITLINK]
        if modules:
            raise UnsupportedError(
                f"the base has submodules: {listed(modules)}",
                expected="a repository without submodules",
                cure="replace them by their files (`git rm --cached` and `git add`) on a branch",
                fields={"paths": "\n".join(modules)},
            )
        await self._judge_pointers(commit, place, entries)

    async def _judge_pointers(
        self, commit: CommitId, place: Place, entries: Sequence[tuple[str, str, int, str]]
    ) -> None:
        rules = [blob for _, blob, _, path in entries if path.rpartition("/")[2] == ".gitattributes"]
        bodies = await read_blobs(self.git, place, rules)
        if not any(_LFS_ATTRIBUTE in body for body in bodies):
            return
        small = [(blob, path) for _, blob, size, path in entries if 0 < size <= _LFS_MAX_BYTES]
        bodies = await read_blobs(self.git, place, [blob for blob, _ in small])
        heads = zip(small, bodies, strict=True)
        pointers = [path for (_, path), body in heads if body.startswith(_LFS_HEAD)]
        if not pointers:
            return
        cached = replace(place, work_tree=None, index=self.layout.fresh("index"))
        filters = await filter_attributes(self.git, cached, commit, pointers)
        pointers = [path for path in pointers if filters.get(path) == "lfs"]
        if pointers:
            raise UnsupportedError(
                f"the base keeps files in Git LFS, and holds only pointers to them: {listed(pointers)}",
                expected="files stored in the repository itself",
                cure="run `git lfs migrate export` on a branch",
                fields={"paths": "\n".join(pointers)},
            )


def _entry(line: bytes) -> tuple[str, str, int, str]:
    head, _, path = line.partition(b"\t")
    mode, _, blob, size = head.decode().split()
    return mode, blob, int(size) if size.isdigit() else 0, path.decode(errors="surrogateescape")


async def read_blobs(git: Git, place: Place, blobs: Sequence[str]) -> list[bytes]:
    """Read small objects by id, in order, with one process; one that is missing is empty."""
    if not blobs:
        return []
    asked = "".join(f"{blob}\n" for blob in blobs).encode()
    out = (await git.run(place, "cat-file", "--batch", stdin=asked)).out
    bodies: list[bytes] = []
    at = 0
    for _ in blobs:
        end = out.index(b"\n", at)
        size = out[at:end].rpartition(b" ")[2]
        length = int(size) if size.isdigit() else 0
        bodies.append(out[end + 1 : end + 1 + length])
        at = end + 1 + (length + 1 if size.isdigit() else 0)
    return bodies
