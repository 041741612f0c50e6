"""What a run's chain says when its ledger refuses: the ledger's trouble is never the stage's."""

import asyncio

import pytest

from fusiond.domain.errors import ConflictError, FusionError, StorageError, TryAgainError, UnrecordedError
from fusiond.execution.chain import RunChain
from fusiond.ports.ledger import AppendBatch, Appended
from tests.fakes.chains import RUN, new_step
from tests.fakes.ledger import MemoryDatabase, MemoryLedger
from tests.fakes.payloads import attempt_started, plan, run_started


class RefusingLedger(MemoryLedger):
    """A ledger that refuses every append with an error of the test's choice."""

    def __init__(self, error: FusionError) -> None:
        super().__init__(MemoryDatabase())
        self.error = error

    async def append(self, batch: AppendBatch) -> Appended:
        raise self.error


@pytest.mark.parametrize("kind", [StorageError, TryAgainError])
async def test_ledger_that_cannot_be_written_is_told_apart(kind: type[FusionError]) -> None:
    ledger = RefusingLedger(kind("no space left", cure="free disk space"))
    chain = RunChain(ledger, lambda _: None, RUN)
    with pytest.raises(UnrecordedError, match="no space left") as caught:
        await chain.append([new_step(run_started(plan()))])
    assert caught.value.cure == "free disk space"
    assert chain.state.head.seq == 0


async def test_conflict_stays_a_conflict() -> None:
    chain = RunChain(RefusingLedger(ConflictError("moved")), lambda _: None, RUN)
    with pytest.raises(ConflictError, match="moved"):
        await chain.append([new_step(run_started(plan()))])


class SlowLedger(MemoryLedger):
    """A ledger whose appends wait until they are let through."""

    def __init__(self, refusal: FusionError | None = None) -> None:
        super().__init__(MemoryDatabase())
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.refusal = refusal

    async def append(self, batch: AppendBatch) -> Appended:
        self.asked.set()
        await self.go.wait()
        if self.refusal is not None:
            raise self.refusal
        return await super().append(batch)


async def _cancelled_while_committing(ledger: SlowLedger) -> tuple[RunChain, list[Appended]]:
    announced: list[Appended] = []
    chain = RunChain(ledger, announced.append, RUN)
    caller = asyncio.create_task(chain.append([new_step(run_started(plan()))]))
    await ledger.asked.wait()
    caller.cancel()
    await asyncio.sleep(0)
    caller.cancel()
    assert not caller.done(), "the caller is told after the commit"
    ledger.go.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    return chain, announced


async def test_cancelled_caller_leaves_the_state_where_the_ledger_is() -> None:
    chain, announced = await _cancelled_while_committing(SlowLedger())
    assert chain.state.head == announced[0].head
    assert chain.state.head.seq == 1
    await chain.append([new_step(attempt_started(), node="build", attempt=1)])


async def test_cancelled_caller_of_a_refused_append_leaves_the_chain_free() -> None:
    ledger = SlowLedger(StorageError("no space left"))
    chain, announced = await _cancelled_while_committing(ledger)
    assert (chain.state.head.seq, announced) == (0, [])
    ledger.refusal = None
    assert (await chain.append([new_step(run_started(plan()))])).head.seq == 1
