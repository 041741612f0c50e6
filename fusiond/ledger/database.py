"""The file `state.db`: opening, migrating, and its two connections.

Owns connection settings and the schema's version. Owns no rule and no query
on steps. Everybody else in this package gets a `Database`.
"""

import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

import aiosqlite

from fusiond.domain.errors import CorruptError, NewerError, StorageError
from fusiond.domain.records import dataclass
from fusiond.ledger.failures import as_fusion_error
from fusiond.ledger.schema import APPLICATION_ID, MIGRATIONS, SCHEMA_VERSION

BUSY_TIMEOUT_S = 10.0
"""How long a statement waits for another process's commit before it gives up."""

_CACHED_STATEMENTS = 256
_FILE_MODE = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """An open `state.db`.

    Args:
        writer: the only connection that writes; one statement is one transaction.
        reader: read-only, so that a long read never stands in an append's way.
        epoch: the ledger's identity, made when the file was.
    """

    writer: aiosqlite.Connection
    reader: aiosqlite.Connection
    epoch: str

    async def close(self) -> None:
        """Close both connections; the last one to close folds the WAL into the file."""
        await self.reader.close()
        await self.writer.close()


async def open_database(path: Path, *, new_epoch: str, check: bool = False) -> Database:
    """Open `state.db`, make it when it is not there, and bring its schema up to date.

    Args:
        path: the file; its directory exists.
        new_epoch: a random id, used only when the file is new.
        check: look through the whole file first (`PRAGMA quick_check`).

    Raises:
        NewerError: a newer Fusion made the schema.
        CorruptError: no SQLite file, another program's, or a damaged one.
        StorageError: the directory or the disk refuses.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _FILE_MODE))
    except OSError as error:
        raise StorageError(
            f"the ledger {path} cannot be opened: {error.strerror}", cure="check the directory"
        ) from error
    writer = await _connect(path, read_only=False)
    try:
        await _set_up(writer)
        if check:
            await _check(writer, path)
        await _migrate(writer, new_epoch)
        [(epoch,)] = await writer.execute_fetchall("SELECT value FROM meta WHERE name = 'epoch'")
        reader = await _connect(path, read_only=True)
    except sqlite3.Error as error:
        await writer.close()
        raise as_fusion_error(error) from error
    except BaseException:
        await writer.close()
        raise
    return Database(writer=writer, reader=reader, epoch=str(epoch))


async def _connect(path: Path, *, read_only: bool) -> aiosqlite.Connection:
    return await aiosqlite.connect(
        f"file:{quote(str(path))}?mode={'ro' if read_only else 'rw'}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        cached_statements=_CACHED_STATEMENTS,
    )


async def _set_up(connection: aiosqlite.Connection) -> None:
    # In this order: whoever makes the ledger at this moment commits its tables and its id together.
    [(tables,)] = await connection.execute_fetchall("SELECT count(*) FROM sqlite_schema")
    [(found,)] = await connection.execute_fetchall("PRAGMA application_id")
    if tables and found != APPLICATION_ID:
        raise CorruptError("state.db is another program's database", expected="a ledger made by fusion")
    [(mode,)] = await connection.execute_fetchall("PRAGMA journal_mode = WAL")
    if mode != "wal":
        raise StorageError(
            f"the ledger's file system allows only journal mode {mode}",
            expected="write-ahead logging",
            cure="keep the workspace on a local file system",
        )
    # Without recursive triggers INSERT OR REPLACE would delete a step past the trigger that forbids it.
    for pragma in (
        "synchronous = FULL",
        "secure_delete = ON",
        "recursive_triggers = ON",
        "trusted_schema = ON",
        "cell_size_check = ON",
    ):
        await connection.execute_fetchall(f"PRAGMA {pragma}")


async def _check(connection: aiosqlite.Connection, path: Path) -> None:
    found = [str(row[0]) for row in await connection.execute_fetchall("PRAGMA quick_check")]
    if found != ["ok"]:
        raise CorruptError(
            f"the ledger {path} is damaged: {found[0][:200]}",
            expected="a sound database",
            cure="restore it from a backup",
        )


async def _migrate(connection: aiosqlite.Connection, new_epoch: str) -> None:
    if await _version(connection) == SCHEMA_VERSION:
        return
    await connection.execute_fetchall("BEGIN IMMEDIATE")
    try:
        # Read again: another process may have migrated while this one waited for the lock.
        version = await _version(connection)
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                await connection.execute_fetchall(statement)
        if version == 0:
            await connection.execute_fetchall(f"PRAGMA application_id = {APPLICATION_ID}")
            await connection.execute_fetchall("INSERT INTO meta VALUES ('epoch', ?)", (new_epoch,))
        await connection.execute_fetchall(f"PRAGMA user_version = {SCHEMA_VERSION}")
        await connection.execute_fetchall("COMMIT")
    except BaseException:
        if connection.in_transaction:
            await connection.execute_fetchall("ROLLBACK")
        raise


async def _version(connection: aiosqlite.Connection) -> int:
    [(found,)] = await connection.execute_fetchall("PRAGMA user_version")
    version = int(found)
    if version > SCHEMA_VERSION:
        raise NewerError(
            f"the ledger's schema {version} was written by a newer fusion",
            expected=f"schema {SCHEMA_VERSION} or older",
            cure="upgrade fusion",
        )
    return version
