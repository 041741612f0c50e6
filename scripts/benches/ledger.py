"""Ledger appends by 1, 16 and 128 callers, sequential steps, and growth to 10,000 turns."""

import asyncio
import queue
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

import orjson

from fusiond.codec.canonical import canonical
from fusiond.domain.digest import ZERO, Digest, content_of, digest_bytes
from fusiond.domain.ids import AttemptNumber, NodeId, RunId, make_run_id
from fusiond.domain.steps.record import Head, NewStep
from fusiond.domain.steps.turn import (
    COMMAND_TOOL,
    CallOutcome,
    EffectClass,
    Locality,
    ToolCalled,
    ToolReturned,
    TurnStarted,
)
from fusiond.execution.chain import RunChain
from fusiond.ledger.database import open_database
from fusiond.ledger.schema import MIGRATIONS
from fusiond.ledger.sqlite_ledger import SqliteLedger
from fusiond.ports.ledger import AppendBatch
from scripts.benches.beginnings import started_run
from scripts.benches.measuring import Figure, at_least, in_turn, percentile

NODE = NodeId("only")
CONTENT = b"x" * 2_048
SECONDS = 0.5


def appends() -> list[Figure]:
    """Measure durable appends, content included, beside raw commits on a dedicated thread."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="fb-") as place:
        for callers in (1, 16, 128):
            latencies: list[float] = []
            floors: list[float] = []
            found = in_turn(
                {
                    "floor": partial(_raw, place, callers, floors),
                    "candidate": partial(_append_burst, place, callers, latencies),
                }
            )
            figures.append(at_least(f"ledger appends, {callers} callers", "1/s", 0.8, found))
            if callers > 1:
                figures.append(_tail(callers, latencies, floors))
    return figures


def _tail(callers: int, latencies: list[float], floors: list[float]) -> Figure:
    value, floor = percentile(latencies, 0.99) * 1e3, percentile(floors, 0.99) * 1e3
    return Figure(
        name=f"ledger append p99, {callers} callers",
        unit="ms",
        value=value,
        floor=floor,
        goal="<= 3 x floor",
        met=value <= 3 * floor,
        repetitions=len(latencies),
        spread=None,
    )


def _append_burst(place: str, callers: int, latencies: list[float]) -> float:
    return asyncio.run(_appended(place, callers, latencies))


async def _appended(place: str, callers: int, latencies: list[float]) -> float:
    """Return appends a second: each is one step and 2 KiB of content, committed before the answer."""
    name = f"{time.monotonic_ns()}.db"
    database = await open_database(Path(place, name), new_epoch="bench")
    ledger = SqliteLedger(database)
    chains = [await _begun(ledger, number) for number in range(callers)]
    end, count = time.perf_counter() + SECONDS, 0

    async def caller(run: RunId, head: Head, number: int) -> None:
        nonlocal count
        while time.perf_counter() < end:
            began = time.perf_counter()
            content = content_of(CONTENT + f"{number}.{count}".encode())
            step = NewStep(
                node=NODE,
                attempt=AttemptNumber(1),
                payload=TurnStarted(turn=head.seq + 1, feedback=content.ref),
                at_us=head.seq,
            )
            batch = AppendBatch(run=run, expected=head, steps=(step,), content=(content,))
            head = (await ledger.append(batch)).head
            latencies.append(time.perf_counter() - began)
            count += 1

    began = time.perf_counter()
    await asyncio.gather(*(caller(run, head, n) for n, (run, head) in enumerate(chains)))
    rate = count / (time.perf_counter() - began)
    await ledger.close()
    return rate


async def _begun(ledger: SqliteLedger, number: int) -> tuple[RunId, Head]:
    run = make_run_id(time.time_ns() // 1_000, number)
    step = NewStep(payload=started_run(NODE), at_us=1)
    appended = await ledger.append(AppendBatch(run=run, expected=Head(), steps=(step,)))
    return run, appended.head


def _raw(place: str, callers: int, latencies: list[float]) -> float:
    """Return rows a second of a bare thread: everything waiting in one FULL commit.

    It does what no ledger of this design can leave out: each caller digests its content, writes its
    payload as JSON and chains it by a hash; the tables are the ledger's own, with the triggers that
    `engine.md` asks for (by its own measure they take a quarter of a bare insert's rate).
    """
    work: _Work = queue.SimpleQueue()
    path = Path(place, f"raw-{time.monotonic_ns()}.db")
    thread = threading.Thread(target=_committer, args=(path, work))
    thread.start()
    loop_rate = asyncio.run(_raw_callers(work, callers, latencies))
    work.put(None)
    thread.join()
    return loop_rate


@dataclass(frozen=True, slots=True)
class _RawRow:
    run: str
    seq: int
    payload: bytes
    before: str
    hash: str
    digest: str
    body: bytes
    done: Callable[[], None]


_RAW_STEP = """
INSERT INTO steps (run_id, seq, kind, node, attempt, payload, refs, labels, cost_uusd, at_us, prev_hash, hash)
VALUES (?, ?, 'turn_started', 'only', 1, ?, '', '', 0, ?, ?, ?)
"""


def _raw_step(row: _RawRow) -> tuple[str | int | bytes, ...]:
    return row.run, row.seq, row.payload, row.seq, row.before, row.hash


_Work = queue.SimpleQueue[_RawRow | None]


def _committer(path: Path, work: _Work) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        for statement in (each for migration in MIGRATIONS for each in migration):
            connection.execute(statement)
        while (first := work.get()) is not None:
            rows = [first]
            while not work.empty() and (more := work.get()) is not None:
                rows.append(more)
            connection.execute("BEGIN")
            connection.executemany(
                "INSERT INTO content (run_id, digest, bytes) VALUES (?, ?, ?)",
                [(each.run, each.digest, each.body) for each in rows],
            )
            connection.executemany(_RAW_STEP, [_raw_step(each) for each in rows])
            connection.execute("COMMIT")
            for each in rows:
                each.done()


async def _raw_callers(work: _Work, callers: int, latencies: list[float]) -> float:
    loop, count = asyncio.get_running_loop(), 0
    end = time.perf_counter() + SECONDS

    async def caller(number: int) -> None:
        nonlocal count
        run, seq, chained = f"{number:013d}", 0, ZERO
        while time.perf_counter() < end:
            began = time.perf_counter()
            seq += 1
            body = CONTENT + f"{run}.{seq}".encode()
            digest = sha256(body).hexdigest()
            observed = {"feedback": digest, "size": len(body)}
            payload = orjson.dumps(
                {"v": 1, "observed": observed, "compared": {"turn": seq, "tenant": "local"}}
            )
            before = chained
            place = f"{run}|{seq}|turn_started|only|1|{seq}|{before}|".encode()
            chained = Digest(sha256(place + payload).hexdigest())
            future: asyncio.Future[None] = loop.create_future()
            work.put(
                _RawRow(run, seq, payload, before, chained, digest, body, partial(_answer, loop, future))
            )
            await future
            latencies.append(time.perf_counter() - began)
            count += 1

    began = time.perf_counter()
    await asyncio.gather(*map(caller, range(callers)))
    return count / (time.perf_counter() - began)


def _answer(loop: asyncio.AbstractEventLoop, future: "asyncio.Future[None]") -> None:
    loop.call_soon_threadsafe(future.set_result, None)


def growth() -> list[Figure]:
    """Measure the cost of a turn at the start and at the end of a run of 10,000 turns."""
    with tempfile.TemporaryDirectory(prefix="fb-") as place:
        first, last = asyncio.run(_turns(Path(place, "growth.db"), 10_000, 1_000))
    return [
        Figure(
            name="cost per turn, last 1,000 of 10,000 turns",
            unit="us",
            value=last * 1e6,
            floor=first * 1e6,
            goal="<= 1.2 x first 1,000",
            met=last <= 1.2 * first,
            repetitions=1_000,
            spread=None,
        )
    ]


async def _turns(path: Path, turns: int, window: int) -> tuple[float, float]:
    from scripts.benches.beginnings import attempt_begun

    database = await open_database(path, new_epoch="bench")
    ledger = SqliteLedger(database)
    chain = RunChain(ledger, lambda _: None, make_run_id(time.time_ns() // 1_000, 1))
    await chain.append(
        [
            NewStep(payload=started_run(NODE), at_us=1),
            NewStep(node=NODE, attempt=AttemptNumber(1), payload=attempt_begun(), at_us=1),
        ]
    )
    costs: list[float] = []
    for turn in range(1, turns + 1):
        began = time.perf_counter()
        await chain.append(_turn(turn))
        costs.append(time.perf_counter() - began)
    await ledger.close()
    return percentile(costs[:window], 0.5), percentile(costs[-window:], 0.5)


def _turn(turn: int) -> list[NewStep]:
    arguments = digest_bytes(canonical({"run": "true"}))
    payloads = (
        TurnStarted(turn=turn, feedback=None),
        ToolCalled(
            call=turn,
            tool=COMMAND_TOOL,
            effect=EffectClass.WRITE,
            locality=Locality.LOCAL,
            arguments=arguments,
        ),
        ToolReturned(call=turn, outcome=CallOutcome.OK),
    )
    return [NewStep(node=NODE, attempt=AttemptNumber(1), payload=each, at_us=turn) for each in payloads]


def sequential() -> list[Figure]:
    """Measure durable sequential steps, two records each, beside the bare ledger's commits."""
    with tempfile.TemporaryDirectory(prefix="fb-") as place:
        found = in_turn(
            {
                "floor": lambda: _raw(place, 1, []),
                "candidate": lambda: asyncio.run(_sequence(Path(place, f"{time.monotonic_ns()}.db"))),
            }
        )
    return [at_least("durable sequential steps of two records", "1/s", 0.7, found)]


async def _sequence(path: Path) -> float:
    from scripts.benches.beginnings import attempt_begun

    database = await open_database(path, new_epoch="bench")
    ledger = SqliteLedger(database)
    chain = RunChain(ledger, lambda _: None, make_run_id(time.time_ns() // 1_000, 1))
    await chain.append(
        [
            NewStep(payload=started_run(NODE), at_us=1),
            NewStep(node=NODE, attempt=AttemptNumber(1), payload=attempt_begun(), at_us=1),
        ]
    )
    began, count = time.perf_counter(), 1_000
    for turn in range(1, count + 1):
        steps = _turn(turn)
        await chain.append(steps[:2])
        await chain.append(steps[2:])
    elapsed = time.perf_counter() - began
    await ledger.close()
    return 2 * count / elapsed
