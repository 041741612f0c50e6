"""Opening `state.db`: new, again, too new, not ours, damaged; and who may read it."""

import asyncio
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from fusiond.domain.digest import digest_bytes, ref_of
from fusiond.domain.errors import CorruptError, ErasedError, NewerError, StorageError
from fusiond.domain.steps.after import ContentErased
from fusiond.domain.steps.record import Head
from fusiond.ledger.database import open_database
from fusiond.ledger.schema import SCHEMA_VERSION
from fusiond.ledger.small_content import SqliteSmallContent
from fusiond.ledger.sqlite_ledger import SqliteLedger
from tests.contract.ledger_kits import A, batch
from tests.fakes.chains import new_step
from tests.fakes.payloads import run_started
from tests.integration.ledger.ledger_places import (
    begin,
    by_hand,
    filled,
    open_ledger,
    steps_in,
    turns,
    wal_of,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the place of a ledger that is not there yet."""
    return tmp_path / "state.db"


async def test_ledger_is_kept_over_closing(path: Path) -> None:
    head = await filled(path, 30)
    steps = await steps_in(path)
    assert Head(seq=steps[-1].seq, hash=steps[-1].hash) == head
    async with open_ledger(path, check=True) as ledger:
        assert (await turns(ledger, head, 1)).seq == 31
        assert await ledger.head() == 31


async def test_identity_is_made_once(path: Path) -> None:
    for epoch in ("first", "second"):
        database = await open_database(path, new_epoch=epoch)
        assert database.epoch == "first"
        await database.close()


async def test_many_open_a_new_ledger_at_once(path: Path) -> None:
    databases = await asyncio.gather(*(open_database(path, new_epoch=f"{number}") for number in range(4)))
    assert len({database.epoch for database in databases}) == 1
    for database in databases:
        await database.close()


async def test_commits_survive_a_power_cut(path: Path) -> None:
    """SQLite is told to sync every commit, and to overwrite what is deleted."""
    database = await open_database(path, new_epoch="e")
    found = {}
    for name in ("journal_mode", "synchronous", "secure_delete", "recursive_triggers"):
        [(found[name],)] = await database.writer.execute_fetchall(f"PRAGMA {name}")
    await database.close()
    assert found == {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1, "recursive_triggers": 1}


async def test_readers_cannot_write(path: Path) -> None:
    database = await open_database(path, new_epoch="e")
    try:
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            await database.reader.execute_fetchall("INSERT INTO meta VALUES ('a', 'b')")
    finally:
        await database.close()


async def test_only_the_owner_may_read_the_file(path: Path) -> None:
    old = os.umask(0)
    try:
        async with open_ledger(path) as ledger:
            await begin(ledger)
            modes = {stat.S_IMODE(each.stat().st_mode) for each in (path, wal_of(path))}
    finally:
        os.umask(old)
    assert modes == {0o600}


async def test_newer_schema_is_refused_untouched(path: Path) -> None:
    await filled(path, 2)
    with by_hand(path) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = path.read_bytes()
    with pytest.raises(NewerError, match="newer fusion"):
        await open_database(path, new_epoch="e")
    assert path.read_bytes() == before


async def test_database_of_another_program_is_refused_untouched(path: Path) -> None:
    with by_hand(path) as connection:
        connection.execute("CREATE TABLE cookies (name TEXT)")
    before = path.read_bytes()
    with pytest.raises(CorruptError, match="another program"):
        await open_database(path, new_epoch="e")
    assert path.read_bytes() == before


async def test_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"#!/bin/sh\n" * 1_000)
    with pytest.raises(CorruptError):
        await open_database(path, new_epoch="e")


async def test_link_in_the_place_of_the_file_is_not_followed(path: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError):
        await open_database(path, new_epoch="e")


async def test_directory_that_is_not_there_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file"):
        await open_database(tmp_path / "gone" / "state.db", new_epoch="e")


async def test_path_may_hold_any_character(tmp_path: Path) -> None:
    place = tmp_path / "a b?mode=ro#%41&é"
    place.mkdir()
    await filled(place / "state.db", 3)
    assert len(await steps_in(place / "state.db")) == 3
    assert (place / "state.db").exists()


async def test_damaged_file_is_found_by_the_check(path: Path) -> None:
    await filled(path, 200)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 4096] = b"\xa5" * 4096
    path.write_bytes(data)
    with pytest.raises(CorruptError, match="damaged"):
        await open_database(path, new_epoch="e", check=True)


async def test_erased_bytes_are_nowhere_in_the_files(path: Path) -> None:
    secret = b"the secret that must go " * 400
    database = await open_database(path, new_epoch="e")
    ledger, small = SqliteLedger(database), SqliteSmallContent(database)
    try:
        began = await ledger.append(batch(A, Head(), new_step(run_started()), content=(secret, b"kept")))
        assert secret[:24] in path.read_bytes() + wal_of(path).read_bytes()
        erased = ContentErased(digests=(digest_bytes(secret),), by="me", reason="")
        await ledger.append(batch(A, began.head, new_step(erased)))
        assert secret[:24] not in path.read_bytes() + wal_of(path).read_bytes()
        with pytest.raises(ErasedError):
            await small.small(A, ref_of(secret))
    finally:
        await ledger.close()
    assert (await steps_in(path))[0].hash == began.head.hash


async def test_damaged_content_is_not_handed_out(path: Path) -> None:
    database = await open_database(path, new_epoch="e")
    ledger, small = SqliteLedger(database), SqliteSmallContent(database)
    try:
        await ledger.append(batch(A, Head(), new_step(run_started()), content=(b"true",)))
        for forged in (b"trve", b"true!", b""):
            with by_hand(path) as connection:
                connection.execute("UPDATE content SET bytes = ?", (forged,))
            with pytest.raises(CorruptError):
                await small.small(A, ref_of(b"true"))
    finally:
        await ledger.close()
