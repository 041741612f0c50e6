"""What a run's chain says when its ledger refuses: the ledger's trouble is never the stage's."""

import pytest

from fusiond.domain.errors import ConflictError, FusionError, StorageError, TryAgainError, UnrecordedError
from fusiond.execution.chain import RunChain
from fusiond.ports.ledger import AppendBatch, Appended
from tests.fakes.chains import RUN, new_step
from tests.fakes.ledger import MemoryDatabase, MemoryLedger
from tests.fakes.payloads import plan, run_started


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
