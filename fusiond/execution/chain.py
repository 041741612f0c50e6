"""One run's ledger and its folded state, kept in step.

`RunChain` is the only way execution appends: it folds first (an illegal step
never reaches the ledger), appends with the expected head, and moves the state
on only after the commit is on disk. It holds nothing that `load` cannot
rebuild from the ledger.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence

from fusiond.domain.digest import Content
from fusiond.domain.errors import ConflictError, FencedError, StorageError, TryAgainError, UnrecordedError
from fusiond.domain.evolve import replace
from fusiond.domain.fold import admit, apply
from fusiond.domain.ids import RunId
from fusiond.domain.leases import Fence
from fusiond.domain.state import RunState
from fusiond.domain.steps.record import NewStep
from fusiond.execution.services import OnAppend
from fusiond.ports.ledger import AppendBatch, Ledger

logger = logging.getLogger(__name__)

READ_CHUNK = 1_000
"""Steps read at once while loading."""


class RunChain:
    """The state of one run and the only way to move it."""

    def __init__(self, ledger: Ledger, on_append: OnAppend, run: RunId) -> None:
        self._ledger = ledger
        self._on_append = on_append
        self._lock = asyncio.Lock()
        self._state = RunState(run=run)
        self._changed = asyncio.Event()

    @property
    def run(self) -> RunId:
        """Return whose chain this is."""
        return self._state.run

    @property
    def state(self) -> RunState:
        """Return the state as of the newest commit."""
        return self._state

    async def load(self) -> None:
        """Fold what the ledger has beyond the state that is held."""
        async with self._lock:
            await self._catch_up()

    async def append(
        self, steps: Sequence[NewStep], *, content: Sequence[Content] = (), fence: Fence | None = None
    ) -> RunState:
        """Append steps and return the state after them.

        Args:
            steps: committed together.
            content: small content that the steps name.
            fence: the lease under which a stage's steps are appended.

        Raises:
            IllegalStepError: the steps are not allowed now; nothing was appended.
            ConflictError, FencedError: somebody else moved the run; the state has
                been brought up to date, so that the caller can decide anew.
            UnrecordedError: the ledger could not be written or read now; nothing was appended.
        """
        async with self._lock:
            admitted = admit(self._state, steps)
            batch = AppendBatch(
                run=self.run,
                expected=self._state.head,
                steps=tuple(steps),
                content=tuple(content),
                fence=fence,
            )
            # The commit goes through whatever becomes of the caller: a cancelled
            # performer must not leave the state behind the ledger.
            await _uncancelled(self._commit(batch, admitted))
            return self._state

    async def _commit(self, batch: AppendBatch, admitted: RunState) -> None:
        try:
            try:
                appended = await self._ledger.append(batch)
            except (ConflictError, FencedError):
                await self._catch_up()
                raise
        except (StorageError, TryAgainError) as error:
            raise UnrecordedError(
                error.found,
                expected=error.expected,
                cure=error.cure,
                state=error.state,
                fields=error.fields,
            ) from error
        self._state = replace(admitted, head=appended.head)
        self._on_append(appended)
        self._announce()

    async def _catch_up(self) -> None:
        while True:
            steps = await self._ledger.read(self.run, after_seq=self._state.head.seq, limit=READ_CHUNK)
            for step in steps:
                self._state = apply(self._state, step)
            if len(steps) < READ_CHUNK:
                break
        self._announce()

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self) -> None:
        """Wait for the next change of the state."""
        await self._changed.wait()


class _Uncancelled(asyncio.Task[None]):
    """A task that goes to its end. Who waits for it learns of a cancellation then.

    `asyncio.shield` does the same by two further turns of the event loop, for each append.
    """

    def cancel(self, msg: object = None) -> bool:
        """Refuse; the caller's own task keeps the request and raises it after this one's end."""
        return False


async def _uncancelled(commit: Coroutine[None, None, None]) -> None:
    task = _Uncancelled(commit)
    try:
        await task
    except asyncio.CancelledError:
        if task.done() and (error := task.exception()) is not None:
            # The caller hears of its cancellation alone.
            logger.warning("not recorded for a cancelled caller: %s", error)
        raise
