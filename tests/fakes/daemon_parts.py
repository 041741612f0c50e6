"""A daemon without runs: a ledger that is only fed, handlers that are only called.

Owns a real server on a real socket in this process, with parts that tests can
push, count and hold. The same parts in a process of their own are
`daemon_program`.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fusiond.client import aio
from fusiond.client.discovery import Workspace
from fusiond.daemon.output_follow import OutputIndex, OutputStream
from fusiond.daemon.registry import Context, Handlers, KeyedResultsInMemory, Registry
from fusiond.daemon.runtime_dir import bind_control_socket, make_runtime_directory
from fusiond.daemon.server import Server
from fusiond.daemon.session import Services
from fusiond.daemon.subscriptions import StepHub
from fusiond.domain.digest import digest_bytes
from fusiond.domain.errors import NotFoundError
from fusiond.domain.ids import NodeId, RunId, TenantId, WorkspaceId
from fusiond.domain.labels import NONE
from fusiond.domain.steps.record import Step
from fusiond.domain.steps.turn import TurnStarted
from fusiond.ports.ledger import FedStep, PositionedStep
from fusiond.wire.limits import REQUEST_US
from fusiond.wire.methods import PING, RUN_LIST, RUN_SUBMIT
from fusiond.wire.params import Nothing, OutputFollowParams, RunListParams, RunSubmitParams
from fusiond.wire.results import BodyPage, Pong, RunList, RunRef

RUN = RunId("01hzy3v8k00ab")
OTHER_RUN = RunId("01hzy3v8k00ac")
NOW_US = 1_900_000_000_000_000


def step_at(position: int, run: RunId = RUN) -> PositionedStep:
    """Return the step that is always at `position`: a turn of that number."""
    step = Step(
        run=run,
        seq=position,
        node=NodeId("build"),
        attempt=None,
        payload=TurnStarted(turn=position, feedback=None),
        at_us=NOW_US + position,
        refs=(),
        labels=NONE,
        cost_uusd=0,
        idempotency_key=None,
        prev_hash=digest_bytes(str(position - 1).encode()),
        hash=digest_bytes(str(position).encode()),
    )
    return PositionedStep(position=position, step=step)


class FedLedger:
    """A ledger in memory that a test appends to.

    Set `broken` to make every read raise it; `reads` says what was read so far.
    """

    def __init__(self, count: int = 0, *, epoch: str = "epoch-1") -> None:
        self.steps: list[FedStep] = [step_at(position) for position in range(1, count + 1)]
        self.name = epoch
        self.broken: Exception | None = None
        self.reads: list[int] = []

    def append(self, count: int = 1, *, run: RunId = RUN) -> int:
        """Append steps and return the new head."""
        for _ in range(count):
            self.steps.append(step_at(len(self.steps) + 1, run))
        return len(self.steps)

    async def feed(self, *, after_position: int, limit: int) -> Sequence[FedStep]:
        self.reads.append(after_position)
        await asyncio.sleep(0)
        if self.broken is not None:
            raise self.broken
        return self.steps[after_position : after_position + limit]

    async def epoch(self) -> str:
        return self.name

    async def head(self) -> int:
        return len(self.steps)


class WrittenOutput:
    """Output in memory that a test writes; `kept_from` hides what was not kept."""

    def __init__(self) -> None:
        self.bytes: dict[OutputStream, bytearray] = {}
        self.complete = False
        self.kept_from = 0

    def write(self, stream: OutputStream, data: bytes) -> None:
        """Append to one output."""
        self.bytes.setdefault(stream, bytearray()).extend(data)

    async def index(self, params: OutputFollowParams) -> OutputIndex:
        if params.run != RUN:
            raise NotFoundError(f"no run {params.run}")
        found = tuple(
            (stream, len(data))
            for stream, data in self.bytes.items()
            if params.node in {None, stream.node} and params.what in {None, stream.what}
        )
        return OutputIndex(streams=found, complete=self.complete)

    async def read(
        self, params: OutputFollowParams, stream: OutputStream, offset: int, limit: int
    ) -> BodyPage:
        data = self.bytes[stream]
        start = max(offset, min(self.kept_from, len(data)))
        return BodyPage(offset=start, total=len(data), data=bytes(data[start : start + limit]))


@dataclass
class Desk:
    """Handlers that count.

    `asked` counts submissions that reached the handler, `submitted` holds the flows of
    those that were performed; `before_submit` may hold them back or refuse them.
    """

    ledger: FedLedger
    submitted: list[str] = field(default_factory=list)
    asked: int = 0
    before_submit: Callable[[RunSubmitParams], Awaitable[None]] | None = None

    def handlers(self) -> Handlers:
        """Return a table with ping, run.list and run.submit."""
        handlers = Handlers()
        handlers.on(PING, self.ping)
        handlers.on(RUN_LIST, self.list)
        handlers.on(RUN_SUBMIT, self.submit)
        return handlers

    async def ping(self, _: Nothing, context: Context) -> Pong:
        return Pong(now_us=context.now_us())

    async def list(self, _: RunListParams, context: Context) -> RunList:
        return RunList(runs=(), epoch=self.ledger.name, position=len(self.ledger.steps))

    async def submit(self, params: RunSubmitParams, context: Context) -> RunRef:
        self.asked += 1
        if self.before_submit is not None:
            await self.before_submit(params)
        self.submitted.append(params.flow)
        return RunRef(run=RUN)


@dataclass
class Served:
    """A server that is taking connections, and its parts."""

    workspace: Workspace
    ledger: FedLedger
    hub: StepHub
    registry: Registry
    server: Server
    address: str

    def append(self, count: int = 1, *, run: RunId = RUN) -> None:
        """Append steps and announce them, as after a commit."""
        self.hub.announce(self.ledger.append(count, run=run))

    async def connect(self, queued_pushes: int = aio.QUEUED_PUSHES) -> aio.AsyncConnection:
        """Return a greeted connection."""
        return await aio.connect(
            self.workspace, os.environ, product="0.1.0", client="test", queued_pushes=queued_pushes
        )


def new_workspace(place: Path) -> Workspace:
    """Make a workspace in a directory."""
    root = place.resolve() / "project"
    (root / ".fusion").mkdir(parents=True, exist_ok=True)
    return Workspace(str(root))


@asynccontextmanager
async def served(
    workspace: Workspace,
    *,
    ledger: FedLedger | None = None,
    handlers: Handlers | None = None,
    outputs: WrittenOutput | None = None,
    request_us: int = REQUEST_US,
    connections: int = 256,
    hello_us: int = 60_000_000,
    stall_us: int = 60_000_000,
    owner: int | None = None,
) -> AsyncIterator[Served]:
    """Serve until the block ends."""
    ledger = ledger or FedLedger()
    hub = StepHub(ledger)
    await hub.start()
    registry = Registry(handlers or Desk(ledger).handlers(), KeyedResultsInMemory())
    services = Services(
        product="0.1.0",
        workspace=WorkspaceId(workspace.id),
        path=workspace.root,
        tenant=TenantId("local"),
        now_us=lambda: NOW_US,
        registry=registry,
        hub=hub,
        outputs=outputs or WrittenOutput(),
        request_us=request_us,
    )
    server = Server(services, connections=connections, hello_us=hello_us, stall_us=stall_us, owner=owner)
    with make_runtime_directory(workspace, os.environ) as directory:
        await server.start(bind_control_socket(directory))
        address = directory.socket_address("control.sock")
        try:
            yield Served(workspace, ledger, hub, registry, server, address)
        finally:
            await server.close()
