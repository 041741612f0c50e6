"""The port `StageQueue` over SQLite.

A claim may also come with an append (`ledger.sqlite_ledger`). Each change here is
one statement.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import replace

import aiosqlite

from fusiond.domain.errors import ConflictError, FencedError
from fusiond.domain.ids import NodeId, RunId, WorkerId
from fusiond.domain.leases import Lease, claimed, may_claim
from fusiond.ledger.database import Database
from fusiond.ledger.failures import FAILURES, as_fusion_error

_FIND = "SELECT run_id, node, owner, epoch, expires_us FROM lease WHERE run_id = ? AND node = ?"

_EXPIRED = """
SELECT run_id, node, owner, epoch, expires_us FROM lease
WHERE expires_us > 0 AND expires_us <= ?
ORDER BY expires_us, run_id, node
LIMIT ?
"""

_CLAIM = """
INSERT INTO lease (run_id, node, owner, epoch, expires_us) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (run_id, node) DO UPDATE
SET owner = excluded.owner, epoch = excluded.epoch, expires_us = excluded.expires_us
WHERE lease.epoch = excluded.epoch - 1 AND (lease.owner = excluded.owner OR lease.expires_us <= ?)
RETURNING epoch
"""

_RENEW = """
UPDATE lease SET expires_us = ?
WHERE run_id = ? AND node = ? AND epoch = ? AND owner = ? AND expires_us > 0
RETURNING epoch
"""

_RELEASE = "UPDATE lease SET expires_us = 0 WHERE run_id = ? AND node = ? AND epoch = ? AND owner = ?"


class SqliteStageQueue:
    """Leases on stages; see `ports.ledger.StageQueue`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def lease(self, run: RunId, node: NodeId) -> Lease | None:
        """See the port. A released lease has `expires_us` 0."""
        return await find_lease(self._database.reader, run, node)

    async def claim(self, run: RunId, node: NodeId, *, owner: WorkerId, now_us: int, ttl_us: int) -> Lease:
        """See the port. What was read is checked again as it is written: a lease renewed since is not taken."""
        current = await self.lease(run, node)
        if not may_claim(current, owner, now_us):
            assert current is not None, "a free stage may be claimed"
            raise ConflictError(
                f"stage {node} of run {run} is held by {current.owner}",
                expected="a stage that is free",
                cure="claim it after its lease ends",
            )
        lease = claimed(current, run=run, node=node, owner=owner, now_us=now_us, ttl_us=ttl_us)
        values = (run, node, owner, lease.epoch, lease.expires_us, now_us)
        if not await _fetch(self._database.writer, _CLAIM, values):
            raise ConflictError(f"stage {node} of run {run} was claimed at this moment", cure="claim later")
        return lease

    async def renew(self, lease: Lease, *, now_us: int, ttl_us: int) -> Lease:
        """See the port. A lease past its expiry can be renewed as long as nobody took it."""
        renewed = replace(lease, expires_us=now_us + ttl_us)
        rows = await _fetch(
            self._database.writer,
            _RENEW,
            (renewed.expires_us, lease.run, lease.node, lease.epoch, lease.owner),
        )
        if not rows:
            raise FencedError(
                f"the lease of stage {lease.node} of run {lease.run} is gone",
                expected=f"epoch {lease.epoch} to be the newest",
                cure="stop working on this stage",
            )
        return renewed

    async def release(self, lease: Lease) -> None:
        """See the port."""
        await _fetch(
            self._database.writer,
            _RELEASE,
            (lease.run, lease.node, lease.epoch, lease.owner),
        )

    async def expired(self, *, now_us: int, limit: int) -> Sequence[Lease]:
        """See the port. The longest expired come first."""
        rows = await _fetch(
            self._database.reader,
            _EXPIRED,
            (now_us, limit),
        )
        return [_lease(row) for row in rows]


async def find_lease(connection: aiosqlite.Connection, run: RunId, node: NodeId) -> Lease | None:
    """Return the newest lease of a stage, None when it was never claimed."""
    rows = await _fetch(connection, _FIND, (run, node))
    return _lease(rows[0]) if rows else None


def _lease(row: sqlite3.Row) -> Lease:
    run, node, owner, epoch, expires_us = row
    return Lease(run=RunId(run), node=NodeId(node), owner=WorkerId(owner), epoch=epoch, expires_us=expires_us)


async def _fetch(
    connection: aiosqlite.Connection, statement: str, values: tuple[str | int, ...]
) -> list[sqlite3.Row]:
    try:
        return list(await connection.execute_fetchall(statement, values))
    except FAILURES as error:
        raise as_fusion_error(error) from error
