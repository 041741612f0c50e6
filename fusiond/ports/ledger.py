"""The port of the append-only ledger and of the stage leases beside it."""

from collections.abc import Sequence
from typing import Protocol

from fusiond.domain.digest import Content, ContentRef, Digest
from fusiond.domain.errors import FusionError
from fusiond.domain.ids import NodeId, RunId, TenantId, WorkerId
from fusiond.domain.leases import Fence, Lease
from fusiond.domain.records import dataclass
from fusiond.domain.steps.kinds import StepKind
from fusiond.domain.steps.record import Head, NewStep, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseClaim:
    """A claim made in the same transaction as the append it comes with."""

    node: NodeId
    owner: WorkerId
    now_us: int
    ttl_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendBatch:
    """Steps that are committed together or not at all.

    Args:
        run: whose chain.
        expected: the head the caller folded; another head is a conflict.
        steps: at least one.
        content: each <= 64 KiB, committed with the steps that name them.
        fence: proves the stage's lease; None for steps of the run itself.
        claim: take the lease of a stage first, in the same transaction.
    """

    run: RunId
    expected: Head
    steps: tuple[NewStep, ...]
    content: tuple[Content, ...] = ()
    fence: Fence | None = None
    claim: LeaseClaim | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What was committed. `position` is the ledger-wide number of the last step."""

    steps: tuple[Step, ...]
    head: Head
    position: int
    lease: Lease | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionedStep:
    """A step with its ledger-wide number, for readers that follow all runs."""

    position: int
    step: Step

    @property
    def run(self) -> RunId:
        """Return whose step it is."""
        return self.step.run


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableStep:
    """A step that a newer Fusion wrote or somebody changed: that run cannot be followed, others can."""

    position: int
    run: RunId
    error: FusionError


FedStep = PositionedStep | UnreadableStep


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run as the ledger's index knows it; `last_kind` is None when a newer Fusion wrote it."""

    run: RunId
    tenant: TenantId
    head: Head
    last_kind: StepKind | None
    started_us: int
    updated_us: int
    finished: bool


class Ledger(Protocol):
    """Append and ordered reads. A caller is answered after its commit is on disk."""

    async def append(self, batch: AppendBatch) -> Appended:
        """Append `batch`.

        Raises:
            ConflictError: the run's head is not `expected`, or an idempotency key exists,
                or the claim is held by somebody else.
            FencedError: `fence` is not the newest epoch of its stage.
            StorageError: the disk refused; nothing was appended.
        """
        ...

    async def read(self, run: RunId, *, after_seq: int, limit: int) -> Sequence[Step]:
        """Read a run's steps in order. CorruptError on a broken chain, NewerError on a newer kind."""
        ...

    async def feed(self, *, after_position: int, limit: int) -> Sequence[FedStep]:
        """Read steps of all runs in commit order. One run that is unreadable hides no other."""
        ...

    async def runs(self, tenant: TenantId | None, *, open_only: bool, limit: int) -> Sequence[RunRow]:
        """List runs, newest first. `tenant` None is for the daemon itself."""
        ...

    async def run_of_key(self, key: Digest) -> RunId | None:
        """Return the run in which an idempotency key is on record."""
        ...

    async def head(self) -> int:
        """Return the last ledger-wide position, 0 for an empty ledger."""
        ...

    async def epoch(self) -> str:
        """Return the ledger's identity; positions of another epoch mean nothing here."""
        ...

    async def close(self) -> None:
        """Finish what waits and close the file."""
        ...


class StageQueue(Protocol):
    """Leases on stages. One suite holds the in-memory and the SQLite implementation."""

    async def lease(self, run: RunId, node: NodeId) -> Lease | None:
        """Return the newest lease of a stage, held or not."""
        ...

    async def claim(self, run: RunId, node: NodeId, *, owner: WorkerId, now_us: int, ttl_us: int) -> Lease:
        """Claim a stage before anything is prepared for it; ConflictError while another holds it."""
        ...

    async def renew(self, lease: Lease, *, now_us: int, ttl_us: int) -> Lease:
        """Extend; FencedError when a newer epoch exists or the lease was released."""
        ...

    async def release(self, lease: Lease) -> None:
        """Give back; releasing a lease that went to another epoch changes nothing."""
        ...

    async def expired(self, *, now_us: int, limit: int) -> Sequence[Lease]:
        """List leases that are past their expiry and not released."""
        ...


class SmallContent(Protocol):
    """Content of at most 64 KiB, committed with its steps and readable by run."""

    async def small(self, run: RunId, ref: ContentRef) -> bytes | None:
        """Return the bytes, None when there are none here; ErasedError when they were erased."""
        ...

    async def belongs(self, tenant: TenantId, run: RunId) -> bool:
        """Say whether a run is that tenant's. Every read of content asks first."""
        ...
