"""What SQLite's errors mean to a caller, shown with errors that SQLite itself raises."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusiond.codec.steps import seal
from fusiond.domain.errors import (
    ConflictError,
    CorruptError,
    FencedError,
    FusionError,
    InvalidError,
    StorageError,
    TryAgainError,
)
from fusiond.domain.steps.record import Head
from fusiond.ledger.failures import FAILURES, as_fusion_error
from fusiond.ledger.schema import MIGRATIONS
from tests.contract.ledger_kits import A, of_stage

STEP, _ = seal(A, Head(seq=6), of_stage())


@pytest.fixture
def base(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Return an empty ledger."""
    connection = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    for statements in MIGRATIONS:
        for statement in statements:
            connection.execute(statement)
    yield connection
    connection.close()


def meaning(base: sqlite3.Connection, statement: str, *values: object) -> FusionError:
    """Return what the failure of a statement means."""
    with pytest.raises(FAILURES) as caught:
        base.execute(statement, values)
    return as_fusion_error(caught.value, STEP)


def insert(base: sqlite3.Connection, **columns: object) -> None:
    """Insert a first step, or what `columns` make of it."""
    base.execute(*insertion(**columns))


def insertion(**columns: object) -> tuple[str, tuple[object, ...]]:
    """Return the statement and values of `insert`."""
    row = {
        "run_id": "r",
        "seq": 1,
        "kind": "run_started",
        "payload": b'{"compared":{"tenant":"local"}}',
        "refs": "",
        "labels": "",
        "cost_uusd": 0,
        "at_us": 1,
        "prev_hash": "0" * 64,
        "hash": "h1",
    } | columns
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    return f"INSERT INTO steps ({names}) VALUES ({marks})", tuple(row.values())


def refusal(base: sqlite3.Connection, **columns: object) -> FusionError:
    """Return what the refusal of an insert means."""
    statement, values = insertion(**columns)
    return meaning(base, statement, *values)


def test_place_that_is_taken_is_a_conflict(base: sqlite3.Connection) -> None:
    insert(base)
    error = refusal(base)
    assert isinstance(error, ConflictError)
    assert error.found == f"run {A} has moved on"
    assert error.expected == "step 6 to be its last"
    assert error.fields == {"run": A, "seq": "7"}


@pytest.mark.parametrize(
    "columns",
    [
        {"seq": 3, "prev_hash": "h1"},
        {"seq": 2, "prev_hash": "other"},
        {"run_id": "r2", "seq": 2, "prev_hash": "h1"},
        {"run_id": "r2", "prev_hash": "1" * 64},
    ],
    ids=["gap", "other hash", "no run", "not from zero"],
)
def test_place_that_does_not_follow_is_a_conflict(
    base: sqlite3.Connection, columns: dict[str, object]
) -> None:
    insert(base)
    assert isinstance(refusal(base, **columns), ConflictError)


def test_taken_key_is_a_conflict(base: sqlite3.Connection) -> None:
    insert(base, idempotency_key="k")
    error = refusal(base, run_id="r2", idempotency_key="k")
    assert isinstance(error, ConflictError)
    assert "idempotency key" in error.found


@pytest.mark.parametrize("position", [5, 4, 1])
def test_position_at_or_behind_the_last_is_tried_again(base: sqlite3.Connection, position: int) -> None:
    insert(base, position=5)
    assert isinstance(refusal(base, run_id="r2", position=position), TryAgainError)


def test_stale_epoch_is_fenced(base: sqlite3.Connection) -> None:
    base.execute("INSERT INTO lease VALUES ('r', 'build', 'w', 2, 9)")
    error = refusal(base, node="build", epoch=1)
    assert isinstance(error, FencedError)
    assert "stage build" in error.found


def test_lost_claim_is_a_conflict(base: sqlite3.Connection) -> None:
    base.execute("INSERT INTO lease VALUES ('r', 'build', 'w', 2, 9)")
    claim = (
        "INSERT INTO inbox (run_id, node, epoch, claim_owner, claim_now_us, claim_expires_us)"
        " VALUES ('r', 'build', ?, ?, ?, 99)"
    )
    for epoch, owner, now_us in ((3, "v", 8), (2, "v", 9), (4, "w", 9), (1, "w", 9)):
        assert isinstance(meaning(base, claim, epoch, owner, now_us), ConflictError)
    base.execute(claim, (3, "v", 9))
    assert base.execute("SELECT owner, epoch, expires_us FROM lease").fetchall() == [("v", 3, 99)]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE steps SET cost_uusd = 0",
        "DELETE FROM steps",
        "UPDATE steps SET hash = 'x' WHERE seq = 1",
        "DELETE FROM lease",
        "INSERT OR REPLACE INTO steps SELECT * FROM steps",
    ],
)
def test_record_cannot_be_changed(base: sqlite3.Connection, statement: str) -> None:
    base.execute("PRAGMA recursive_triggers = ON")
    insert(base)
    base.execute("INSERT INTO lease VALUES ('r', 'build', 'w', 2, 9)")
    error = meaning(base, statement)
    assert isinstance(error, InvalidError)
    assert "cannot be changed" in error.found


@pytest.mark.parametrize("epoch", [1, 4])
def test_epoch_moves_by_one(base: sqlite3.Connection, epoch: int) -> None:
    base.execute("INSERT INTO lease VALUES ('r', 'build', 'w', 2, 9)")
    assert isinstance(meaning(base, "UPDATE lease SET epoch = ?", epoch), ConflictError)


def test_row_that_no_ledger_holds_is_invalid(base: sqlite3.Connection) -> None:
    for columns in ({"seq": 0}, {"payload": "text"}, {"at_us": "now"}, {"payload": b"{}"}, {"hash": None}):
        assert isinstance(refusal(base, **columns), InvalidError), columns


def test_number_beyond_64_bits_is_invalid(base: sqlite3.Connection) -> None:
    assert isinstance(refusal(base, cost_uusd=2**63), InvalidError)


def test_full_disk_is_a_storage_error(base: sqlite3.Connection) -> None:
    [(pages,)] = base.execute("PRAGMA page_count").fetchall()
    base.execute(f"PRAGMA max_page_count = {pages}")
    error = refusal(base, payload=b'{"compared":{"tenant":"' + b"t" * 100_000 + b'"}}')
    assert isinstance(error, StorageError)
    assert error.state == "nothing was appended"


def test_read_only_file_is_a_storage_error(base: sqlite3.Connection) -> None:
    base.execute("PRAGMA query_only = ON")
    assert isinstance(refusal(base), StorageError)


def test_locked_file_is_tried_again(base: sqlite3.Connection, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "state.db", isolation_level=None, timeout=0)
    base.execute("BEGIN IMMEDIATE")
    assert isinstance(meaning(other, "BEGIN IMMEDIATE"), TryAgainError)
    other.close()


def test_file_that_is_no_database_is_corrupt(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"not a database at all" * 100)
    other = sqlite3.connect(tmp_path / "x.db")
    assert isinstance(meaning(other, "SELECT * FROM sqlite_schema"), CorruptError)
    other.close()


def test_closed_connection_is_a_storage_error() -> None:
    assert isinstance(as_fusion_error(ValueError("no active connection")), StorageError)


def test_anything_else_is_our_own_mistake(base: sqlite3.Connection) -> None:
    error = meaning(base, "SELECT 1 FROM nowhere")
    assert type(error) is FusionError
    assert "no such table" in error.found
