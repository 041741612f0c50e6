"""What every stage queue does: the one suite over the in-memory and the SQLite adapter."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from fusiond.domain.errors import ConflictError, FencedError
from fusiond.domain.ids import NodeId
from fusiond.domain.leases import Fence, Lease
from tests.contract.ledger_kits import (
    ADAPTERS,
    BUILD,
    OTHER,
    WORKER,
    A,
    B,
    LedgerKit,
    batch,
    ledger_kit,
    of_stage,
)

NOW = 1_000_000
TTL = 500


@pytest.fixture(params=ADAPTERS)
async def kit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LedgerKit]:
    """Return the ports of one adapter."""
    async with ledger_kit(str(request.param), tmp_path) as opened:
        yield opened


async def claim(
    kit: LedgerKit, owner: str = WORKER, *, node: NodeId = BUILD, now_us: int = NOW, ttl_us: int = TTL
) -> Lease:
    """Claim a stage of run A."""
    who = WORKER if owner == WORKER else OTHER
    return await kit.queue.claim(A, node, owner=who, now_us=now_us, ttl_us=ttl_us)


async def test_stage_that_was_never_claimed_has_no_lease(kit: LedgerKit) -> None:
    assert await kit.queue.lease(A, BUILD) is None


async def test_claim_is_stored(kit: LedgerKit) -> None:
    lease = await claim(kit)
    assert lease == Lease(run=A, node=BUILD, owner=WORKER, epoch=1, expires_us=NOW + TTL)
    assert await kit.queue.lease(A, BUILD) == lease
    assert await kit.queue.lease(A, NodeId("test")) is None
    assert await kit.queue.lease(B, BUILD) is None


async def test_held_stage_is_claimed_by_nobody_else(kit: LedgerKit) -> None:
    lease = await claim(kit)
    with pytest.raises(ConflictError, match=WORKER):
        await claim(kit, OTHER, now_us=NOW + TTL - 1)
    assert await kit.queue.lease(A, BUILD) == lease


async def test_epoch_grows_with_every_claim(kit: LedgerKit) -> None:
    assert (await claim(kit)).epoch == 1
    assert (await claim(kit)).epoch == 2
    taken = await claim(kit, OTHER, now_us=NOW + TTL)
    assert (taken.owner, taken.epoch) == (OTHER, 3)
    await kit.queue.release(taken)
    assert (await claim(kit)).epoch == 4


async def test_one_of_many_claims_wins(kit: LedgerKit) -> None:
    results = await asyncio.gather(
        *(claim(kit, owner) for owner in (WORKER, OTHER, OTHER, WORKER)), return_exceptions=True
    )
    won = [each for each in results if isinstance(each, Lease)]
    assert {each.owner for each in won} == {won[0].owner}
    assert won[-1] == await kit.queue.lease(A, BUILD)
    assert all(isinstance(each, Lease | ConflictError) for each in results)


async def test_claim_gives_the_fence_of_its_stage(kit: LedgerKit) -> None:
    began = await kit.begin()
    lease = await claim(kit)
    fence = Fence(node=BUILD, epoch=lease.epoch)
    appended = await kit.ledger.append(batch(A, began.head, of_stage(), fence=fence))
    await claim(kit, OTHER, now_us=NOW + TTL)
    with pytest.raises(FencedError):
        await kit.ledger.append(batch(A, appended.head, of_stage(), fence=fence))


async def test_renewed_lease_keeps_others_away_longer(kit: LedgerKit) -> None:
    lease = await claim(kit)
    renewed = await kit.queue.renew(lease, now_us=NOW + 400, ttl_us=TTL)
    assert renewed == replace(lease, expires_us=NOW + 900)
    assert await kit.queue.lease(A, BUILD) == renewed
    with pytest.raises(ConflictError):
        await claim(kit, OTHER, now_us=NOW + TTL)
    # The older copy of the same claim still proves it: what counts is the epoch.
    assert (await kit.queue.renew(lease, now_us=NOW + 500, ttl_us=TTL)).epoch == lease.epoch


async def test_lease_past_its_expiry_is_renewed_as_long_as_nobody_took_it(kit: LedgerKit) -> None:
    lease = await claim(kit)
    assert (await kit.queue.renew(lease, now_us=NOW + 10 * TTL, ttl_us=TTL)).expires_us == NOW + 11 * TTL


async def test_lease_that_went_to_somebody_else_is_not_renewed(kit: LedgerKit) -> None:
    lease = await claim(kit)
    taken = await claim(kit, OTHER, now_us=NOW + TTL)
    with pytest.raises(FencedError):
        await kit.queue.renew(lease, now_us=NOW + TTL, ttl_us=TTL)
    assert await kit.queue.lease(A, BUILD) == taken


async def test_forged_lease_is_not_renewed(kit: LedgerKit) -> None:
    lease = await claim(kit)
    for forged in (replace(lease, epoch=2), replace(lease, owner=OTHER), replace(lease, run=B)):
        with pytest.raises(FencedError):
            await kit.queue.renew(forged, now_us=NOW, ttl_us=TTL)
    assert await kit.queue.lease(A, BUILD) == lease


async def test_released_stage_is_free_at_once(kit: LedgerKit) -> None:
    lease = await claim(kit)
    await kit.queue.release(lease)
    released = await kit.queue.lease(A, BUILD)
    assert released is not None
    assert not released.held(NOW)
    with pytest.raises(FencedError):
        await kit.queue.renew(lease, now_us=NOW, ttl_us=TTL)
    assert (await claim(kit, OTHER)).epoch == 2


async def test_release_of_a_lease_that_went_on_changes_nothing(kit: LedgerKit) -> None:
    lease = await claim(kit)
    taken = await claim(kit, OTHER, now_us=NOW + TTL)
    await kit.queue.release(lease)
    await kit.queue.release(replace(lease, node=NodeId("nothing")))
    assert await kit.queue.lease(A, BUILD) == taken


async def test_expired_leases_are_listed_longest_expired_first(kit: LedgerKit) -> None:
    late = await claim(kit, node=NodeId("late"), ttl_us=300)
    early = await claim(kit, node=NodeId("early"), ttl_us=100)
    await claim(kit, node=NodeId("held"), ttl_us=301)
    await kit.queue.release(await claim(kit, node=NodeId("released"), ttl_us=50))
    assert list(await kit.queue.expired(now_us=NOW + 300, limit=10)) == [early, late]
    assert list(await kit.queue.expired(now_us=NOW + 300, limit=1)) == [early]
    assert list(await kit.queue.expired(now_us=NOW + 99, limit=10)) == []
