"""Ledgers on disk for tests that look behind the port: opened, filled, copied, and changed by hand."""

import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from fusiond.domain.ids import RunId
from fusiond.domain.steps.record import Head, Step
from fusiond.ledger.database import open_database
from fusiond.ledger.sqlite_ledger import SqliteLedger
from tests.contract.ledger_kits import A, batch
from tests.fakes.chains import new_step
from tests.fakes.payloads import run_started, turn_started

WAL_HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24


@asynccontextmanager
async def open_ledger(path: Path, *, check: bool = False) -> AsyncIterator[SqliteLedger]:
    """Open the ledger in a file, and close it in the end."""
    ledger = SqliteLedger(await open_database(path, new_epoch="of this test", check=check))
    try:
        yield ledger
    finally:
        await ledger.close()


async def begin(ledger: SqliteLedger, run: RunId = A) -> Head:
    """Append a run's first step."""
    return (await ledger.append(batch(run, Head(), new_step(run_started())))).head


async def turns(ledger: SqliteLedger, head: Head, count: int, run: RunId = A) -> Head:
    """Append steps one after the other, each with content of its own."""
    for _ in range(count):
        number = head.seq
        content = (f"{run} {number} ".encode() * 20,)
        head = (await ledger.append(batch(run, head, new_step(turn_started(number)), content=content))).head
    return head


async def filled(path: Path, count: int) -> Head:
    """Make a ledger with one run of `count` steps, and close it."""
    async with open_ledger(path) as ledger:
        return await turns(ledger, await begin(ledger), count - 1)


async def steps_in(path: Path, run: RunId = A) -> Sequence[Step]:
    """Return all steps of a run in a ledger that is closed."""
    async with open_ledger(path) as ledger:
        return await ledger.read(run, after_seq=0, limit=10_000)


@contextmanager
def by_hand(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file past Fusion, with nothing that guards the steps."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=30)
    try:
        yield connection
    finally:
        connection.close()


def unguarded(connection: sqlite3.Connection) -> None:
    """Remove what guards the steps, as somebody who forges a ledger would."""
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'")]
    for name in names:
        connection.execute(f'DROP TRIGGER "{name}"')


def wal_of(path: Path) -> Path:
    """Return the write-ahead log of a database file."""
    return path.with_name(f"{path.name}-wal")


def copy(path: Path, to: Path) -> Path:
    """Copy a database and its write-ahead log as a crash would leave them; return the copy."""
    to.mkdir()
    for each in (path, wal_of(path)):
        shutil.copy(each, to / each.name)
    return to / path.name


def commits_in(wal: Path) -> int:
    """Count the commits in a write-ahead log that was not started over: frames that name a database size."""
    data = wal.read_bytes()
    frame = FRAME_HEADER_BYTES + int.from_bytes(data[8:12], "big")
    starts = range(WAL_HEADER_BYTES, len(data) - frame + 1, frame)
    return sum(data[start + 4 : start + 8] != b"\0\0\0\0" for start in starts)
