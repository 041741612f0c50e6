"""Group commit: everything that waits goes to disk in one statement.

Owns the queue in front of SQLite's thread, the numbering of steps in the whole
ledger, and the second try of each caller when a group fails. Owns no rule on
steps: those are triggers (`ledger.schema`).
"""

import asyncio
import sqlite3
from collections import deque
from dataclasses import dataclass, field

import aiosqlite

from fusiond.domain.errors import FusionError, StorageError
from fusiond.ledger.failures import as_fusion_error
from fusiond.ledger.rows import MAX_ROWS, BatchRows, insert_statement, insert_values

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
        self._writing = False
        self._closed = False
        # The position of the next step; None when it must be asked for.
        self._next: int | None = None
        self._drain: asyncio.Task[None] | None = None

    async def write(self, batch: BatchRows) -> int:
        """Write one batch and return the position of its last step.

        Raises:
            ConflictError, FencedError, InvalidError, StorageError, TryAgainError: as
                `ledger.failures` maps them; nothing of the batch was written.
        """
        if self._closed:
            raise StorageError("the ledger is closed")
        if self._writing:
            waiting = _Waiting(batch=batch)
            self._waiting.append(waiting)
            return await waiting.done
        self._writing = True
        try:
            return await self._write_alone(batch)
        finally:
            self._hand_over()

    async def close(self) -> None:
        """Write what waits; refuse what comes later."""
        self._closed = True
        if self._drain is not None:
            await self._drain

    def _hand_over(self) -> None:
        if self._waiting:
            self._drain = asyncio.get_running_loop().create_task(self._write_groups())
        else:
            self._writing = False

    async def _write_groups(self) -> None:
        try:
            while self._waiting:
                await self._write_group(self._next_group())
                # Let the callers just answered come back first: they are the next group.
                await asyncio.sleep(0)
        finally:
            self._writing = False

    def _next_group(self) -> list[_Waiting]:
        group = [self._waiting.popleft()]
        rows, size = len(group[0].batch.rows), group[0].batch.size_bytes
        while self._waiting:
            batch = self._waiting[0].batch
            rows, size = rows + len(batch.rows), size + batch.size_bytes
            if rows > MAX_ROWS or size > MAX_GROUP_BYTES:
                break
            group.append(self._waiting.popleft())
        return group

    async def _write_group(self, group: list[_Waiting]) -> None:
        try:
            last = await self._insert([each.batch for each in group])
        except sqlite3.Error:
            for each in group:
                await self._answer_singly(each)
            return
        for each in reversed(group):
            if not each.done.done():
                each.done.set_result(last)
            last -= len(each.batch.steps)

    async def _answer_singly(self, waiting: _Waiting) -> None:
        """One bad batch must not fail another, so each is tried again by itself."""
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
        except sqlite3.Error:
            return await self._insert_anywhere(batch)

    async def _insert(self, group: list[BatchRows]) -> int:
        """Insert a group at the positions this process expects to be free; return the last one."""
        if self._next is None:
            [(highest,)] = await self._connection.execute_fetchall(
                "SELECT coalesce(max(position), 0) FROM steps"
            )
            self._next = int(highest) + 1
        values = insert_values(group, self._next)
        self._next += sum(len(batch.steps) for batch in group)
        last = self._next - 1
        try:
            await self._connection.execute_fetchall(
                insert_statement(sum(len(batch.rows) for batch in group)), values
            )
        except BaseException:
            self._next = None
            raise
        return last

    async def _insert_anywhere(self, batch: BatchRows) -> int:
        """Insert one batch at whatever position is free, other processes or not."""
        step = batch.steps[-1]
        try:
            await self._connection.execute_fetchall(
                insert_statement(len(batch.rows)), insert_values([batch], None)
            )
            [(position,)] = await self._connection.execute_fetchall(
                "SELECT position FROM steps WHERE run_id = ? AND seq = ?", (step.run, step.seq)
            )
        except sqlite3.Error as error:
            raise as_fusion_error(error) from error
        return int(position)
