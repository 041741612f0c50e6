"""Results of setup commands: kept once, laid into attempts, never written to again.

Owns `.fusion/setup/<key>`, what belongs to a result, and how it becomes visible in
an attempt's tree. A result is what the command added to its scratch tree, ignored
files included; what it changed in tracked files is not kept. The key says what the
result depends on and is the caller's.
"""

import asyncio
import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from fusiond.domain.digest import Digest
from fusiond.domain.display import display_safe
from fusiond.domain.errors import NotFoundError, RefusedError
from fusiond.domain.ids import AttemptId
from fusiond.domain.launch import Mount
from fusiond.domain.records import dataclass
from fusiond.ports.workspace import AttemptPlaces, SetupCache
from fusiond.workspace.attempts import NEVER, Attempts
from fusiond.workspace.checkout.view import listed
from fusiond.workspace.disk.layout import Layout, read_stamp, storing, sync_directory, write_file, write_stamp
from fusiond.workspace.disk.removal import opened, remove_entry, remove_tree, unlock
from fusiond.workspace.disk.sealing import copy, descend, seal
from fusiond.workspace.listing import path_pattern, problem_with_name
from fusiond.workspace.plumbing.git import LONG_S, Git, Place

INSIDE_TREE = "/attempt"
"""Where an attempt's tree is seen inside a sandbox (`governance.md`, Sandbox)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSetupCache(SetupCache):
    """Setup results as directories, one a key."""

    git: Git
    layout: Layout
    attempts: Attempts

    async def find(self, key: Digest) -> bool:
        """Say whether a complete result is stored; results are renamed into place whole."""
        return read_stamp(self._path(key)) is not None

    async def store(self, key: Digest, scratch: AttemptPlaces) -> None:
        """Keep what the setup command added; the scratch tree loses it. A stored result stays.

        Raises:
            RefusedError: names that no tree may have, or nested too deep.
            StorageError: the disk refused.
        """
        if await self.find(key):
            return
        paths = await self._added(scratch)
        making = self.layout.fresh("setup")
        try:
            with storing("the result of setup"):
                await asyncio.to_thread(self._keep, key, scratch.tree, paths, making)
        finally:
            await asyncio.to_thread(remove_tree, making)

    async def lay(self, key: Digest, attempt: AttemptId, *, sandboxed: bool) -> tuple[Mount, ...]:
        """Make the result visible in the attempt's tree; safe to repeat.

        Called again, it proves that every mount point is still a real directory or
        file that no link leads to, as must be so before each launch that mounts it.

        Raises:
            NotFoundError: no such result, or no such attempt.
            RefusedError: the tree has something else where the result belongs.
            StorageError: the disk refused.
        """
        stamp = read_stamp(self._path(key))
        if stamp is None:
            raise NotFoundError(f"no setup result is stored as {key}", cure="run the setup command again")
        paths = [stamp[name] for name in sorted(stamp) if name.startswith("path.")]
        tree = self.attempts.need(attempt).prepared.places.tree
        await self._refuse_tracked(attempt, paths)
        with storing("the result of setup"):
            return await asyncio.to_thread(self._lay, key, attempt, tree, paths, sandboxed=sandboxed)

    def _path(self, key: Digest) -> str:
        return f"{self.layout.setups}/{key}"

    async def _added(self, scratch: AttemptPlaces) -> list[str]:
        """Return the topmost paths that are in no index, ignored ones included."""
        own = f"{scratch.root}/git"
        place = Place(git_dir=own, work_tree=scratch.tree, index=f"{own}/index", objects=self.layout.objects)
        ended = await self.git.run(place, "ls-files", "-z", "--others", "--directory", timeout_s=LONG_S)
        paths = [each.rstrip(b"/") for each in ended.out.split(b"\0") if each]
        refused = [f"{os.fsdecode(each)} {why}" for each in paths if (why := problem_with_name(each))]
        if refused:
            raise RefusedError(
                f"setup made files that cannot be kept: {listed(refused)}",
                cure="have the command clean up after itself",
            )
        return [each.decode() for each in paths]

    def _keep(self, key: Digest, tree: str, paths: Sequence[str], making: str) -> None:
        os.makedirs(f"{making}/tree")
        with opened(tree) as old, opened(f"{making}/tree") as new:
            for path in paths:
                *parents, name = os.fsencode(path).split(b"/")
                source, target = descend(old, parents, make=False), descend(new, parents, make=True)
                try:
                    _move(source, target, name)
                    seal(target, name)
                finally:
                    os.close(source)
                    os.close(target)
        kept = [path for path in paths if os.path.lexists(f"{making}/tree/{path}")]
        write_stamp(making, {f"path.{number:06}": path for number, path in enumerate(kept)})
        sync_directory(making)
        self._publish(making, self._path(key))

    def _publish(self, making: str, place: str) -> None:
        if os.path.lexists(place) and read_stamp(place) is None:
            # What stands there without a stamp is damaged, and never used.
            self.layout.discard(place)
        try:
            os.rename(making, place)
        except OSError as error:
            # Somebody else stored the same key first; equal keys mean equal results.
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                raise
        sync_directory(self.layout.setups)

    async def _refuse_tracked(self, attempt: AttemptId, paths: Sequence[str]) -> None:
        if not paths:
            return
        own = self.attempts.own(attempt)
        ended = await self.git.run(own, "ls-files", "-z", "--cached", "--", *paths)
        tracked = [os.fsdecode(each) for each in ended.out.split(b"\0") if each]
        if tracked:
            raise RefusedError(
                f"the result of setup would hide tracked files: {listed(tracked)}",
                expected="a setup command that only adds files",
                cure="list the files that it depends on in the setup's key, or untrack them",
            )

    def _lay(
        self, key: Digest, attempt: AttemptId, tree: str, paths: Sequence[str], *, sandboxed: bool
    ) -> tuple[Mount, ...]:
        self._exclude(attempt, tree, paths)
        kept = f"{self._path(key)}/tree"
        mounts: list[Mount] = []
        with opened(kept) as old, opened(tree) as new:
            for path in paths:
                if self._lay_one(old, new, path, sandboxed=sandboxed):
                    source = os.path.realpath(f"{kept}/{path}")
                    mounts.append(Mount(source=source, target=f"{INSIDE_TREE}/{path}"))
        return tuple(mounts)

    def _lay_one(self, old: int, new: int, path: str, *, sandboxed: bool) -> bool:
        """Lay one path; return whether it is to be mounted."""
        *parents, name = os.fsencode(path).split(b"/")
        source = descend(old, parents, make=False)
        try:
            target = descend(new, parents, make=True)
        except OSError as error:
            os.close(source)
            raise _in_the_way(path) from error
        try:
            mode = os.lstat(name, dir_fd=source).st_mode
            if not sandboxed or stat.S_ISLNK(mode):
                # A link is not mounted: what is mounted is what it points to.
                _lay_copy(source, target, name, mode, path)
                return False
            _lay_mount_point(target, name, mode, path)
            return True
        finally:
            os.close(source)
            os.close(target)

    def _exclude(self, attempt: AttemptId, tree: str, paths: Sequence[str]) -> None:
        """Keep the result out of revisions, and out of what the agent's own git shows it."""
        patterns = "".join(f"{path_pattern(path)}\n" for path in paths)
        never = Path(self.attempts.own(attempt).git_dir, NEVER)
        if never.exists():
            # An agent may have been here since; its repository is not touched again.
            return
        with open(f"{tree}/.git/info/exclude", "a", encoding="utf-8") as file:
            file.write(patterns)
        write_file(str(never), patterns)


