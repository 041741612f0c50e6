"""Group commit over real SQLite: who shares a commit, who waits for whom, what a refusal costs."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from fusiond.domain.digest import digest_bytes
from fusiond.domain.errors import ConflictError, StorageError
from fusiond.domain.ids import RunId
from fusiond.domain.steps.record import Head
from fusiond.ledger.sqlite_ledger import CHUNK, SqliteLedger
from fusiond.ports.ledger import Appended
from tests.contract.ledger_kits import A, B, batch, run_number
from tests.fakes.chains import new_step
from tests.fakes.payloads import turn_started
from tests.integration.ledger.ledger_places import begin, by_hand, commits_in, open_ledger, turns, wal_of


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """Return the place of a ledger that is not there yet."""
    return tmp_path / "state.db"


@pytest.fixture
async def ledger(path: Path) -> AsyncIterator[SqliteLedger]:
    """Return an open ledger."""
    async with open_ledger(path) as opened:
        yield opened


async def turn(ledger: SqliteLedger, run: RunId, head: Head, *content: bytes) -> Appended:
    """Append one step with content."""
    return await ledger.append(batch(run, head, new_step(turn_started(1)), content=content))


async def test_all_who_wait_share_one_commit(ledger: SqliteLedger, path: Path) -> None:
    heads = {run: await begin(ledger, run) for run in map(run_number, range(40))}
    before = commits_in(wal_of(path))
    appended = await asyncio.gather(*(turn(ledger, run, head, run.encode()) for run, head in heads.items()))
    assert commits_in(wal_of(path)) == before + 2
    assert sorted(each.position for each in appended) == list(range(41, 81))


async def test_lone_caller_has_one_commit_with_its_content(ledger: SqliteLedger, path: Path) -> None:
    head = await begin(ledger)
    before = commits_in(wal_of(path))
    for number in range(5):
        head = (await turn(ledger, A, head, b"%d" % number, b"more", b"and more")).head
    assert commits_in(wal_of(path)) == before + 5


async def test_group_is_bounded_by_bytes(ledger: SqliteLedger, path: Path) -> None:
    runs = list(map(run_number, range(150)))
    heads = {run: await begin(ledger, run) for run in runs}
    large = [(run, bytes(64 * 1024 - 13) + run.encode()) for run in runs]
    with by_hand(path) as other:
        # Whoever reads an old state keeps the log from being started over, so that commits can be counted.
        other.execute("BEGIN")
        assert other.execute("SELECT count(*) FROM steps").fetchone() == (150,)
        before = commits_in(wal_of(path))
        await asyncio.gather(*(turn(ledger, run, heads[run], data) for run, data in large))
        # One alone, then 149 times 64 KiB in groups of at most 8 MiB.
        assert commits_in(wal_of(path)) == before + 3


async def test_answer_comes_after_the_commit(ledger: SqliteLedger, path: Path) -> None:
    """While another process holds the lock nobody is answered; afterwards everybody is, from disk."""
    heads = {run: await begin(ledger, run) for run in map(run_number, range(9))}
    with by_hand(path) as other:
        other.execute("BEGIN IMMEDIATE")
        tasks = [asyncio.create_task(turn(ledger, run, head)) for run, head in heads.items()]
        # Reading goes on meanwhile, and shows that nothing is there yet.
        assert len(await ledger.feed(after_position=0, limit=99)) == 9
        assert not any(task.done() for task in tasks)
        other.execute("COMMIT")
        for appended in await asyncio.gather(*tasks):
            [(count,)] = other.execute(
                "SELECT count(*) FROM steps WHERE position = ? AND hash = ?",
                (appended.position, appended.head.hash),
            )
            assert count == 1


async def test_refused_member_costs_the_others_a_commit_and_nothing_else(ledger: SqliteLedger) -> None:
    heads = {run: await begin(ledger, run) for run in map(run_number, range(10))}
    key = digest_bytes(b"key")
    keyed = replace(new_step(turn_started(1)), idempotency_key=key)
    results = await asyncio.gather(
        *(ledger.append(batch(run, head, keyed)) for run, head in heads.items()), return_exceptions=True
    )
    (won,) = [each for each in results if isinstance(each, Appended)]
    assert sum(isinstance(each, ConflictError) for each in results) == 9
    assert (won.position, await ledger.head()) == (11, 11)
    assert (await begin(ledger, A)).seq == 1
    assert await ledger.head() == 12


async def test_positions_go_on_after_somebody_else_appended(ledger: SqliteLedger, path: Path) -> None:
    head = await begin(ledger, A)
    async with open_ledger(path) as other:
        await turns(other, await begin(other, B), 3, B)
        appended = await turn(ledger, A, head)
        assert appended.position == 6
        assert (await turn(other, B, await last(other, B))).position == 7
        assert (await turn(ledger, A, appended.head)).position == 8
    feed = await ledger.feed(after_position=0, limit=99)
    assert [each.position for each in feed] == list(range(1, 9))


async def last(ledger: SqliteLedger, run: RunId) -> Head:
    """Return where a run is."""
    step = (await ledger.read(run, after_seq=0, limit=99))[-1]
    return Head(seq=step.seq, hash=step.hash)


async def test_appends_go_on_during_a_long_read(ledger: SqliteLedger) -> None:
    head = await begin(ledger, A)
    for _ in range(10):
        steps = [new_step(turn_started(number)) for number in range(CHUNK)]
        head = (await ledger.append(batch(A, head, *steps))).head
    other = await begin(ledger, B)
    reading = asyncio.create_task(ledger.read(A, after_seq=0, limit=10_000))
    appended = 0
    while not reading.done():
        other = (await turn(ledger, B, other)).head
        appended += 1
    assert len(await reading) == 10 * CHUNK + 1
    assert appended > 2


async def test_reader_in_another_process_stops_nobody(ledger: SqliteLedger, path: Path) -> None:
    head = await begin(ledger, A)
    with by_hand(path) as other:
        other.execute("BEGIN")
        assert other.execute("SELECT count(*) FROM steps").fetchone() == (1,)
        await turns(ledger, head, 20)
        assert other.execute("SELECT count(*) FROM steps").fetchone() == (1,)


async def test_closing_writes_what_waits(path: Path) -> None:
    async with open_ledger(path) as ledger:
        heads = {run: await begin(ledger, run) for run in map(run_number, range(20))}
        tasks = [asyncio.create_task(turn(ledger, run, head)) for run, head in heads.items()]
        await asyncio.sleep(0)
        await ledger.close()
        assert len(await asyncio.gather(*tasks)) == 20
        with pytest.raises(StorageError, match="closed"):
            await begin(ledger, A)
    async with open_ledger(path) as ledger:
        assert await ledger.head() == 40


async def test_caller_that_leaves_while_alone_leaves_the_queue_in_order(
    ledger: SqliteLedger, path: Path
) -> None:
    head = await begin(ledger, A)
    other = await begin(ledger, B)
    with by_hand(path) as blocker:
        blocker.execute("BEGIN IMMEDIATE")
        alone = asyncio.create_task(turn(ledger, A, head))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(turn(ledger, B, other))
        await asyncio.sleep(0)
        alone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await alone
        blocker.execute("ROLLBACK")
        # The statement was under way already, so its step is recorded although nobody waited for it.
        assert (await waiting).position == 4
    assert (await last(ledger, A)).seq == 2


async def test_append_fails_alike_whoever_closed_the_file(path: Path) -> None:
    async with open_ledger(path) as ledger:
        heads = {run: await begin(ledger, run) for run in map(run_number, range(5))}
        await ledger._database.close()
        results = await asyncio.gather(
            *(turn(ledger, run, head) for run, head in heads.items()), return_exceptions=True
        )
        assert [type(each) for each in results] == [StorageError] * 5
        with pytest.raises(StorageError):
            await ledger.read(A, after_seq=0, limit=1)


def test_sqlite_here_knows_what_the_ledger_needs() -> None:
    """STRICT tables came with 3.37, RETURNING with 3.35."""
    assert sqlite3.sqlite_version_info >= (3, 37)
