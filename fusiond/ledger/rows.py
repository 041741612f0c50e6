"""A batch as rows of the `inbox` view: checked, sealed, in the order in which they are written.

Owns what makes a batch acceptable before the database sees it, and the shape
of the rows. Owns no connection.
"""

from collections.abc import Sequence
from functools import cache

from fusiond.codec.steps import place, placed
from fusiond.domain.digest import Content, Digest
from fusiond.domain.errors import InvalidError, TooLargeError
from fusiond.domain.leases import Lease
from fusiond.domain.records import dataclass
from fusiond.domain.steps.record import Head, Step
from fusiond.domain.steps.run import RunStarted
from fusiond.ledger.schema import INBOX_COLUMNS
from fusiond.ports.ledger import AppendBatch

SMALL_CONTENT_MAX_BYTES = 64 * 1024
"""Larger content belongs into the content store (`engine.md`, Ledger)."""

MAX_ROWS = 32_766 // len(INBOX_COLUMNS)
"""Bound on the rows of one statement: SQLite's default bound on variables."""

Value = str | int | bytes | None
Row = tuple[Value, ...]

_NO_CONTENT: Row = (None, None)
_NO_CLAIM: Row = (None, None, None)
_SEQ = INBOX_COLUMNS.index("seq") - 1
# Without `position`, which comes first: the columns of a step end where those of content begin.
_STEP_WIDTH = INBOX_COLUMNS.index("content_digest") - 1
_NO_ROW: Row = (None,) * len(INBOX_COLUMNS)
# Statements are prepared once per number of rows; above this, only for multiples of it.
_ROUNDING = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRows:
    """What one append writes.

    Args:
        rows: values of `INBOX_COLUMNS` without `position`.
        steps: the sealed steps, at least one.
        size_bytes: of payloads and content together.
        steps_alone: whether every row is a step and nothing else.
    """

    rows: tuple[Row, ...]
    steps: tuple[Step, ...]
    size_bytes: int
    steps_alone: bool


def check_batch(batch: AppendBatch) -> None:
    """Refuse a batch that no ledger state makes acceptable.

    Raises:
        InvalidError: no steps, a run that does not start with `run_started`, or a fence or
            claim for a stage of which the batch has no step.
        TooLargeError: content over 64 KiB, or more rows than one statement takes.
    """
    if not batch.steps:
        raise InvalidError("an append without steps", expected="at least one step")
    if batch.expected.seq == 0 and not isinstance(batch.steps[0].payload, RunStarted):
        raise InvalidError(
            f"run {batch.run} starts with {batch.steps[0].payload.kind}", expected="run_started"
        )
    if batch.fence is not None and batch.claim is not None:
        raise InvalidError("an append with both a fence and a claim", expected="one of the two")
    proof = batch.fence or batch.claim
    if proof is not None and all(step.node != proof.node for step in batch.steps):
        raise InvalidError(
            f"a lease of stage {proof.node} with steps of other stages", expected="a step of that stage"
        )
    for each in batch.content:
        if len(each.data) > SMALL_CONTENT_MAX_BYTES:
            raise TooLargeError(
                f"content of {len(each.data)} bytes in an append",
                expected=f"at most {SMALL_CONTENT_MAX_BYTES} bytes",
                cure="put it into the content store",
            )
    if len(batch.steps) + len(batch.content) + 1 > MAX_ROWS:
        raise TooLargeError(f"an append of {len(batch.steps)} steps", expected=f"fewer than {MAX_ROWS} rows")


