"""A ledger that somebody changed: read up to the last step that can be trusted, and told so."""

import re
from pathlib import Path

import pytest

from fusiond.codec.steps import StoredStep, step_hash
from fusiond.domain.errors import CorruptError, FusionError, NewerError
from fusiond.domain.steps.record import Head
from fusiond.ledger.sqlite_ledger import CHUNK
from fusiond.ports.ledger import UnreadableStep
from tests.contract.ledger_kits import A, B, readable
from tests.integration.ledger.ledger_places import begin, by_hand, filled, open_ledger, turns, unguarded

LENGTH = 9


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """Return a ledger of one run with `LENGTH` steps."""
    await filled(tmp_path / "state.db", LENGTH)
    return tmp_path / "state.db"


def forge(path: Path, *statements: str) -> None:
    """Change steps past everything that guards them."""
    with by_hand(path) as connection:
        unguarded(connection)
        for statement in statements:
            connection.execute(statement)


async def broken(path: Path, after_seq: int = 0, wanted: type[FusionError] = CorruptError) -> FusionError:
    """Return the error with which the run is read."""
    async with open_ledger(path) as ledger:
        with pytest.raises(wanted) as caught:
            await ledger.read(A, after_seq=after_seq, limit=1_000)
    return caught.value


@pytest.mark.parametrize(
    "change",
    [
        "payload = CAST('{}' AS BLOB)",
        "payload = CAST(CAST(payload AS TEXT) || ' ' AS BLOB)",
        "at_us = at_us + 1",
        "cost_uusd = 1",
        "labels = 'secret'",
        "refs = hash",
        "node = 'build'",
        "attempt = 1",
        "idempotency_key = hash",
        "kind = 'run_resumed'",
        "hash = replace(hash, substr(hash, 1, 1), 'x')",
        "prev_hash = hash",
    ],
)
async def test_changed_step_is_found(path: Path, change: str) -> None:
    forge(path, f"UPDATE steps SET {change} WHERE seq = 6")
    error = await broken(path)
    assert error.fields == {"run": A, "seq": "6", "trusted_seq": "5"}
    assert error.state == f"step 5 of run {A}"
    assert error.expected
    assert f"run {A}" in error.found


async def test_rewritten_tail_is_found_where_it_begins(path: Path) -> None:
    """Whoever changes a step and hashes it anew breaks the next one."""
    with by_hand(path) as connection:
        unguarded(connection)
        columns = ", ".join(column_names())
        row = StoredStep._make(connection.execute(f"SELECT {columns} FROM steps WHERE seq = 6").fetchone())
        changed = row._replace(cost_uusd=5)
        values = (changed.cost_uusd, step_hash(changed))
        connection.execute("UPDATE steps SET cost_uusd = ?, hash = ? WHERE seq = 6", values)
    error = await broken(path)
    assert error.fields["trusted_seq"] == "6"
    assert re.search("step 7 follows", error.found)


def column_names() -> list[str]:
    """Return the columns of a stored step as the table names them."""
    return ["run_id", *StoredStep._fields[1:]]


@pytest.mark.parametrize("seq,trusted", [(1, 0), (5, 4), (LENGTH, LENGTH - 1)])
async def test_missing_step_is_found(path: Path, seq: int, trusted: int) -> None:
    forge(path, f"DELETE FROM steps WHERE seq = {seq}")
    error = await broken(path)
    assert error.fields["trusted_seq"] == str(trusted)


async def test_missing_tail_is_found_from_anywhere(path: Path) -> None:
    forge(path, "DELETE FROM steps WHERE seq > 6")
    for after_seq in (0, 3, 6, 7, 8):
        error = await broken(path, after_seq)
        assert int(error.fields["trusted_seq"]) <= 7


async def test_two_steps_that_changed_places_are_found(path: Path) -> None:
    forge(
        path,
        "UPDATE steps SET seq = 100 WHERE seq = 4",
        "UPDATE steps SET seq = 4 WHERE seq = 5",
        "UPDATE steps SET seq = 5 WHERE seq = 100",
    )
    assert (await broken(path)).fields["trusted_seq"] == "3"


