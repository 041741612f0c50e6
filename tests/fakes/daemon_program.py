"""`fusiond` with the parts of `daemon_parts`, as a process of its own.

Run as `python -m tests.fakes.daemon_program` with the arguments of `fusiond`.
The ledger is one number in `.fusion/fake-ledger`: how many steps there are.
A flow called `steps:5` appends five; FAKE_DAEMON_FAULT makes the start fail.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

from fusiond.daemon.assembly import Assemble, DaemonPlace
from fusiond.daemon.main import run
from fusiond.daemon.registry import Context, Handlers, KeyedResultsInMemory
from fusiond.domain.errors import StorageError
from fusiond.wire.methods import RUN_LIST, RUN_SUBMIT
from fusiond.wire.params import RunSubmitParams
from fusiond.wire.results import RunRef
from tests.fakes.daemon_parts import RUN, Desk, FedLedger, WrittenOutput

LEDGER_FILE = "fake-ledger"
FAULT = "FAKE_DAEMON_FAULT"


class StepDesk(Desk):
    """Handlers that write the ledger's file before they answer."""

    def __init__(self, ledger: FedLedger, path: Path) -> None:
        super().__init__(ledger)
        self._path = path
        self.announce: Callable[[int], None] = lambda _: None

    def handlers(self) -> Handlers:
        """Return a table without ping, which the daemon answers itself."""
        handlers = Handlers()
        handlers.on(RUN_LIST, self.list)
        handlers.on(RUN_SUBMIT, self.submit)
        return handlers

    async def submit(self, params: RunSubmitParams, context: Context) -> RunRef:
        head = self.ledger.append(int(params.flow.removeprefix("steps:")))
        self._path.write_text(str(head))
        self.announce(head)
        return RunRef(run=RUN)


class FakeAssembly:
    """The parts, without anything to recover or to end; draining takes as long as FAULT `slow` lets it."""

    def __init__(self, place: DaemonPlace) -> None:
        path = Path(place.workspace.marker, LEDGER_FILE)
        self.steps = FedLedger(int(path.read_text()) if path.exists() else 0)
        self.outputs = WrittenOutput()
        self.keyed = KeyedResultsInMemory()
        self._desk = StepDesk(self.steps, path)
        self.handlers = self._desk.handlers()
        self._slow = place.environ.get(FAULT) == "slow"

    def facts(self) -> tuple[tuple[str, str], ...]:
        return (("fake", "yes"),)

    async def start(self, announce: Callable[[int], None]) -> None:
        self._desk.announce = announce

    async def drain(self) -> None:
        if self._slow:
            await asyncio.Event().wait()

    async def close(self) -> None:
        return


async def assemble(place: DaemonPlace) -> FakeAssembly:
    """Make the parts, or fail as FAULT says."""
    match place.environ.get(FAULT):
        case "storage":
            raise StorageError("the ledger's disk is full\x1b[2J", cure="free some space")
        case "crash":
            raise RuntimeError("nobody foresaw this")
        case "exit":
            os._exit(1)
        case _:
            return FakeAssembly(place)


def assemble_from() -> Assemble:
    """Return what makes the parts."""
    return assemble


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], assemble_from))
