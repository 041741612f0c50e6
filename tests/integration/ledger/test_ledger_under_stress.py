"""The ledger among other processes and on a disk that refuses."""

import asyncio
import resource
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fusiond.domain.digest import ref_of
from fusiond.domain.errors import StorageError
from fusiond.domain.ids import RunId
from fusiond.domain.steps.record import Head
from fusiond.ledger.database import Database, open_database
from fusiond.ledger.leases import SqliteStageQueue
from fusiond.ledger.small_content import SqliteSmallContent
from fusiond.ledger.sqlite_ledger import SqliteLedger
from fusiond.ports.ledger import Appended
from tests.contract.ledger_kits import BUILD, WORKER, A, B, batch, readable, run_number
from tests.fakes.chains import new_step
from tests.fakes.payloads import turn_started
from tests.integration.ledger.ledger_places import begin, open_ledger, turns, wal_of

LARGE = bytes(64 * 1024)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """Return an open database."""
    opened = await open_database(tmp_path / "state.db", new_epoch="e")
    yield opened
    await opened.close()


@contextmanager
def no_file_may_grow_past(size: int) -> Iterator[None]:
    """Let every write of this process beyond `size` bytes fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def turn(ledger: SqliteLedger, run: RunId, head: Head, data: bytes) -> Appended:
    """Append one step with content."""
    return await ledger.append(batch(run, head, new_step(turn_started(1)), content=(data,)))


async def test_ledger_works_again_when_the_disk_has_room_again(database: Database, tmp_path: Path) -> None:
    ledger, small = SqliteLedger(database), SqliteSmallContent(database)
    head = await begin(ledger, A)
    size = wal_of(tmp_path / "state.db").stat().st_size
    with no_file_may_grow_past(size + 5_000):
        for _ in range(3):
            with pytest.raises(StorageError) as caught:
                await turn(ledger, A, head, LARGE)
            assert caught.value.state == "nothing was appended"
        assert await small.small(A, ref_of(LARGE)) is None
        assert await ledger.head() == 1
    appended = await turn(ledger, A, head, LARGE)
    assert (appended.position, appended.head.seq) == (2, 2)
    assert await small.small(A, ref_of(LARGE)) == LARGE


async def test_full_disk_fails_each_who_does_not_fit(database: Database, tmp_path: Path) -> None:
    ledger = SqliteLedger(database)
    heads = {run: await begin(ledger, run) for run in map(run_number, range(12))}
    size = wal_of(tmp_path / "state.db").stat().st_size
    with no_file_may_grow_past(size + 100_000):
        results = await asyncio.gather(
            *(turn(ledger, run, head, LARGE) for run, head in heads.items()),
            return_exceptions=True,
        )
    done = [each for each in results if isinstance(each, Appended)]
    failed = [each for each in results if isinstance(each, StorageError)]
    assert len(done) + len(failed) == 12
    assert failed
    assert await ledger.head() == 12 + len(done)
    left = [run for run, each in zip(heads, results, strict=True) if isinstance(each, StorageError)]
    again = await asyncio.gather(*(turn(ledger, run, heads[run], LARGE) for run in left))
    assert sorted(each.position for each in again) == list(range(13 + len(done), 25))


async def test_queue_works_again_when_the_disk_has_room_again(database: Database, tmp_path: Path) -> None:
    queue = SqliteStageQueue(database)
    lease = await queue.claim(A, BUILD, owner=WORKER, now_us=1, ttl_us=5)
    with no_file_may_grow_past(wal_of(tmp_path / "state.db").stat().st_size):
        with pytest.raises(StorageError):
            await queue.renew(lease, now_us=2, ttl_us=5)
        assert await queue.lease(A, BUILD) == lease
    assert (await queue.renew(lease, now_us=2, ttl_us=5)).expires_us == 7


async def started(path: Path, run: RunId, count: int) -> Process:
    """Start a process that appends."""
    module = "tests.integration.ledger.appender"
    root = Path(__file__).parents[3]
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, str(path), run, str(count), cwd=root, stdout=PIPE, stderr=PIPE
    )


async def acknowledged(process: Process) -> list[tuple[int, str]]:
    """Wait for a process that appends; return what it was told is recorded."""
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return [(int(line.split()[0]), line.split()[1]) for line in out.decode().splitlines()]


async def test_processes_append_side_by_side(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    runs = [run_number(number) for number in range(3)]
    processes = [await started(path, run, 40) for run in runs]
    told = [await acknowledged(process) for process in processes]
    async with open_ledger(path) as ledger:
        for run, heads in zip(runs, told, strict=True):
            steps = await ledger.read(run, after_seq=0, limit=1_000)
            assert [(step.seq, step.hash) for step in steps] == heads
        feed = await ledger.feed(after_position=0, limit=1_000)
        assert [each.position for each in feed] == list(range(1, 121))
        assert sorted((each.run, each.step.seq) for each in readable(feed)) == [
            (run, seq) for run in runs for seq in range(1, 41)
        ]


async def test_processes_take_turns_on_one_run(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with open_ledger(path) as ledger:
        await begin(ledger, A)
    processes = [await started(path, A, 15) for _ in range(2)]
    told = [await acknowledged(process) for process in processes]
    async with open_ledger(path) as ledger:
        steps = await ledger.read(A, after_seq=0, limit=1_000)
    assert sorted([*told[0], *told[1]]) == [(step.seq, step.hash) for step in steps[1:]]
    assert len(steps) == 31


async def test_feed_misses_nothing_of_other_processes(tmp_path: Path) -> None:
    """Whoever follows by position sees every step once, while others append and this process does too."""
    path = tmp_path / "state.db"
    async with open_ledger(path) as ledger:
        processes = [await started(path, run_number(number), 25) for number in range(2)]
        head, seen = await begin(ledger, B), list[int]()
        while len(seen) < 51 + 25:
            page = await ledger.feed(after_position=seen[-1] if seen else 0, limit=7)
            seen += [each.position for each in page]
            if head.seq < 26:
                head = await turns(ledger, head, 1, B)
            await asyncio.sleep(0)
        for process in processes:
            await acknowledged(process)
    assert seen == list(range(1, 77))