def _move(source: int, target: int, name: bytes) -> None:
    if stat.S_ISDIR(os.lstat(name, dir_fd=source).st_mode):
        # Moving a directory rewrites its `..`, for which it must be writable.
        unlock(source, name)
    try:
        os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        copy(source, name, target, name)


def _lay_mount_point(target: int, name: bytes, mode: int, path: str) -> None:
    try:
        if stat.S_ISDIR(mode):
            os.mkdir(name, 0o755, dir_fd=target)
        else:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            os.close(os.open(name, flags, 0o644, dir_fd=target))
    except FileExistsError:
        found = os.lstat(name, dir_fd=target).st_mode
        if stat.S_IFMT(found) != stat.S_IFMT(mode):
            raise _in_the_way(path) from None


def _lay_copy(source: int, target: int, name: bytes, mode: int, path: str) -> None:
    try:
        found = os.lstat(name, dir_fd=target).st_mode
    except FileNotFoundError:
        aside = b".fusion-laying"
        # What an interrupted call left.
        remove_entry(target, aside)
        copy(source, name, target, aside)
        os.rename(aside, name, src_dir_fd=target, dst_dir_fd=target)
    else:
        if stat.S_IFMT(found) != stat.S_IFMT(mode):
            raise _in_the_way(path)
    seal(target, name)


def _in_the_way(path: str) -> RefusedError:
    return RefusedError(
        f"something else is in the attempt's tree where setup's {display_safe(path)} belongs",
        expected="no link and nothing of another kind there",
        cure="remove it from the repository, or have setup write elsewhere",
    )
