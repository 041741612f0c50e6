"""The port `Ledger` over SQLite."""

import asyncio
import logging
import sqlite3
from collections.abc import Sequence

from fusiond.codec.steps import StoredStep
from fusiond.domain.digest import Digest
from fusiond.domain.errors import ConflictError, CorruptError, NewerError
from fusiond.domain.ids import RunId, TenantId
from fusiond.domain.leases import Lease, claimed, may_claim
from fusiond.domain.steps.after import ContentErased
from fusiond.domain.steps.kinds import StepKind
from fusiond.domain.steps.record import Head, Step
from fusiond.ledger.database import Database
from fusiond.ledger.failures import FAILURES, as_fusion_error
from fusiond.ledger.group_commit import GroupCommit
from fusiond.ledger.leases import find_lease
from fusiond.ledger.reading import broken, checked_hash, checked_step, next_steps
from fusiond.ledger.rows import batch_rows, check_batch
from fusiond.ports.ledger import (
    AppendBatch,
    Appended,
    FedStep,
    LeaseClaim,
    PositionedStep,
    RunRow,
    UnreadableStep,
)

log = logging.getLogger(__name__)

CHUNK = 200
"""Rows read and checked between two turns of the event loop, so that appends go on meanwhile."""

_KINDS = frozenset(StepKind)

_READ = """
SELECT run_id, seq, kind, node, attempt, payload, refs, labels, cost_uusd, idempotency_key, at_us, prev_hash, hash
FROM steps WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?
"""

_FEED = """
SELECT position, run_id, seq, kind, node, attempt, payload, refs, labels, cost_uusd, idempotency_key, at_us,
    prev_hash, hash
FROM steps WHERE position > ? ORDER BY position LIMIT ?
"""

_RUNS = """
SELECT run_id, tenant, seq, hash, last_kind, started_us, updated_us, finished FROM run_head
WHERE (?1 IS NULL OR tenant = ?1)
ORDER BY started_us DESC, run_id DESC LIMIT ?2
"""

_OPEN_RUNS = """
SELECT run_id, tenant, seq, hash, last_kind, started_us, updated_us, finished FROM run_head
WHERE finished = 0 AND (?1 IS NULL OR tenant = ?1)
ORDER BY started_us DESC, run_id DESC LIMIT ?2
"""


