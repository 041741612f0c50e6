"""A batch as rows of one statement: order, positions, and statements that stay few."""

import pytest

from fusiond.codec.steps import StoredStep
from fusiond.domain.digest import digest_bytes
from fusiond.domain.errors import TooLargeError
from fusiond.domain.leases import Fence, Lease
from fusiond.domain.steps.record import Head, NewStep
from fusiond.ledger.rows import (
    MAX_ROWS,
    BatchRows,
    Value,
    batch_rows,
    check_batch,
    group_insert,
    insert_statement,
    insert_values,
)
from fusiond.ledger.schema import INBOX_COLUMNS
from tests.contract.ledger_kits import BUILD, WORKER, A, batch, claim_of, of_stage
from tests.fakes.chains import new_step
from tests.fakes.payloads import run_started, turn_started

WIDTH = len(INBOX_COLUMNS)


def named(rows: BatchRows, position: int | None = 7) -> list[dict[str, Value]]:
    """Return what one INSERT of a batch says, by column, without the rows that only fill up."""
    values = insert_values([rows], position)
    lines = [values[start : start + WIDTH] for start in range(0, len(values), WIDTH)]
    return [dict(zip(INBOX_COLUMNS, line, strict=True)) for line in lines][: len(rows.rows)]


def steps(count: int) -> list[NewStep]:
    """Return steps of a run that is under way."""
    return [new_step(turn_started(number)) for number in range(count)]


def test_stored_step_has_the_columns_of_the_inbox() -> None:
    names = ["run", *INBOX_COLUMNS[2 : 1 + len(StoredStep._fields)]]
    assert list(StoredStep._fields) == names


def test_content_rides_on_the_rows_of_steps() -> None:
    rows = named(
        batch_rows(batch(A, Head(), new_step(run_started()), *steps(1), content=(b"a", b"b", b"c")), None)
    )
    assert [row["seq"] for row in rows] == [1, 2, None]
    assert [row["position"] for row in rows] == [7, 8, None]
    assert {row["content_bytes"] for row in rows} == {b"a", b"b", b"c"}
    assert all(row["run_id"] == A for row in rows)
    for row in rows:
        assert row["content_digest"] == digest_bytes(bytes(str(row["content_bytes"])[2:3], "ascii"))


def test_claim_comes_before_the_steps_that_need_it() -> None:
    claim = claim_of(now_us=5)
    lease = Lease(run=A, node=BUILD, owner=WORKER, epoch=3, expires_us=9)
    first, second, third = named(batch_rows(batch(A, Head(seq=1), of_stage(), *steps(1), claim=claim), lease))
    assert (first["claim_owner"], first["claim_now_us"], first["claim_expires_us"]) == (WORKER, 5, 9)
    assert (first["seq"], first["node"], first["epoch"], first["position"]) == (None, BUILD, 3, None)
    assert (second["seq"], second["epoch"], second["claim_owner"]) == (2, 3, None)
    assert (third["seq"], third["epoch"]) == (3, None)


def test_fence_marks_the_steps_of_its_stage() -> None:
    fence = Fence(node=BUILD, epoch=4)
    rows = named(batch_rows(batch(A, Head(seq=1), *steps(1), of_stage(), fence=fence), None))
    assert [row["epoch"] for row in rows] == [None, 4]


def test_database_may_choose_the_positions() -> None:
    rows = named(batch_rows(batch(A, Head(seq=1), *steps(3)), None), None)
    assert [row["position"] for row in rows] == [None, None, None]


def test_positions_run_on_over_a_group() -> None:
    one, two = (batch_rows(batch(A, Head(seq=1), *steps(2), content=(b"x",) * 3), None) for _ in range(2))
    values = insert_values([one, two], 10)
    assert [position for position in values[::WIDTH] if position is not None] == [10, 11, 12, 13]


@pytest.mark.parametrize("rows", [1, 5, 16, 17, 31, 32, 33, 100, MAX_ROWS - 1, MAX_ROWS])
def test_statement_fits_its_values(rows: int) -> None:
    whole = batch_rows(batch(A, Head(seq=1), *steps(rows)), None)
    statement, values = insert_statement(rows), insert_values([whole], 1)
    assert statement.count("?") == len(values)
    assert rows <= len(values) // WIDTH <= MAX_ROWS
    assert set(values[rows * WIDTH :]) <= {None}


def test_statements_are_few() -> None:
    assert len({insert_statement(rows) for rows in range(1, MAX_ROWS + 1)}) < 128


def test_few_steps_alone_go_past_the_view() -> None:
    one = batch_rows(batch(A, Head(seq=1), *steps(2)), None)
    statement, values = group_insert([one, one], 7)
    assert statement.startswith("INSERT INTO steps (position, run_id, seq,")
    assert statement.count("?") == len(values)
    assert values[:: len(values) // 4] == [7, 8, 9, 10]
    assert group_insert([one], None)[1][0] is None


@pytest.mark.parametrize("content, count", [((b"x",), 2), ((), 17)])
def test_content_or_many_steps_go_through_the_view(content: tuple[bytes, ...], count: int) -> None:
    whole = batch_rows(batch(A, Head(seq=1), *steps(count), content=content), None)
    statement, values = group_insert([whole], 1)
    assert statement.startswith("INSERT INTO inbox ")
    assert statement.count("?") == len(values)


def test_append_of_more_rows_than_a_statement_takes_is_refused() -> None:
    check_batch(batch(A, Head(seq=1), *steps(MAX_ROWS - 1)))
    with pytest.raises(TooLargeError):
        check_batch(batch(A, Head(seq=1), *steps(MAX_ROWS)))


def test_size_counts_payloads_and_content() -> None:
    rows = batch_rows(batch(A, Head(seq=1), *steps(2), content=(b"12345", b"67")), None)
    payloads = sum(len(str(row["payload"])) - 3 for row in named(rows))
    assert rows.size_bytes == 7 + payloads
