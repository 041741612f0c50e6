"""The ledger's three ports in memory: the same rules and the same errors as over SQLite.

`tests/contract` holds both to one suite. Steps are sealed by the real codec.
Owns no durability: what is gone with the object is gone.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from fusiond.codec.steps import seal
from fusiond.domain.digest import ContentRef, Digest
from fusiond.domain.errors import (
    ConflictError,
    ErasedError,
    FencedError,
    InvalidError,
    StorageError,
    TooLargeError,
)
from fusiond.domain.ids import NodeId, RunId, TenantId, WorkerId
from fusiond.domain.leases import Lease, claimed, may_claim
from fusiond.domain.steps.after import ContentErased
from fusiond.domain.steps.kinds import StepKind
from fusiond.domain.steps.record import Head, Step
from fusiond.domain.steps.run import RunStarted
from fusiond.ports.ledger import AppendBatch, Appended, FedStep, PositionedStep, RunRow

SMALL_BYTES = 64 * 1024
MAX_INTEGER = 2**63 - 1


@dataclass(slots=True, kw_only=True)
class MemoryDatabase:
    """What the three ports share.

    Args:
        epoch: the ledger's identity.
        full: set by a test that wants appends to fail as on a full disk.
    """

    epoch: str = "memory"
    full: bool = False
    closed: bool = False
    steps: list[Step] = field(default_factory=list)
    runs: dict[RunId, list[Step]] = field(default_factory=dict)
    keys: set[Digest] = field(default_factory=set)
    leases: dict[tuple[RunId, NodeId], Lease] = field(default_factory=dict)
    content: dict[tuple[RunId, Digest], bytes | None] = field(default_factory=dict)

    def head(self, run: RunId) -> Head:
        """Return the last place of a run's chain."""
        steps = self.runs.get(run)
        return Head(seq=steps[-1].seq, hash=steps[-1].hash) if steps else Head()

    def started(self, run: RunId) -> RunStarted:
        """Return the first payload of a run that is there."""
        payload = self.runs[run][0].payload
        assert isinstance(payload, RunStarted)
        return payload

    def claim(self, run: RunId, node: NodeId, owner: WorkerId, now_us: int, ttl_us: int) -> Lease:
        """Return the lease of a successful claim, which is not yet stored."""
        current = self.leases.get((run, node))
        if current is not None and not may_claim(current, owner, now_us):
            raise ConflictError(f"stage {node} of run {run} is held by {current.owner}")
        return claimed(current, run=run, node=node, owner=owner, now_us=now_us, ttl_us=ttl_us)

    def newest(self, run: RunId, node: NodeId, epoch: int) -> bool:
        """Say whether an epoch is its stage's newest and not given back."""
        lease = self.leases.get((run, node))
        return lease is not None and lease.epoch == epoch and lease.expires_us > 0


class MemoryLedger:
    """Append and ordered reads; see `ports.ledger.Ledger`."""

    def __init__(self, database: MemoryDatabase) -> None:
        self._database = database

    async def append(self, batch: AppendBatch) -> Appended:
        """See the port."""
        check_batch(batch)
        if self._database.closed:
            raise StorageError("the ledger is closed")
        # As over SQLite, others run before the commit; from here on nobody does.
        await asyncio.sleep(0)
        if self._database.full:
            raise StorageError("the disk is full", state="nothing was appended")
        lease = self._claimed(batch)
        self._check_place(batch, lease)
        return self._commit(batch, lease)

    def _claimed(self, batch: AppendBatch) -> Lease | None:
        if batch.claim is None:
            return None
        claim = batch.claim
        return self._database.claim(batch.run, claim.node, claim.owner, claim.now_us, claim.ttl_us)

    def _check_place(self, batch: AppendBatch, lease: Lease | None) -> None:
        database = self._database
        fence = batch.fence
        if lease is None and fence is not None and not database.newest(batch.run, fence.node, fence.epoch):
            raise FencedError(f"the lease of stage {fence.node} of run {batch.run} went to somebody else")
        if database.head(batch.run) != batch.expected:
            raise ConflictError(f"run {batch.run} has moved on")
        keys = [step.idempotency_key for step in batch.steps if step.idempotency_key is not None]
        if len(set(keys)) < len(keys) or database.keys & set(keys):
            raise ConflictError("a step with this idempotency key is on record")

    def _commit(self, batch: AppendBatch, lease: Lease | None) -> Appended:
        steps: list[Step] = []
        head = batch.expected
        for new in batch.steps:
            step, _ = seal(batch.run, head, new)
            steps.append(step)
            head = Head(seq=step.seq, hash=step.hash)
        database = self._database
        if lease is not None:
            database.leases[batch.run, lease.node] = lease
        for each in batch.content:
            database.content.setdefault((batch.run, each.digest), each.data)
        for step in steps:
            self._store(step)
        return Appended(steps=tuple(steps), head=head, position=len(database.steps), lease=lease)

    def _store(self, step: Step) -> None:
        database = self._database
        database.steps.append(step)
        database.runs.setdefault(step.run, []).append(step)
        if step.idempotency_key is not None:
            database.keys.add(step.idempotency_key)
        if isinstance(step.payload, ContentErased):
            for digest in step.payload.digests:
                if (step.run, digest) in database.content:
                    database.content[step.run, digest] = None

    async def read(self, run: RunId, *, after_seq: int, limit: int) -> Sequence[Step]:
        """See the port."""
        await asyncio.sleep(0)
        return self._database.runs.get(run, [])[max(after_seq, 0) :][: max(limit, 0)]

    async def feed(self, *, after_position: int, limit: int) -> Sequence[FedStep]:
        """See the port."""
        await asyncio.sleep(0)
        page = self._database.steps[max(after_position, 0) :][: max(limit, 0)]
        return [PositionedStep(position=after_position + 1 + n, step=step) for n, step in enumerate(page)]

    async def runs(self, tenant: TenantId | None, *, open_only: bool, limit: int) -> Sequence[RunRow]:
        """See the port."""
        await asyncio.sleep(0)
        rows = [self._row(run) for run in self._database.runs]
        wanted = [row for row in rows if tenant in {None, row.tenant} and not (open_only and row.finished)]
        return sorted(wanted, key=lambda row: (row.started_us, row.run), reverse=True)[:limit]

    def _row(self, run: RunId) -> RunRow:
        steps = self._database.runs[run]
        return RunRow(
            run=run,
            tenant=self._database.started(run).tenant,
            head=self._database.head(run),
            last_kind=steps[-1].kind,
            started_us=steps[0].at_us,
            updated_us=steps[-1].at_us,
            finished=any(step.kind is StepKind.RUN_FINISHED for step in steps),
        )

    async def run_of_key(self, key: Digest) -> RunId | None:
        return next((step.run for step in self._steps_of_all() if step.idempotency_key == key), None)

    def _steps_of_all(self) -> list[Step]:
        return [step for steps in self._database.runs.values() for step in steps]

    async def head(self) -> int:
        """See the port."""
        return len(self._database.steps)

    async def epoch(self) -> str:
        """See the port."""
        return self._database.epoch

    async def close(self) -> None:
        """See the port."""
        self._database.closed = True