class SqliteLedger:
    """Append and ordered reads; see `ports.ledger.Ledger`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._commits = GroupCommit(database.writer)

    async def append(self, batch: AppendBatch) -> Appended:
        """See the port. Also InvalidError and TooLargeError for a batch that can never be taken."""
        check_batch(batch)
        lease = None if batch.claim is None else await self._claim(batch.run, batch.claim)
        rows = batch_rows(batch, lease)
        position = await self._commits.write(rows)
        if any(isinstance(new.payload, ContentErased) for new in batch.steps):
            await self._forget()
        last = rows.steps[-1]
        return Appended(
            steps=rows.steps, head=Head(seq=last.seq, hash=last.hash), position=position, lease=lease
        )

    async def _claim(self, run: RunId, claim: LeaseClaim) -> Lease:
        current = await find_lease(self._database.reader, run, claim.node)
        if current is not None and not may_claim(current, claim.owner, claim.now_us):
            raise ConflictError(
                f"stage {claim.node} of run {run} is held by {current.owner}",
                expected="a stage that is free",
                cure="claim it after its lease ends",
            )
        return claimed(
            current, run=run, node=claim.node, owner=claim.owner, now_us=claim.now_us, ttl_us=claim.ttl_us
        )

    async def read(self, run: RunId, *, after_seq: int, limit: int) -> Sequence[Step]:
        """See the port. The step at `after_seq` is checked too: the chain is followed from there."""
        end = await self._length(run)
        if after_seq >= end:
            return ()
        head = await self._head_at(run, after_seq)
        steps: list[Step] = []
        while len(steps) < limit:
            chunk = min(CHUNK, limit - len(steps))
            found = next_steps(await self._stored(run, head.seq, chunk), head, run)
            steps += found
            if found:
                head = Head(seq=found[-1].seq, hash=found[-1].hash)
            if len(found) < chunk:
                if head.seq < end:
                    raise broken(run, head.seq, f"no step {head.seq + 1}", f"steps up to {end}")
                break
            await asyncio.sleep(0)
        return steps

    async def feed(self, *, after_position: int, limit: int) -> Sequence[FedStep]:
        """See the port. Each step's hash is checked, and its predecessor where that is in the page too."""
        heads: dict[RunId, Head] = {}
        found: list[FedStep] = []
        while len(found) < limit:
            chunk = min(CHUNK, limit - len(found))
            rows = await self._fetch(_FEED, (after_position, chunk))
            for position, *values in rows:
                found.append(_fed(position, StoredStep._make(values), heads))
            if len(rows) < chunk:
                break
            after_position = found[-1].position
            await asyncio.sleep(0)
        return found

    async def runs(self, tenant: TenantId | None, *, open_only: bool, limit: int) -> Sequence[RunRow]:
        """See the port."""
        rows = await self._fetch(_OPEN_RUNS if open_only else _RUNS, (tenant, limit))
        return [_run_row(row) for row in rows]

    async def run_of_key(self, key: Digest) -> RunId | None:
        """See the port."""
        rows = await self._fetch("SELECT run_id FROM steps WHERE idempotency_key = ?", (key,))
        return RunId(rows[0][0]) if rows else None

    async def head(self) -> int:
        """See the port."""
        rows = await self._fetch("SELECT coalesce(max(position), 0) FROM steps", ())
        return int(rows[0][0])

    async def epoch(self) -> str:
        """See the port."""
        return self._database.epoch

    async def close(self) -> None:
        """See the port."""
        await self._commits.close()
        await self._database.close()

    async def _forget(self) -> None:
        """Empty the WAL, where erased bytes still stand until it is written again from its start.

        The erasure is on record already, so a failure here is no failure of the append.
        """
        try:
            [(busy, *_)] = await self._database.writer.execute_fetchall("PRAGMA wal_checkpoint(TRUNCATE)")
        except FAILURES as error:
            log.warning("erased bytes stay in the write-ahead log: %s", error)
        else:
            if busy:
                log.warning("erased bytes stay in the write-ahead log: another process reads it")

    async def _length(self, run: RunId) -> int:
        rows = await self._fetch("SELECT seq FROM run_head WHERE run_id = ?", (run,))
        return int(rows[0][0]) if rows else 0

    async def _head_at(self, run: RunId, seq: int) -> Head:
        if seq <= 0:
            return Head()
        stored = await self._stored(run, seq - 1, 1)
        if not stored or stored[0].seq != seq:
            raise broken(run, seq - 1, f"no step {seq}", "the step after which reading was asked for")
        return Head(seq=seq, hash=checked_hash(stored[0], trusted=seq - 1))

    async def _stored(self, run: RunId, after_seq: int, limit: int) -> list[StoredStep]:
        rows = await self._fetch(_READ, (run, after_seq, limit))
        return [StoredStep._make(row) for row in rows]

    async def _fetch(self, statement: str, values: tuple[str | int | None, ...]) -> list[sqlite3.Row]:
        try:
            return list(await self._database.reader.execute_fetchall(statement, values))
        except FAILURES as error:
            raise as_fusion_error(error) from error


def _fed(position: int, stored: StoredStep, heads: dict[RunId, Head]) -> FedStep:
    try:
        return PositionedStep(position=position, step=_following(stored, heads))
    except (NewerError, CorruptError) as error:
        return UnreadableStep(position=position, run=RunId(stored.run), error=error)


def _following(stored: StoredStep, heads: dict[RunId, Head]) -> Step:
    run = RunId(stored.run)
    before = heads.get(run)
    if before is None:
        step = checked_step(stored, trusted=stored.seq - 1)
    else:
        [step] = next_steps((stored,), before, run)
    heads[run] = Head(seq=step.seq, hash=step.hash)
    return step


def _run_row(row: sqlite3.Row) -> RunRow:
    run, tenant, seq, digest, last_kind, started_us, updated_us, finished = row
    return RunRow(
        run=RunId(run),
        tenant=TenantId(tenant),
        head=Head(seq=seq, hash=Digest(digest)),
        last_kind=StepKind(last_kind) if last_kind in _KINDS else None,
        started_us=started_us,
        updated_us=updated_us,
        finished=bool(finished),
    )
