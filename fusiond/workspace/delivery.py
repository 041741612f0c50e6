"""Pins of a run, and `fusion merge`: the only writer of the user's `.git`.

Owns the order in which a result reaches the user's repository: everything is worked
out in our own store first; then objects, then checkout and index, then the branch.
The branch is locked, and known to be where it was, while the checkout changes. No
hook, filter or configured program runs; reflogs are written as git would.

Decided here: HEAD must be on a branch. Uncommitted changes are refused only where
the result touches them. A merge commit is the user's own act, so it carries the
identity of their git configuration, or Fusion's where they have none.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from fusiond.domain.display import display_safe
from fusiond.domain.errors import RefusedError, TryAgainError
from fusiond.domain.ids import RunId
from fusiond.domain.records import dataclass
from fusiond.ports.clock import Clock
from fusiond.ports.workspace import MergeConflict, Merged, Results, Revision
from fusiond.workspace.checkout.obstacles import Plan, is_laid, refuse_obstacles
from fusiond.workspace.checkout.source import Source, find_source
from fusiond.workspace.checkout.view import read_head, resolve_commit, viewing
from fusiond.workspace.disk.layout import Layout, storing
from fusiond.workspace.plumbing.git import LONG_S, QUICK_S, Git, Place, Signature, failure
from fusiond.workspace.store import EMAIL, NAME, Store, commit_tree, merge_base, merge_trees, run_ref

_UNFINISHED = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")


@dataclass(frozen=True, slots=True, kw_only=True)
class GitResults(Results):
    """Pins in the daemon's own repository, results brought into the user's.

    Args:
        git: runs git.
        layout: the workspace.
        store: the daemon's own repository.
        clock: dates merge commits and reflog entries.
        home: the user's home, for their identity; None for none.
    """

    git: Git
    layout: Layout
    store: Store
    clock: Clock
    home: str | None

    async def pin_run(self, run: RunId, base: Revision) -> None:
        """Pin the base as `refs/runs/<run>/base`. ConflictError when another base is pinned."""
        await self.store.pin(run_ref(run, "base"), base.commit)

    async def pin_result(self, run: RunId, result: Revision) -> None:
        """Pin the result as `refs/runs/<run>/result`. ConflictError when another result is pinned."""
        await self.store.pin(run_ref(run, "result"), result.commit)

    async def deliver(self, run: RunId, result: Revision, message: str) -> Merged | MergeConflict:
        """Bring the result onto the branch that is checked out, and into the checkout.

        Args:
            run: whose result; named in the reflog.
            result: the result.
            message: of the merge commit, where one is needed.

        Raises:
            RefusedError: HEAD is detached, a merge or rebase is unfinished, the histories
                share nothing, or uncommitted changes or filters are in the way.
            TryAgainError: somebody else moved the branch meanwhile.
        """
        source = await find_source(self.git, self.layout, self.home)
        ref = _branch(source)
        async with viewing(source, self.layout, index=True) as view:
            plan = await self._plan(source, view, ref, result, message)
            if isinstance(plan, MergeConflict):
                return plan
            if plan.after.commit != plan.before:
                await refuse_obstacles(self.git, self.layout, source, view, plan, run)
                await self._import(source, view, plan)
                await self._move(source, view, plan, run)
        return Merged(
            ref=plan.ref, before=plan.before, after=plan.after.commit, fast_forward=plan.fast_forward
        )

    async def _plan(
        self, source: Source, view: Place, ref: str, result: Revision, message: str
    ) -> Plan | MergeConflict:
        """Work out the branch's new commit; new objects go to the daemon's own repository."""
        both = Place(git_dir=self.layout.repo, alternates=(source.objects,))
        before = await resolve_commit(self.git, view, "HEAD")
        shared = await merge_base(self.git, both, before, result.commit)
        if shared is None:
            raise RefusedError(
                "the branch shares no history with the run's base",
                expected="a branch that descends from what the run started from",
                cure="check out the branch that the run started from",
            )
        if shared in {before, result.commit}:
            after = result if shared == before else Revision(commit=before, tree=result.tree)
            return Plan(ref=ref, before=before, after=after, fast_forward=True)
        tree = await merge_trees(self.git, both, before, result.commit)
        if isinstance(tree, MergeConflict):
            return tree
        sign = self._signature(source)
        commit = await commit_tree(self.git, both, tree, (before, result.commit), message, sign)
        return Plan(ref=ref, before=before, after=Revision(commit=commit, tree=tree), fast_forward=False)

    def _signature(self, source: Source) -> Signature:
        return Signature(
            name=source.settings.get("user.name") or NAME,
            email=source.settings.get("user.email") or EMAIL,
            at_s=self.clock.now_us() // 1_000_000,
        )

    async def _import(self, source: Source, view: Place, plan: Plan) -> None:
        """Write the objects that the user's repository lacks into it, as one checked pack."""
        both = Place(git_dir=self.layout.repo, alternates=(source.objects,))
        users = Place(git_dir=view.git_dir, objects=source.objects)
        wanted = f"{plan.after.commit}\n^{plan.before}\n".encode()
        with storing("the result's objects"), tempfile.TemporaryFile(dir=self.layout.making) as pack:
            args = ("pack-objects", "--revs", "--stdout", "--quiet", "--delta-base-offset")
            await self.git.run(both, *args, stdin=wanted, stdout_fd=pack.fileno(), timeout_s=LONG_S)
            pack.seek(0)
            await self.git.run(
                users, "index-pack", "--stdin", "--strict", stdin_fd=pack.fileno(), timeout_s=LONG_S
            )

    async def _move(self, source: Source, view: Place, plan: Plan, run: RunId) -> None:
        """Change checkout and index, then the branch, which is locked at `before` meanwhile."""
        async with self._locked(source, view, plan, run) as commit:
            if read_head(source).strip() != f"ref: {plan.ref}".encode():
                raise TryAgainError("another branch was checked out meanwhile", cure="merge again")
            if not await is_laid(self.git, self.layout, source, view, plan):
                await self._lay(source, view, plan)
            await commit()

    @asynccontextmanager
    async def _locked(
        self, source: Source, view: Place, plan: Plan, run: RunId
    ) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Hold the branch's lock for a block; what is yielded moves the branch."""
        args = ("update-ref", "-m", f"fusion merge {run}", "--stdin")
        process = await self.git.start(view, *args, sign=self._signature(source))
        assert process.stdin is not None
        try:
            await _tell(process, f"start\nupdate {plan.ref} {plan.after.commit} {plan.before}\nprepare\n")
            await _expect(process, b"start: ok\n", b"prepare: ok\n")

            async def commit() -> None:
                await _tell(process, "commit\n")
                await _expect(process, b"commit: ok\n")

            yield commit
        finally:
            # Without a commit, the end of its input makes git let go of the lock and change nothing.
            process.stdin.close()
            await process.communicate()

    async def _lay(self, source: Source, view: Place, plan: Plan) -> None:
        users = Place(
            git_dir=view.git_dir,
            work_tree=source.root,
            index=f"{source.git_dir}/index",
            objects=source.objects,
        )
        # Whatever stops this stops the next call too, which says what it is.
        await self.git.run(users, "update-index", "-q", "--refresh", ok=(0, 1, 128), timeout_s=LONG_S)
        args = ("read-tree", "-m", "-u", plan.before, plan.after.commit)
        ended = await self.git.run(users, *args, ok=(0, 1, 128), timeout_s=LONG_S)
        if ended.code == 0:
            return
        if b"index.lock" in ended.err:
            raise TryAgainError(
                "another git command is using the checkout",
                cure="let it end, or remove `.git/index.lock` if none is running, and merge again",
            )
        if b"would be" in ended.err or b"not uptodate" in ended.err or b"untracked" in ended.err:
            raise RefusedError(
                f"the checkout is in the way: {display_safe(ended.err, max_chars=500)}",
                cure="commit or stash what is there, and merge again",
            )
        raise failure(args, ended)


def _branch(source: Source) -> str:
    head = read_head(source).decode(errors="replace").strip()
    if not head.startswith("ref: refs/heads/"):
        raise RefusedError(
            "no branch is checked out (HEAD is detached)",
            expected="the branch that the result is to be merged into",
            cure="run `git switch BRANCH` and merge again",
        )
    for name in _UNFINISHED:
        if os.path.lexists(f"{source.git_dir}/{name}"):
            raise RefusedError(
                f"a merge, rebase or pick is unfinished ({name})",
                cure="finish or abort it, and merge again",
            )
    return head.removeprefix("ref: ")


async def _tell(process: asyncio.subprocess.Process, text: str) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(text.encode())
        await process.stdin.drain()
    except ConnectionError:
        # It has ended already; `_expect` reads why.
        return


async def _expect(process: asyncio.subprocess.Process, *lines: bytes) -> None:
    assert process.stdout is not None
    for line in lines:
        async with asyncio.timeout(QUICK_S):
            found = await process.stdout.readline()
        if found != line:
            _, err = await process.communicate()
            raise TryAgainError(
                f"the branch could not be moved: {display_safe(err, max_chars=400)}",
                expected="a branch that nobody else moves or locks meanwhile",
                cure="merge again",
            )
