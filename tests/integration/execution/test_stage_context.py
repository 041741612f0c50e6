"""Recording what happened while the ledger cannot be written: it is known only here, so it waits."""

import asyncio
from typing import cast

import pytest

from fusiond.domain.errors import UnrecordedError
from fusiond.domain.flow import Node
from fusiond.domain.ids import NodeId
from fusiond.domain.leases import Fence
from fusiond.domain.state import RunState
from fusiond.execution import context
from fusiond.execution.chain import RunChain
from fusiond.execution.context import RunContext, StageContext
from tests.fakes.chains import RUN
from tests.fakes.ledger import MemoryDatabase, MemoryLedger
from tests.fakes.payloads import turn_started
from tests.waiting import eventually


class RefusingRun:
    """A run whose ledger refuses a number of times; it notes what it said of itself meanwhile."""

    def __init__(self, refusals: int) -> None:
        self.chain = RunChain(MemoryLedger(MemoryDatabase()), lambda _: None, RUN)
        self.refusals = refusals
        self.held_up = ""
        self.said: list[str] = []

    async def record(self, *_: object, **__: object) -> RunState:
        self.said.append(self.held_up)
        if self.refusals:
            self.refusals -= 1
            raise UnrecordedError("no space left")
        return self.chain.state


class OneNode:
    """What of a node is asked for."""

    id = NodeId("only")


def stage(run: RefusingRun) -> StageContext:
    fence = Fence(node=OneNode.id, epoch=1)
    return StageContext(
        run=cast("RunContext", run), node=cast("Node", OneNode()), fence=fence, cancel=asyncio.Event()
    )


async def test_result_waits_until_the_ledger_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "BACKOFF_S", (0.0,))
    run = RefusingRun(3)
    assert await stage(run).record(None, turn_started(1)) is run.chain.state
    assert run.said == ["", "no space left", "no space left", "no space left"]
    assert run.held_up == ""


async def test_effect_that_is_to_end_waits_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "BACKOFF_S", (60.0,))
    run = RefusingRun(9)
    waiting = stage(run)
    recording = asyncio.create_task(waiting.record(None, turn_started(1)))
    await eventually(lambda: bool(run.held_up), "a ledger that refuses")
    waiting.cancel.set()
    with pytest.raises(UnrecordedError, match="no space left"):
        await recording
    assert len(run.said) == 2