async def test_step_after_which_reading_begins_is_checked(path: Path) -> None:
    forge(path, "UPDATE steps SET cost_uusd = 1 WHERE seq = 5")
    assert (await broken(path, 5)).fields["trusted_seq"] == "4"
    async with open_ledger(path) as ledger:
        assert [step.seq for step in await ledger.read(A, after_seq=6, limit=100)] == [7, 8, 9]
        assert [step.seq for step in await ledger.read(A, after_seq=0, limit=4)] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "change", ["kind = 'run_levitated'", "payload = CAST(replace(payload, '\"v\":1', '\"v\":2') AS BLOB)"]
)
async def test_step_of_a_newer_fusion_is_never_half_read(path: Path, change: str) -> None:
    with by_hand(path) as connection:
        unguarded(connection)
        connection.execute(f"UPDATE steps SET {change} WHERE seq = {LENGTH}")
        columns = ", ".join(column_names())
        row = connection.execute(f"SELECT {columns} FROM steps WHERE seq = {LENGTH}").fetchone()
        connection.execute(
            "UPDATE steps SET hash = ? WHERE seq = ?", (step_hash(StoredStep._make(row)), LENGTH)
        )
    error = await broken(path, wanted=NewerError)
    assert "newer fusion" in error.found
    assert error.fields == {"run": A, "seq": str(LENGTH), "trusted_seq": str(LENGTH - 1)}


async def test_damaged_run_harms_no_other(path: Path) -> None:
    async with open_ledger(path) as ledger:
        await turns(ledger, await begin(ledger, B), 3, B)
    forge(path, f"UPDATE steps SET cost_uusd = 1 WHERE run_id = '{A}' AND seq = 5")
    async with open_ledger(path) as ledger:
        assert len(await ledger.read(B, after_seq=0, limit=100)) == 4
        assert len(await ledger.runs(None, open_only=True, limit=9)) == 2
        feed = await ledger.feed(after_position=0, limit=100)
        assert len(readable([each for each in feed if each.run == B])) == 4
        damaged = [each for each in feed if isinstance(each, UnreadableStep)]
        assert {each.run for each in damaged} == {A}
        assert (damaged[0].position, type(damaged[0].error)) == (5, CorruptError)


async def test_feed_follows_the_chain_of_each_run(path: Path) -> None:
    with by_hand(path) as connection:
        unguarded(connection)
        columns = ", ".join(column_names())
        row = StoredStep._make(connection.execute(f"SELECT {columns} FROM steps WHERE seq = 6").fetchone())
        changed = row._replace(prev_hash="f" * 64)
        values = (changed.prev_hash, step_hash(changed))
        connection.execute("UPDATE steps SET prev_hash = ?, hash = ? WHERE seq = 6", values)
    async with open_ledger(path) as ledger:
        unreadable = (await ledger.feed(after_position=0, limit=100))[5]
        assert isinstance(unreadable, UnreadableStep)
        assert "step 6 follows" in unreadable.error.found


async def test_long_run_is_checked_over_the_borders_of_chunks(tmp_path: Path) -> None:
    path = tmp_path / "long.db"
    length = 2 * CHUNK + 5
    head = await filled(path, length)
    async with open_ledger(path) as ledger:
        steps = await ledger.read(A, after_seq=0, limit=10_000)
        assert Head(seq=steps[-1].seq, hash=steps[-1].hash) == head
        assert [step.seq for step in steps] == list(range(1, length + 1))
        assert [each.position for each in await ledger.feed(after_position=0, limit=10_000)] == [
            step.seq for step in steps
        ]
        assert len(await ledger.read(A, after_seq=CHUNK, limit=CHUNK)) == CHUNK
    forge(path, f"DELETE FROM steps WHERE seq = {CHUNK + 1}")
    assert (await broken(path)).fields["trusted_seq"] == str(CHUNK)
