"""The adapter of the snapshots port: attempts' artifacts as files below `.fusion/stages`.

Owns what runs in which thread. The work itself is in the other modules of this
package, none of which knows about asyncio.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from fusiond.domain.artifacts import FrozenArtifact
from fusiond.domain.digest import Digest
from fusiond.domain.ids import AttemptId, RunId
from fusiond.domain.steps.attempt import LaidInput
from fusiond.ports.content import Page
from fusiond.ports.snapshots import Checked, Document, FreezeRequest, Staged
from fusiond.snapshots import handing, publishing, reading, staging, sweeping
from fusiond.snapshots.disk import Disk, remove_tree, storage_errors
from fusiond.snapshots.examine import Budgets, examine
from fusiond.snapshots.layout import Layout

T = TypeVar("T")


class FileSnapshots:
    """Frozen versions as read-only directories."""

    def __init__(
        self,
        stages: Path,
        *,
        token: Callable[[], str],
        budgets: Budgets | None = None,
        disk: Disk | None = None,
    ) -> None:
        """Keep versions below `stages`, which is made when it is needed.

        Args:
            stages: outside of everything an attempt can write.
            token: gives a fresh, short, random word for a staged version's name.
            budgets: bounds on what one attempt may ask for.
            disk: the calls that write.
        """
        self._layout = Layout(stages)
        self._token = token
        self._budgets = budgets or Budgets()
        self._disk = disk or Disk()
        self._staged: set[Path] = set()
        # Two threads that hash small files hand the interpreter to and fro and are
        # twelve times slower than one after the other.
        self._one_at_a_time = asyncio.Lock()

    async def check(self, request: FreezeRequest) -> Checked:
        """Judge and hash in place, without copying."""

        def work(abandoned: Callable[[], bool]) -> Checked:
            with storage_errors(f"check {request.attempt}"):
                examined = examine(request, self._budgets, self._disk, abandoned=abandoned)
            return Checked(problems=examined.problems, outputs=examined.outputs)

        async with self._one_at_a_time:
            return await _until_done(work)

    async def stage(self, request: FreezeRequest) -> Staged:
        """Copy and hash in one pass, then judge the copies."""
        token = self._token()
        place = self._layout.staged(request.attempt, token)
        self._staged.add(place)
        work = partial(staging.stage, self._layout, request, token, self._budgets, self._disk)
        try:
            async with self._one_at_a_time:
                return await _until_done(work, undo=lambda _: remove_tree(str(place)))
        except BaseException:
            self._staged.discard(place)
            raise

    async def publish(self, staged: Staged) -> None:
        """Make it the read-only version by a rename that refuses to replace, durably."""
        work = partial(publishing.publish, self._layout, staged, self._disk)
        try:
            await _until_done(lambda _: work())
        finally:
            self._staged.discard(Path(staged.place))

    async def drop(self, staged: Staged) -> None:
        """Forget staged bytes."""
        try:
            await _until_done(lambda _: publishing.drop(self._layout, staged))
        finally:
            self._staged.discard(Path(staged.place))

    async def hand_over(self, run: RunId, inputs: Sequence[LaidInput], target: str) -> None:
        """Lay read-only copies under `target/<name>`; CorruptError when a digest differs."""
        async with self._one_at_a_time:
            await _until_done(lambda _: handing.hand_over(self._layout, run, inputs, target, self._disk))

    async def verify(self, attempt: AttemptId, artifacts: Sequence[FrozenArtifact]) -> Sequence[str]:
        """Return the paths whose frozen bytes no longer match, all of them."""
        async with self._one_at_a_time:
            return await _until_done(lambda _: reading.verify(self._layout, attempt, artifacts))

    async def page(self, attempt: AttemptId, artifact: FrozenArtifact, offset: int, limit: int) -> Page:
        """Read a page of a frozen body, checked against stored chunk hashes."""
        return await asyncio.to_thread(reading.read_page, self._layout, attempt, artifact, offset, limit)

    async def document(self, attempt: AttemptId, document: Document, digest: Digest) -> bytes:
        """Return manifest or summary whole, checked against its digest."""
        return await asyncio.to_thread(reading.read_document, self._layout, attempt, document, digest)

    async def sweep(self, runs: frozenset[RunId], frozen: frozenset[AttemptId]) -> Sequence[str]:
        """Remove what interrupted freezes left; return what was removed."""
        in_use = frozenset(self._staged)
        work = partial(sweeping.sweep, self._layout, runs, frozen, in_use.__contains__, self._disk)
        return await _until_done(lambda _: work())


async def _until_done(
    work: Callable[[Callable[[], bool]], T], *, undo: Callable[[T], None] | None = None
) -> T:
    """Run `work` in a thread and never leave it behind.

    A thread cannot be cancelled: when the caller is, the work is told so, awaited,
    and undone if it had finished all the same.
    """
    given_up = threading.Event()
    task = asyncio.ensure_future(asyncio.to_thread(work, given_up.is_set))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        given_up.set()
        await asyncio.wait([task])
        if undo is not None and task.exception() is None:
            await asyncio.to_thread(undo, task.result())
        raise
