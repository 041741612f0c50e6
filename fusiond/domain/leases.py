"""Leases: the exclusive, expiring right to advance a stage.

The epoch grows with every claim. An append carries the epoch it was made
under, and the ledger refuses one from an older epoch (fencing), so a worker
that slept past its lease's expiry can do no harm (`engine.md`, Leases).
"""

from fusiond.domain.ids import NodeId, RunId, WorkerId
from fusiond.domain.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One claim on one stage."""

    run: RunId
    node: NodeId
    owner: WorkerId
    epoch: int
    expires_us: int

    def held(self, now_us: int) -> bool:
        """Say whether the lease still keeps others away."""
        return now_us < self.expires_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """What an append of a stage carries to prove that its lease is the newest."""

    node: NodeId
    epoch: int


def may_claim(current: Lease | None, owner: WorkerId, now_us: int) -> bool:
    """Say whether `owner` may claim: free, expired, or already its own."""
    return current is None or not current.held(now_us) or current.owner == owner


def claimed(
    current: Lease | None, *, run: RunId, node: NodeId, owner: WorkerId, now_us: int, ttl_us: int
) -> Lease:
    """Return the lease a successful claim makes: the next epoch, a new expiry."""
    epoch = 1 if current is None else current.epoch + 1
    return Lease(run=run, node=node, owner=owner, epoch=epoch, expires_us=now_us + ttl_us)
