"""SQLite's errors as Fusion's: which refusal or which broken disk was it.

Owns the mapping and nothing else; who knows more (the run, the stage) adds it.
"""

import sqlite3

from fusiond.domain.errors import (
    ConflictError,
    CorruptError,
    FencedError,
    FusionError,
    InvalidError,
    StorageError,
    TryAgainError,
)
from fusiond.ledger.schema import (
    REFUSED_CHANGE,
    REFUSED_CLAIM,
    REFUSED_FENCE,
    REFUSED_PLACE,
    REFUSED_POSITION,
)

_PRIMARY = 0xFF
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DISK = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOLFS,
}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_CHAIN_TAKEN = "UNIQUE constraint failed: steps.run_id, steps.seq"
_KEY_TAKEN = "UNIQUE constraint failed: steps.idempotency_key"
_POSITION_TAKEN = "UNIQUE constraint failed: steps.position"


def as_fusion_error(error: sqlite3.Error) -> FusionError:
    """Return what `error` means to a caller of the ledger."""
    if isinstance(error, sqlite3.IntegrityError):
        return _refusal(str(error))
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if code in _BUSY:
        return TryAgainError("another process keeps the ledger busy", cure="try again")
    if code in _DAMAGED:
        return CorruptError(f"the ledger is damaged: {error} ({name})", cure="restore it from a backup")
    if code in _DISK:
        return StorageError(
            f"the ledger could not be written or read: {error} ({name})",
            cure="make room on the disk or repair it, then try again",
        )
    return FusionError(f"the ledger failed: {error} ({name})", cure="report this as a bug of fusion")


def _refusal(text: str) -> FusionError:
    match text:
        case str() if text in {_CHAIN_TAKEN, REFUSED_PLACE}:
            return ConflictError("the run has moved on", cure="read the run again")
        case str() if text == _KEY_TAKEN:
            return ConflictError(
                "a step with this idempotency key is on record", expected="a call that was never recorded"
            )
        case str() if text in {_POSITION_TAKEN, REFUSED_POSITION}:
            return TryAgainError("another process appended at this moment", cure="try again")
        case str() if text == REFUSED_FENCE:
            return FencedError("the stage's lease went to somebody else", expected="the newest epoch")
        case str() if text == REFUSED_CLAIM:
            return ConflictError("the stage was claimed by somebody else at this moment", cure="claim later")
        case str() if text == REFUSED_CHANGE:
            return InvalidError("a recorded step or lease cannot be changed or deleted")
        case _:
            return InvalidError(f"the ledger does not take this step: {text}")