def batch_rows(batch: AppendBatch, lease: Lease | None) -> BatchRows:
    """Seal a checked batch.

    Args:
        batch: what to append.
        lease: what `batch.claim` makes, None without a claim.
    """
    epochs = _epochs(batch, lease)
    steps: list[Step] = []
    rows: list[Row] = [] if lease is None else [_claim_row(batch, lease)]
    content = list(batch.content)
    head = batch.expected
    size = sum(len(each.data) for each in content)
    for new in batch.steps:
        stored = place(batch.run, head, new)
        head = Head(seq=stored.seq, hash=Digest(stored.hash))
        steps.append(placed(new, stored))
        epoch = epochs.get(new.node) if epochs else None
        # Content rides on its step's row: half the rows, and a third of the time.
        blob = _content(content.pop()) if content else _NO_CONTENT
        rows.append((*stored, epoch, *blob, *_NO_CLAIM))
        size += len(stored.payload)
    rows.extend(_content_row(batch, each) for each in content)
    return BatchRows(
        rows=tuple(rows),
        steps=tuple(steps),
        size_bytes=size,
        steps_alone=lease is None and not batch.content,
    )


def _epochs(batch: AppendBatch, lease: Lease | None) -> dict[str | None, int]:
    if lease is not None:
        return {lease.node: lease.epoch}
    return {} if batch.fence is None else {batch.fence.node: batch.fence.epoch}


def _content(content: Content) -> Row:
    return content.digest, content.data


def _content_row(batch: AppendBatch, content: Content) -> Row:
    return _row(run_id=batch.run, content_digest=content.digest, content_bytes=content.data)


def _claim_row(batch: AppendBatch, lease: Lease) -> Row:
    return _row(
        run_id=lease.run,
        node=lease.node,
        epoch=lease.epoch,
        claim_owner=lease.owner,
        claim_now_us=0 if batch.claim is None else batch.claim.now_us,
        claim_expires_us=lease.expires_us,
    )


def _row(**values: Value) -> Row:
    return tuple(values.get(name) for name in INBOX_COLUMNS[1:])


def group_insert(group: Sequence[BatchRows], position: int | None) -> tuple[str, list[Value]]:
    """Return the one INSERT that writes all batches of `group`, with its values.

    A few steps and nothing else go into their table directly, past the view: the same
    triggers guard it, and a statement takes half as long.

    Args:
        group: in the order in which they take their positions.
        position: of the first step, None to let the database choose.
    """
    rows = sum(len(batch.rows) for batch in group)
    if rows > _ROUNDING or not all(batch.steps_alone for batch in group):
        return insert_statement(rows), insert_values(group, position)
    values: list[Value] = []
    for batch in group:
        for row in batch.rows:
            values.append(position)
            values += row[:_STEP_WIDTH]
            position = None if position is None else position + 1
    return _insert_steps(rows), values


@cache
def _insert_steps(rows: int) -> str:
    columns = INBOX_COLUMNS[: _STEP_WIDTH + 1]
    row = f"({', '.join('?' * len(columns))})"
    return f"INSERT INTO steps ({', '.join(columns)}) VALUES {', '.join([row] * rows)}"  # constants alone


def insert_statement(rows: int) -> str:
    """Return the INSERT for a number of rows as `insert_values` rounds it."""
    return _insert(_rounded(rows))


@cache
def _insert(rows: int) -> str:
    row = f"({', '.join('?' * len(INBOX_COLUMNS))})"
    columns = ", ".join(INBOX_COLUMNS)
    return f"INSERT INTO inbox ({columns}) VALUES {', '.join([row] * rows)}"  # constants alone


def insert_values(group: Sequence[BatchRows], position: int | None) -> list[Value]:
    """Return the values of one INSERT of all batches of `group`.

    Args:
        group: in the order in which they take their positions.
        position: of the first step, None to let the database choose.
    """
    values: list[Value] = []
    rows = 0
    for batch in group:
        rows += len(batch.rows)
        for row in batch.rows:
            if position is None or row[_SEQ] is None:
                values.append(None)
            else:
                values.append(position)
                position += 1
            values += row
    # A row of nothing fires no trigger; it only makes the statement one that is prepared already.
    for _ in range(_rounded(rows) - rows):
        values += _NO_ROW
    return values


def _rounded(rows: int) -> int:
    return rows if rows <= _ROUNDING else min(-(-rows // _ROUNDING) * _ROUNDING, MAX_ROWS)
