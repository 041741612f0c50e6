"""Group commit: everything that waits goes to disk in one statement.

Owns the queue in front of SQLite's thread, the numbering of steps in the whole
ledger, and the second try of each caller when a group fails. Owns no rule on
steps: those are triggers (`ledger.schema`).
"""

import asyncio
from collections import deque
from dataclasses import field

import aiosqlite

from fusiond.domain.errors import FusionError, StorageError
from fusiond.domain.records import dataclass
from fusiond.ledger.failures import FAILURES, as_fusion_error
from fusiond.ledger.rows import MAX_ROWS, BatchRows, group_insert

MAX_GROUP_BYTES = 8 * 1024 * 1024
"""Bound on payloads and content of one commit, so that nobody waits for a huge one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    batch: BatchRows
    done: asyncio.Future[int] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class GroupCommit:
    """Writes batches; each caller is answered after its commit is on disk.

    A caller that finds nobody else writes at once, without the queue. While a
    commit runs, others gather and become the next one.
    """

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self._connection = connection
        self._waiting: deque[_Waiting] = deque()
        self._closed = False
        # Cleared while somebody writes or waits to.
        self._idle = asyncio.Event()
        self._idle.set()
        # The position of the next step; None when it must be asked for.
        self._next: int | None = None
        # The event loop holds tasks weakly, so one that nobody keeps may vanish.
        self._drain: asyncio.Task[None] | None = None

    async def write(self, batch: BatchRows) -> int:
        """Write one batch and return the position of its last step.

        Raises:
            ConflictError, FencedError, InvalidError, StorageError, TryAgainError: as
                `ledger.failures` maps them; nothing of the batch was written.
        """
        if self._closed:
            raise StorageError("the ledger is closed", state="nothing was appended")
        if not self._idle.is_set():
            waiting = _Waiting(batch=batch)
            self._waiting.append(waiting)
            return await waiting.done
        self._idle.clear()
        try:
            return await self._write_alone(batch)
        finally:
            self._hand_over()

    async def close(self) -> None:
        """Write what waits; refuse what comes later."""
        self._closed = True
        await self._idle.wait()

    def _hand_over(self) -> None:
        if self._waiting:
            self._drain = asyncio.get_running_loop().create_task(self._write_groups())
        else:
            self._idle.set()

    async def _write_groups(self) -> None:
        try:
            while self._waiting:
                await self._write_group(self._next_group())
                # Let the callers just answered come back first: they are the next group.
                await asyncio.sleep(0)
        finally:
            # Only when this task itself was cancelled is anybody left; nothing of theirs was written.
            for each in self._waiting:
                each.done.cancel()
            self._waiting.clear()
            self._idle.set()

    def _next_group(self) -> list[_Waiting]:
        group: list[_Waiting] = []
        rows = size = 0
        while self._waiting:
            batch = self._waiting[0].batch
            rows, size = rows + len(batch.rows), size + batch.size_bytes
            if group and (rows > MAX_ROWS or size > MAX_GROUP_BYTES):
                break
            group.append(self._waiting.popleft())
        return group

    async def _write_group(self, group: list[_Waiting]) -> None:
        try:
            last = await self._insert([each.batch for each in group])
        except FAILURES:
            for each in group:
                await self._answer_singly(each)
            return
        except BaseException:
            for each in group:
                each.done.cancel()
            raise
        for each in reversed(group):
            if not each.done.done():
                each.done.set_result(last)
            last -= len(each.batch.steps)

    async def _answer_singly(self, waiting: _Waiting) -> None:
        """Try one batch of a failed group by itself: one bad batch must not fail another."""
        try:
            position = await self._insert_anywhere(waiting.batch)
        except FusionError as error:
            if not waiting.done.done():
                waiting.done.set_exception(error)
        else:
            if not waiting.done.done():
                waiting.done.set_result(position)

    async def _write_alone(self, batch: BatchRows) -> int:
        try:
            return await self._insert([batch])
        except FAILURES:
            return await self._insert_anywhere(batch)

    async def _insert(self, group: list[BatchRows]) -> int:
        """Insert a group at the positions this process expects to be free; return the last one."""
        if self._next is None:
            self._next = await self._highest() + 1
        first = self._next
        last = first + sum(len(batch.steps) for batch in group) - 1
        # Unknown until this statement ends well: after a failure, or a cancelled wait, it is asked for.
        self._next = None
        await self._connection.execute_fetchall(*group_insert(group, first))
        self._next = last + 1
        return last

    async def _highest(self) -> int:
        [(position,)] = await self._connection.execute_fetchall(
            "SELECT coalesce(max(position), 0) FROM steps"
        )
        return int(position)

    async def _insert_anywhere(self, batch: BatchRows) -> int:
        """Insert one batch at whatever position is free, other processes or not."""
        step = batch.steps[-1]
        try:
            await self._connection.execute_fetchall(*group_insert([batch], None))
            [(position,)] = await self._connection.execute_fetchall(
                "SELECT position FROM steps WHERE run_id = ? AND seq = ?", (step.run, step.seq)
            )
        except FAILURES as error:
            raise as_fusion_error(error, batch.steps[0]) from error
        return int(position)
