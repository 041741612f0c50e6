"""What every ledger does: the one suite over the in-memory and the SQLite adapter."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from fusiond.codec.steps import seal
from fusiond.domain.digest import Digest, digest_bytes, ref_of
from fusiond.domain.errors import (
    ConflictError,
    ErasedError,
    FencedError,
    FusionError,
    InvalidError,
    StorageError,
    TooLargeError,
)
from fusiond.domain.ids import NodeId, RunId, TenantId
from fusiond.domain.labels import Label
from fusiond.domain.leases import Fence
from fusiond.domain.steps.after import ContentErased
from fusiond.domain.steps.kinds import StepKind
from fusiond.domain.steps.record import Head, NewStep, Step
from fusiond.domain.steps.run import RunOutcome
from fusiond.ports.ledger import AppendBatch, Appended
from tests.contract.ledger_kits import (
    ADAPTERS,
    BUILD,
    OTHER,
    WORKER,
    A,
    B,
    LedgerKit,
    batch,
    claim_of,
    ledger_kit,
    of_stage,
    readable,
    run_number,
)
from tests.fakes.chains import START_US, new_step
from tests.fakes.payloads import run_finished, run_started, turn_started

KIB64 = 64 * 1024


@pytest.fixture(params=ADAPTERS)
async def kit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LedgerKit]:
    """Return the ports of one adapter."""
    async with ledger_kit(str(request.param), tmp_path) as opened:
        yield opened


async def refused(kit: LedgerKit, wanted: type[FusionError], append: AppendBatch) -> FusionError:
    """Append what must be refused; make sure that nothing of it is left."""
    before = await kit.ledger.feed(after_position=0, limit=1_000)
    leases = [await kit.queue.lease(run, BUILD) for run in (A, B)]
    with pytest.raises(wanted) as caught:
        await kit.ledger.append(append)
    assert await kit.ledger.feed(after_position=0, limit=1_000) == before
    assert [await kit.queue.lease(run, BUILD) for run in (A, B)] == leases
    new = [each for each in append.content if len(each.data) <= KIB64]
    assert [await kit.small.small(append.run, each.ref) for each in new] == [None] * len(new)
    return caught.value


# Appending and reading.


async def test_steps_are_sealed_and_read_back(kit: LedgerKit) -> None:
    full = NewStep(
        node=BUILD,
        attempt=of_stage().attempt,
        payload=turn_started(1, ref_of(b"feedback")),
        at_us=START_US + 1,
        refs=(digest_bytes(b"feedback"), digest_bytes(b"more")),
        labels=frozenset({Label.SECRET, Label.PERSONAL}),
        cost_uusd=7,
        idempotency_key=digest_bytes(b"key"),
    )
    first = await kit.begin()
    second = await kit.ledger.append(batch(A, first.head, full, new_step(turn_started(2))))
    expected, head = [], Head()
    for new in (new_step(run_started()), full, new_step(turn_started(2))):
        step, _ = seal(A, head, new)
        expected.append(step)
        head = Head(seq=step.seq, hash=step.hash)
    assert [*first.steps, *second.steps] == expected
    assert list(await kit.ledger.read(A, after_seq=0, limit=10)) == expected
    assert (second.head, second.lease) == (head, None)


async def test_positions_count_all_runs_in_commit_order(kit: LedgerKit) -> None:
    assert await kit.ledger.head() == 0
    a = await kit.begin(A)
    b = await kit.begin(B)
    a2 = await kit.ledger.append(batch(A, a.head, new_step(turn_started(1)), new_step(turn_started(2))))
    b2 = await kit.turn(B, b.head)
    assert [a.position, b.position, a2.position, b2.position] == [1, 2, 4, 5]
    assert await kit.ledger.head() == 5
    feed = await kit.ledger.feed(after_position=0, limit=10)
    assert [each.position for each in feed] == [1, 2, 3, 4, 5]
    assert [each.step for each in readable(feed)] == [*a.steps, *b.steps, *a2.steps, *b2.steps]
    assert list(await kit.ledger.feed(after_position=2, limit=2)) == list(feed[2:4])
    assert list(await kit.ledger.feed(after_position=5, limit=2)) == []
    assert list(await kit.ledger.feed(after_position=99, limit=2)) == []


async def test_run_is_read_in_pages(kit: LedgerKit) -> None:
    head = (await kit.begin()).head
    steps: list[Step] = []
    for number in range(1, 8):
        appended = await kit.turn(A, head, number)
        head, steps = appended.head, [*steps, *appended.steps]
    assert list(await kit.ledger.read(A, after_seq=1, limit=3)) == steps[:3]
    assert list(await kit.ledger.read(A, after_seq=4, limit=100)) == steps[3:]
    assert list(await kit.ledger.read(A, after_seq=8, limit=100)) == []
    assert list(await kit.ledger.read(A, after_seq=99, limit=100)) == []
    assert list(await kit.ledger.read(A, after_seq=0, limit=0)) == []
    assert list(await kit.ledger.read(B, after_seq=0, limit=100)) == []


@pytest.mark.parametrize(
    "wrong",
    [Head(), Head(seq=1, hash=digest_bytes(b"forged")), Head(seq=7, hash=digest_bytes(b"ahead"))],
    ids=["no head", "other hash", "ahead"],
)
async def test_other_head_is_a_conflict(kit: LedgerKit, wrong: Head) -> None:
    await kit.begin()
    step = new_step(run_started()) if wrong.seq == 0 else new_step(turn_started(1))
    error = await refused(kit, ConflictError, batch(A, wrong, step, content=(b"new",)))
    assert error.found == f"run {A} has moved on"


async def test_head_of_a_run_that_never_began_is_a_conflict(kit: LedgerKit) -> None:
    began = await kit.begin(A)
    await refused(kit, ConflictError, batch(B, began.head, new_step(turn_started(1))))


async def test_append_is_whole_or_nothing(kit: LedgerKit) -> None:
    key = digest_bytes(b"key")
    began = await kit.begin()
    twice = [replace(new_step(turn_started(number)), idempotency_key=key) for number in (1, 2)]
    await refused(kit, ConflictError, batch(A, began.head, *twice, content=(b"a", b"b", b"c")))
    assert (await kit.turn(A, began.head)).position == 2


async def test_idempotency_key_is_unique_in_the_ledger(kit: LedgerKit) -> None:
    keyed = replace(new_step(turn_started(1)), idempotency_key=digest_bytes(b"key"))
    a, b = await kit.begin(A), await kit.begin(B)
    done = await kit.ledger.append(batch(A, a.head, keyed))
    for append in (batch(B, b.head, keyed), batch(A, done.head, keyed)):
        error = await refused(kit, ConflictError, append)
        assert "idempotency key" in error.found
    other = replace(keyed, idempotency_key=digest_bytes(b"other key"))
    assert (await kit.ledger.append(batch(B, b.head, other, other_key(other)))).position == 5


def other_key(step: NewStep) -> NewStep:
    """Return the same call under a third key."""
    return replace(step, idempotency_key=digest_bytes(b"third key"))


async def test_nonsense_is_refused_before_it_is_written(kit: LedgerKit) -> None:
    began = await kit.begin()
    fence = Fence(node=BUILD, epoch=1)
    await refused(kit, InvalidError, batch(A, began.head))
    await refused(kit, InvalidError, batch(B, Head(), new_step(turn_started(1))))
    await refused(kit, InvalidError, batch(A, began.head, of_stage(), fence=fence, claim=claim_of()))
    await refused(kit, InvalidError, batch(A, began.head, of_stage(NodeId("test")), fence=fence))
    await refused(kit, InvalidError, batch(A, began.head, new_step(turn_started(1)), claim=claim_of()))


@pytest.mark.parametrize(
    "step",
    [
        replace(new_step(turn_started(1)), cost_uusd=2**63),
        replace(new_step(turn_started(1)), at_us=2**64),
        new_step(turn_started(2**64)),
    ],
    ids=["cost", "time", "payload"],
)
async def test_number_beyond_64_bits_is_refused(kit: LedgerKit, step: NewStep) -> None:
    began = await kit.begin()
    await refused(kit, InvalidError, batch(A, began.head, step))
    assert (await kit.turn(A, began.head)).position == 2


async def test_close_ends_the_ledger(kit: LedgerKit) -> None:
    began = await kit.begin()
    await kit.ledger.close()
    with pytest.raises(StorageError):
        await kit.turn(A, began.head)


# Content.


async def test_content_is_committed_with_its_steps(kit: LedgerKit) -> None:
    contents = (b"one", b"", b"x" * KIB64, bytes(range(256)))
    appended = await kit.begin(A, *contents)
    assert [await kit.small.small(A, ref_of(each)) for each in contents] == list(contents)
    await kit.ledger.append(batch(A, appended.head, new_step(turn_started(1)), content=(b"one", b"one")))
    assert await kit.small.small(A, ref_of(b"one")) == b"one"


async def test_content_is_read_by_its_run_alone(kit: LedgerKit) -> None:
    await kit.begin(A, b"mine")
    await kit.begin(B)
    assert await kit.small.small(B, ref_of(b"mine")) is None
    assert await kit.small.small(A, ref_of(b"other")) is None


async def test_content_over_64_kib_is_refused(kit: LedgerKit) -> None:
    began = await kit.begin()
    large = batch(A, began.head, new_step(turn_started(1)), content=(b"ok", b"x" * (KIB64 + 1)))
    await refused(kit, TooLargeError, large)


async def test_erased_content_is_told_so(kit: LedgerKit) -> None:
    began = await kit.begin(A, b"secret", b"harmless")
    await kit.begin(B, b"secret")
    erased = ContentErased(digests=(digest_bytes(b"secret"), digest_bytes(b"unknown")), by="me", reason="")
    done = await kit.ledger.append(batch(A, began.head, new_step(erased)))
    with pytest.raises(ErasedError):
        await kit.small.small(A, ref_of(b"secret"))
    assert await kit.small.small(A, ref_of(b"harmless")) == b"harmless"
    assert await kit.small.small(A, ref_of(b"unknown")) is None
    assert await kit.small.small(B, ref_of(b"secret")) == b"secret"
    again = batch(A, done.head, new_step(turn_started(1)), content=(b"secret",))
    await kit.ledger.append(again)
    with pytest.raises(ErasedError):
        await kit.small.small(A, ref_of(b"secret"))


async def test_run_belongs_to_its_tenant(kit: LedgerKit) -> None:
    await kit.begin(A)
    assert await kit.small.belongs(TenantId("local"), A)
    assert not await kit.small.belongs(TenantId("other"), A)
    assert not await kit.small.belongs(TenantId("local"), B)


# Leases at work.


async def test_claim_is_made_with_the_append(kit: LedgerKit) -> None:
    began = await kit.begin()
    appended = await kit.ledger.append(batch(A, began.head, of_stage(), claim=claim_of(ttl_us=500)))
    lease = appended.lease
    assert lease is not None
    assert (lease.run, lease.node, lease.owner) == (A, BUILD, WORKER)
    assert (lease.epoch, lease.expires_us) == (1, START_US + 500)
    assert await kit.queue.lease(A, BUILD) == lease


async def test_stage_that_is_held_cannot_be_claimed(kit: LedgerKit) -> None:
    began = await kit.begin()
    held = await kit.ledger.append(batch(A, began.head, of_stage(), claim=claim_of(WORKER)))
    late = claim_of(OTHER, now_us=START_US + 999)
    error = await refused(kit, ConflictError, batch(A, held.head, of_stage(), claim=late, content=(b"new",)))
    assert WORKER in error.found


async def test_claim_that_comes_too_late_for_the_head_is_not_made(kit: LedgerKit) -> None:
    began = await kit.begin()
    await kit.turn(A, began.head)
    await refused(kit, ConflictError, batch(A, began.head, of_stage(), claim=claim_of()))
    assert await kit.queue.lease(A, BUILD) is None


@pytest.mark.parametrize(
    "owner,now_us", [(WORKER, START_US), (OTHER, START_US + 1_000)], ids=["own", "expired"]
)
async def test_every_claim_has_the_next_epoch(kit: LedgerKit, owner: str, now_us: int) -> None:
    began = await kit.begin()
    first = await kit.ledger.append(batch(A, began.head, of_stage(), claim=claim_of(WORKER)))
    claim = claim_of(WORKER if owner == WORKER else OTHER, now_us=now_us)
    second = await kit.ledger.append(batch(A, first.head, of_stage(), claim=claim))
    assert second.lease is not None
    assert (second.lease.owner, second.lease.epoch) == (owner, 2)
    await refused(kit, FencedError, batch(A, second.head, of_stage(), fence=Fence(node=BUILD, epoch=1)))
    await kit.ledger.append(batch(A, second.head, of_stage(), fence=Fence(node=BUILD, epoch=2)))


async def test_epoch_that_nobody_holds_is_fenced(kit: LedgerKit) -> None:
    began = await kit.begin()
    await refused(kit, FencedError, batch(A, began.head, of_stage(), fence=Fence(node=BUILD, epoch=1)))
    held = await kit.ledger.append(batch(A, began.head, of_stage(), claim=claim_of()))
    await refused(kit, FencedError, batch(A, held.head, of_stage(), fence=Fence(node=BUILD, epoch=2)))
    assert held.lease is not None
    await kit.queue.release(held.lease)
    await refused(kit, FencedError, batch(A, held.head, of_stage(), fence=Fence(node=BUILD, epoch=1)))


async def test_lease_of_one_run_is_none_in_another(kit: LedgerKit) -> None:
    a, b = await kit.begin(A), await kit.begin(B)
    await kit.ledger.append(batch(A, a.head, of_stage(), claim=claim_of()))
    await refused(kit, FencedError, batch(B, b.head, of_stage(), fence=Fence(node=BUILD, epoch=1)))


async def test_steps_of_the_run_ride_with_those_of_a_stage(kit: LedgerKit) -> None:
    began = await kit.begin()
    mixed = [of_stage(), new_step(turn_started(2)), of_stage(NodeId("test"))]
    held = await kit.ledger.append(batch(A, began.head, *mixed, claim=claim_of()))
    await kit.ledger.append(batch(A, held.head, *mixed, fence=Fence(node=BUILD, epoch=1)))


# Many at once.


async def test_one_of_many_at_the_same_place_wins(kit: LedgerKit) -> None:
    began = await kit.begin()
    tries = [kit.turn(A, began.head, number) for number in range(20)]
    results = await asyncio.gather(*tries, return_exceptions=True)
    (won,) = [each for each in results if isinstance(each, Appended)]
    assert sum(isinstance(each, ConflictError) for each in results) == 19
    assert list(await kit.ledger.read(A, after_seq=1, limit=100)) == list(won.steps)


async def test_one_of_many_claims_wins(kit: LedgerKit) -> None:
    runs = [run_number(number) for number in range(5)]
    heads = {run: (await kit.begin(run)).head for run in runs}
    tries = [
        kit.ledger.append(batch(run, heads[run], of_stage(), claim=claim_of(owner)))
        for run in runs
        for owner in (WORKER, OTHER)
    ]
    results = await asyncio.gather(*tries, return_exceptions=True)
    won = [each for each in results if isinstance(each, Appended)]
    assert sorted(each.steps[0].run for each in won) == runs
    assert sum(isinstance(each, ConflictError) for each in results) == 5
    for each in won:
        assert each.lease == await kit.queue.lease(each.steps[0].run, BUILD)


async def test_bad_append_fails_nobody_else(kit: LedgerKit) -> None:
    runs = [run_number(number) for number in range(30)]
    heads = {run: (await kit.begin(run)).head for run in runs}
    key = digest_bytes(b"key")
    wrong = {
        runs[3]: batch(runs[3], Head(seq=1, hash=digest_bytes(b"x")), new_step(turn_started(1))),
        runs[9]: batch(runs[9], heads[runs[9]], of_stage(), fence=Fence(node=BUILD, epoch=4)),
        runs[17]: batch(
            runs[17],
            heads[runs[17]],
            *[replace(new_step(turn_started(n)), idempotency_key=key) for n in (1, 2)],
        ),
        runs[18]: batch(runs[18], heads[runs[18]], replace(new_step(turn_started(1)), cost_uusd=2**70)),
    }
    good = {run: batch(run, heads[run], new_step(turn_started(1)), content=(run.encode(),)) for run in runs}
    results = await asyncio.gather(
        *(kit.ledger.append(wrong.get(run, good[run])) for run in runs), return_exceptions=True
    )
    failed = {run: type(result) for run, result in zip(runs, results, strict=True) if run in wrong}
    assert failed == {
        runs[3]: ConflictError,
        runs[9]: FencedError,
        runs[17]: ConflictError,
        runs[18]: InvalidError,
    }
    done = [each for each in results if isinstance(each, Appended)]
    assert len(done) == 26
    assert sorted(each.position for each in done) == list(range(31, 57))
    for each in done:
        at = await kit.ledger.feed(after_position=each.position - 1, limit=1)
        assert readable(at)[0].step == each.steps[0]
        run = each.steps[0].run
        assert await kit.small.small(run, ref_of(run.encode())) == run.encode()


async def test_many_callers_keep_their_own_order(kit: LedgerKit) -> None:
    async def worker(run: RunId) -> list[Digest]:
        head = (await kit.begin(run)).head
        hashes = [head.hash]
        for number in range(12):
            head = (await kit.turn(run, head, number)).head
            hashes.append(head.hash)
        return hashes

    runs = [run_number(number) for number in range(25)]
    hashes = await asyncio.gather(*map(worker, runs))
    feed = await kit.ledger.feed(after_position=0, limit=1_000)
    assert [each.position for each in feed] == list(range(1, 25 * 13 + 1))
    for run, expected in zip(runs, hashes, strict=True):
        assert [step.hash for step in await kit.ledger.read(run, after_seq=0, limit=100)] == expected
        assert [each.step.hash for each in readable(feed) if each.run == run] == expected


async def test_append_whose_caller_is_gone_does_no_harm(kit: LedgerKit) -> None:
    heads = [(await kit.begin(run_number(number))).head for number in range(10)]
    tasks = [asyncio.create_task(kit.turn(run_number(number), head)) for number, head in enumerate(heads)]
    await asyncio.sleep(0)
    for task in tasks[::3]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for number in range(10):
        steps = await kit.ledger.read(run_number(number), after_seq=0, limit=10)
        last = steps[-1]
        appended = await kit.turn(last.run, Head(seq=last.seq, hash=last.hash), 9)
        [fed] = await kit.ledger.feed(after_position=appended.position - 1, limit=1)
        assert readable([fed])[0].step == appended.steps[0]


# The index of runs.


async def test_runs_are_listed_newest_first(kit: LedgerKit) -> None:
    assert list(await kit.ledger.runs(None, open_only=False, limit=9)) == []
    for number, tenant in enumerate(["local", "other", "local"]):
        started = replace(run_started(), tenant=TenantId(tenant))
        first = NewStep(payload=started, at_us=START_US + number)
        await kit.ledger.append(batch(run_number(number), Head(), first))
    last = await kit.turn(run_number(2), await head_of(kit, run_number(2)))
    rows = await kit.ledger.runs(None, open_only=False, limit=9)
    assert [row.run for row in rows] == [run_number(2), run_number(1), run_number(0)]
    assert (rows[0].head, rows[0].last_kind, rows[0].tenant) == (last.head, StepKind.TURN_STARTED, "local")
    assert (rows[0].started_us, rows[0].updated_us, rows[0].finished) == (START_US + 2, START_US, False)
    local = await kit.ledger.runs(TenantId("local"), open_only=False, limit=9)
    assert [row.run for row in local] == [run_number(2), run_number(0)]
    assert [row.run for row in await kit.ledger.runs(None, open_only=True, limit=1)] == [run_number(2)]
    assert list(await kit.ledger.runs(TenantId("nobody"), open_only=False, limit=9)) == []


async def test_finished_run_stays_finished(kit: LedgerKit) -> None:
    began = await kit.begin(A)
    await kit.begin(B)
    ended = await kit.ledger.append(batch(A, began.head, new_step(run_finished(RunOutcome.SUCCEEDED))))
    erased = ContentErased(digests=(), by="me", reason="")
    await kit.ledger.append(batch(A, ended.head, new_step(erased)))
    assert [row.run for row in await kit.ledger.runs(None, open_only=True, limit=9)] == [B]
    rows = {row.run: row for row in await kit.ledger.runs(None, open_only=False, limit=9)}
    assert (rows[A].finished, rows[A].last_kind, rows[A].head.seq) == (True, StepKind.CONTENT_ERASED, 3)
    assert not rows[B].finished


async def head_of(kit: LedgerKit, run: RunId) -> Head:
    """Return where a run is."""
    last = (await kit.ledger.read(run, after_seq=0, limit=100))[-1]
    return Head(seq=last.seq, hash=last.hash)


async def test_ledger_has_an_identity(kit: LedgerKit) -> None:
    assert await kit.ledger.epoch() == "made for this test"
