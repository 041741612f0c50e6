"""The ledger's ports by the name of their adapter, and appends for tests that do not care what is in them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fusiond.domain.digest import content_of
from fusiond.domain.ids import NodeId, RunId, WorkerId
from fusiond.domain.leases import Fence
from fusiond.domain.steps.record import Head, NewStep
from fusiond.ledger.database import open_database
from fusiond.ledger.leases import SqliteStageQueue
from fusiond.ledger.small_content import SqliteSmallContent
from fusiond.ledger.sqlite_ledger import SqliteLedger
from fusiond.ports.ledger import (
    AppendBatch,
    Appended,
    FedStep,
    LeaseClaim,
    Ledger,
    PositionedStep,
    SmallContent,
    StageQueue,
)
from tests.fakes.chains import START_US, new_step
from tests.fakes.ledger import MemoryDatabase, MemoryLedger, MemorySmallContent, MemoryStageQueue
from tests.fakes.payloads import run_started, turn_started

ADAPTERS = ("memory", "sqlite")

A = RunId("01hzy3v8k00aa")
B = RunId("01hzy3v8k00bb")
BUILD = NodeId("build")
WORKER = WorkerId("boot/1")
OTHER = WorkerId("boot/2")


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerKit:
    """The three ports over one store."""

    ledger: Ledger
    queue: StageQueue
    small: SmallContent

    async def begin(self, run: RunId = A, *content: bytes) -> Appended:
        """Append a run's first step."""
        return await self.ledger.append(batch(run, Head(), new_step(run_started()), content=content))

    async def turn(self, run: RunId, head: Head, number: int = 1) -> Appended:
        """Append one more step."""
        return await self.ledger.append(batch(run, head, new_step(turn_started(number))))


@asynccontextmanager
async def ledger_kit(adapter: str, place: Path) -> AsyncIterator[LedgerKit]:
    """Open the ports of an adapter; `place` is an existing directory."""
    if adapter == "memory":
        memory = MemoryDatabase(epoch="made for this test")
        yield LedgerKit(
            ledger=MemoryLedger(memory), queue=MemoryStageQueue(memory), small=MemorySmallContent(memory)
        )
        return
    database = await open_database(place / "state.db", new_epoch="made for this test")
    ledger = SqliteLedger(database)
    try:
        yield LedgerKit(ledger=ledger, queue=SqliteStageQueue(database), small=SqliteSmallContent(database))
    finally:
        await ledger.close()


def batch(
    run: RunId,
    expected: Head,
    *steps: NewStep,
    content: tuple[bytes, ...] = (),
    fence: Fence | None = None,
    claim: LeaseClaim | None = None,
) -> AppendBatch:
    """Return an append."""
    return AppendBatch(
        run=run,
        expected=expected,
        steps=steps,
        content=tuple(map(content_of, content)),
        fence=fence,
        claim=claim,
    )


def run_number(number: int) -> RunId:
    """Return one of many runs."""
    return RunId(f"01hzy3v8k{number:04d}")


def of_stage(node: NodeId = BUILD, number: int = 1) -> NewStep:
    """Return a step of a stage."""
    return new_step(turn_started(number), node, 1)


def claim_of(
    owner: WorkerId = WORKER, *, node: NodeId = BUILD, now_us: int = START_US, ttl_us: int = 1_000
) -> LeaseClaim:
    """Return a claim of a stage."""
    return LeaseClaim(node=node, owner=owner, now_us=now_us, ttl_us=ttl_us)


def readable(feed: Sequence[FedStep]) -> list[PositionedStep]:
    """Return what was fed, after making sure that every step of it can be read."""
    steps = [each for each in feed if isinstance(each, PositionedStep)]
    assert len(steps) == len(feed)
    return steps
