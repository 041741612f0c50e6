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
from fusiond.domain.steps.record import Step
from fusiond.ledger.schema import (
    REFUSED_CHANGE,
    REFUSED_CLAIM,
    REFUSED_FENCE,
    REFUSED_PLACE,
    REFUSED_POSITION,
)

FAILURES = (sqlite3.Error, OverflowError, ValueError)
"""What a statement can raise: SQLite's refusal, an integer beyond 64 bits, a connection that was closed."""

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


def as_fusion_error(error: Exception, first: Step | None = None) -> FusionError:
    """Return what one of `FAILURES` means to a caller of the ledger.

    Args:
        error: what the statement raised.
        first: the first step of the append that failed, when it was an append.
    """
    if isinstance(error, sqlite3.IntegrityError):
        return _refusal(str(error), first)
    if isinstance(error, OverflowError):
        return InvalidError("a number of the step is beyond 64 bits", expected="signed 64-bit integers")
    if isinstance(error, ValueError):
        return StorageError("the ledger is closed", state="nothing was appended")
    return _failure(error)


def _failure(error: Exception) -> FusionError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY
    text = f"{error} ({getattr(error, 'sqlite_errorname', type(error).__name__)})"
    if code in _BUSY:
        return TryAgainError("another process keeps the ledger busy", cure="try again")
    if code in _DAMAGED:
        return CorruptError(f"the ledger is damaged: {text}", cure="restore it from a backup")
    if code in _DISK:
        return StorageError(
            f"the ledger could not be written or read: {text}",
            state="nothing was appended",
            cure="make room on the disk or repair it, then try again",
        )
    return FusionError(f"the ledger failed: {text}", cure="report this as a bug of fusion")


def _refusal(text: str, first: Step | None) -> FusionError:
    fields = {} if first is None else {"run": first.run, "seq": str(first.seq)}
    run = "the run" if first is None else f"run {first.run}"
    before = "the head that was read" if first is None else f"step {first.seq - 1} to be its last"
    stage = "the stage" if first is None or first.node is None else f"stage {first.node} of {run}"
    match text:
        case _ if text in {_CHAIN_TAKEN, REFUSED_PLACE}:
            return ConflictError(
                f"{run} has moved on", expected=before, cure="read the run again", fields=fields
            )
        case _ if text == _KEY_TAKEN:
            return ConflictError(
                "a step with this idempotency key is on record",
                expected="a call that was never recorded",
                fields=fields,
            )
        case _ if text in {_POSITION_TAKEN, REFUSED_POSITION}:
            return TryAgainError("another process appended at this moment", cure="try again")
        case _ if text == REFUSED_FENCE:
            return FencedError(
                f"the lease of {stage} went to somebody else",
                expected="the newest epoch",
                cure="stop working on this stage",
                fields=fields,
            )
        case _ if text == REFUSED_CLAIM:
            return ConflictError(
                f"{stage} was claimed by somebody else at this moment", cure="claim it later", fields=fields
            )
        case _ if text == REFUSED_CHANGE:
            return InvalidError("a recorded step or lease cannot be changed or deleted")
        case _:
            return InvalidError(f"the ledger does not take this step: {text}", fields=fields)