class MemoryStageQueue:
    """Leases on stages; see `ports.ledger.StageQueue`."""

    def __init__(self, database: MemoryDatabase) -> None:
        self._database = database

    async def lease(self, run: RunId, node: NodeId) -> Lease | None:
        """See the port."""
        return self._database.leases.get((run, node))

    async def claim(self, run: RunId, node: NodeId, *, owner: WorkerId, now_us: int, ttl_us: int) -> Lease:
        """See the port."""
        await asyncio.sleep(0)
        lease = self._database.claim(run, node, owner, now_us, ttl_us)
        self._database.leases[run, node] = lease
        return lease

    async def renew(self, lease: Lease, *, now_us: int, ttl_us: int) -> Lease:
        """See the port."""
        await asyncio.sleep(0)
        if not self._is_newest(lease):
            raise FencedError(f"the lease of stage {lease.node} of run {lease.run} is gone")
        renewed = replace(lease, expires_us=now_us + ttl_us)
        self._database.leases[lease.run, lease.node] = renewed
        return renewed

    async def release(self, lease: Lease) -> None:
        """See the port."""
        await asyncio.sleep(0)
        if self._is_newest(lease):
            self._database.leases[lease.run, lease.node] = replace(lease, expires_us=0)

    def _is_newest(self, lease: Lease) -> bool:
        current = self._database.leases.get((lease.run, lease.node))
        return (
            current is not None
            and current.owner == lease.owner
            and self._database.newest(lease.run, lease.node, lease.epoch)
        )

    async def expired(self, *, now_us: int, limit: int) -> Sequence[Lease]:
        """See the port."""
        past = [each for each in self._database.leases.values() if 0 < each.expires_us <= now_us]
        return sorted(past, key=lambda each: (each.expires_us, each.run, each.node))[:limit]


class MemorySmallContent:
    """Content committed with its steps; see `ports.ledger.SmallContent`."""

    def __init__(self, database: MemoryDatabase) -> None:
        self._database = database

    async def small(self, run: RunId, ref: ContentRef) -> bytes | None:
        """See the port."""
        key = (run, ref.digest)
        if key not in self._database.content:
            return None
        data = self._database.content[key]
        if data is None:
            raise ErasedError(f"content {ref.digest[:12]} of run {run} was erased")
        return data

    async def belongs(self, tenant: TenantId, run: RunId) -> bool:
        """See the port."""
        return run in self._database.runs and self._database.started(run).tenant == tenant


def check_batch(batch: AppendBatch) -> None:
    """Refuse what no ledger takes, whatever it holds."""
    if not batch.steps:
        raise InvalidError("an append without steps")
    if batch.expected.seq == 0 and not isinstance(batch.steps[0].payload, RunStarted):
        raise InvalidError(f"run {batch.run} starts with {batch.steps[0].payload.kind}")
    if batch.fence is not None and batch.claim is not None:
        raise InvalidError("an append with both a fence and a claim")
    proof = batch.fence or batch.claim
    if proof is not None and all(step.node != proof.node for step in batch.steps):
        raise InvalidError(f"a lease of stage {proof.node} with steps of other stages")
    if any(len(each.data) > SMALL_BYTES for each in batch.content):
        raise TooLargeError("content over 64 KiB in an append")
    if not all(-MAX_INTEGER <= number <= MAX_INTEGER for number in _numbers(batch)):
        raise InvalidError("a number of the step is beyond 64 bits")


def _numbers(batch: AppendBatch) -> Iterable[int]:
    for step in batch.steps:
        yield from (step.at_us, step.cost_uusd, step.attempt or 0)
