"""Subscriptions to steps: replay from a position, then live, without gap or duplicate.

Owns the shared tail of the ledger and what each subscriber still has to get.
A subscriber pulls: it holds a position, never a queue, so one that reads
slowly costs no memory and delays nobody; one that is too far behind is told
to read everything anew (`interfaces.md`, Wire). Following output is
`daemon.output_follow`.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol

from fusiond.domain.ids import RunId
from fusiond.domain.records import dataclass
from fusiond.ports.ledger import FedStep, UnreadableStep
from fusiond.wire.limits import REPLAY_POSITIONS
from fusiond.wire.messages import (
    PackedPush,
    Push,
    SnapshotPush,
    SnapshotReason,
    StatePush,
    StepPush,
    StreamState,
    packed_push,
)
from fusiond.wire.params import SubscribeParams

READ_STEPS = 512
"""Steps per read of the ledger and per burst to one subscriber."""

TAIL_STEPS = 4_096
TAIL_BYTES = 16 * 1024 * 1024
BURST_BYTES = 256 * 1024
COALESCE_S = 0.005
"""The least time between two reads of the live tail: at most 200 reads a second, 5 ms late."""


class StepReader(Protocol):
    """What subscriptions need of the ledger."""

    async def feed(self, *, after_position: int, limit: int) -> Sequence[FedStep]:
        """Read steps of all runs in commit order."""
        ...

    async def epoch(self) -> str:
        """Return the ledger's identity."""
        ...

    async def head(self) -> int:
        """Return the last position, 0 for an empty ledger."""
        ...


class Outlet(Protocol):
    """The way to one subscriber."""

    def send(self, frame: bytes) -> None:
        """Queue a frame; it is written together with others."""
        ...

    async def drained(self) -> None:
        """Return when the other side has taken enough for more to be queued."""
        ...


@dataclass(frozen=True, slots=True)
class TailStep:
    """A step as pushed, packed once for all subscribers; else why it cannot be."""

    position: int
    run: RunId
    packed: PackedPush | None
    without: SnapshotReason = SnapshotReason.TOO_LARGE

    @property
    def size(self) -> int:
        """Bytes it holds."""
        return 0 if self.packed is None else len(self.packed.fields)


class StepHub:
    """The shared, bounded tail of the ledger.

    Args:
        reader: the ledger.
        coalesce_s: see `COALESCE_S`.
        tail_steps: how many steps are kept for all subscribers.
        read_steps: see `READ_STEPS`.
    """

    def __init__(
        self,
        reader: StepReader,
        *,
        coalesce_s: float = COALESCE_S,
        tail_steps: int = TAIL_STEPS,
        read_steps: int = READ_STEPS,
    ) -> None:
        self._reader = reader
        self._coalesce_s = coalesce_s
        self._tail_steps = tail_steps
        self._read_steps = read_steps
        self._tail: list[TailStep] = []
        self._positions: list[int] = []
        self._bytes = 0
        self._floor = 0
        self._end = 0
        self._read: asyncio.Task[None] | None = None
        self._next_read_s = 0.0
        self._advanced = asyncio.Event()
        self.epoch = ""
        self.head = 0

    async def start(self) -> None:
        """Learn the ledger's epoch and head."""
        self.epoch = await self._reader.epoch()
        self.head = max(self.head, await self._reader.head())
        self._floor = self._end = self.head

    def announce(self, position: int) -> None:
        """Say that everything up to `position` is on disk. To be called after every commit."""
        if position > self.head:
            self.head = position
            self._advanced.set()
            self._advanced = asyncio.Event()

    async def beyond(self, position: int) -> None:
        """Wait until there is something after `position`."""
        while self.head <= position:
            await self._advanced.wait()

    async def after(self, position: int) -> Sequence[TailStep]:
        """Return the next steps after `position`, one burst at most; empty when there are none."""
        if position > self._end:
            # Nobody has read the tail for a while: it starts anew where somebody does.
            self._restart(position)
        if position == self._end:
            await self._extend()
        # Looked at again after waiting: the tail may have started anew beyond this position.
        if position >= self._floor:
            start = bisect_right(self._positions, position)
            return self._tail[start : start + self._read_steps]
        steps = await self._reader.feed(after_position=position, limit=self._read_steps)
        return [_tail_step(each) for each in steps]

    def _restart(self, position: int) -> None:
        self._tail.clear()
        self._positions.clear()
        self._bytes = 0
        self._floor = self._end = position

    async def _extend(self) -> None:
        """Read what is new, once for everybody who waits for it."""
        if self._read is None:
            self._read = asyncio.create_task(self._extend_once())
        # Shielded: a subscriber that goes must not take the others' read with it.
        await asyncio.shield(self._read)

    async def _extend_once(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await asyncio.sleep(max(0.0, self._next_read_s - loop.time()))
            self._next_read_s = loop.time() + self._coalesce_s
            end = self._end
            steps = await self._reader.feed(after_position=end, limit=self._read_steps)
            if end == self._end:
                self._append([_tail_step(each) for each in steps])
        finally:
            self._read = None

    def _append(self, steps: list[TailStep]) -> None:
        if not steps:
            return
        self._tail += steps
        self._positions += [each.position for each in steps]
        self._bytes += sum(each.size for each in steps)
        self._end = steps[-1].position
        surplus = 0
        while len(self._tail) - surplus > self._tail_steps or self._bytes > TAIL_BYTES:
            self._bytes -= self._tail[surplus].size
            surplus += 1
        if surplus:
            self._floor = self._positions[surplus - 1]
            del self._tail[:surplus]
            del self._positions[:surplus]


def _tail_step(fed: FedStep) -> TailStep:
    if isinstance(fed, UnreadableStep):
        return TailStep(fed.position, fed.run, None, SnapshotReason.UNREADABLE)
    packed = packed_push(StepPush(position=fed.position, step=fed.step))
    return TailStep(fed.position, fed.run, packed if packed.fits else None)


class StepSubscription:
    """What one subscriber still has to get.

    Args:
        hub: the ledger's tail.
        outlet: the way to the subscriber.
        number: of the subscription.
        params: where to start and which run.
    """

    def __init__(self, hub: StepHub, outlet: Outlet, number: int, params: SubscribeParams) -> None:
        self._hub = hub
        self._outlet = outlet
        self._number = number
        self._params = params
        self._position = params.from_position
        self._live = False
        self._unreadable: set[RunId] = set()

    async def run(self) -> None:
        """Send until cancelled.

        Raises:
            FusionError: the ledger cannot be read.
        """
        reason = self._first_problem()
        if reason is not None:
            self._snapshot(reason)
        while True:
            if self._hub.head - self._position > REPLAY_POSITIONS:
                self._snapshot(SnapshotReason.TOO_FAR)
            if self._position >= self._hub.head:
                self._say_live()
                await self._hub.beyond(self._position)
            steps = await self._hub.after(self._position)
            await self._burst(steps)
            if not steps:
                # Announced and not yet readable: a pause, so that waiting for it is no busy loop.
                await asyncio.sleep(COALESCE_S)

    def _first_problem(self) -> SnapshotReason | None:
        known = self._params.epoch
        if known is not None and known != self._hub.epoch:
            return SnapshotReason.EPOCH
        if self._position > self._hub.head:
            return SnapshotReason.FUTURE
        return None

    async def _burst(self, steps: Sequence[TailStep]) -> None:
        queued = 0
        for each in steps:
            self._position = each.position
            if self._params.run not in {None, each.run} or each.run in self._unreadable:
                continue
            if each.packed is None:
                self._leave_out(each)
                continue
            self._outlet.send(each.packed.framed(self._number))
            queued += len(each.packed.fields)
            if queued >= BURST_BYTES:
                queued = 0
                await self._outlet.drained()
        await self._outlet.drained()

    def _leave_out(self, step: TailStep) -> None:
        """Have what cannot be sent read anew; of an unreadable run that is said once, and no more of it."""
        if step.without is SnapshotReason.UNREADABLE:
            self._unreadable.add(step.run)
        self._snapshot(step.without, step.position)

    def _snapshot(self, reason: SnapshotReason, position: int | None = None) -> None:
        self._position = self._hub.head if position is None else position
        self._live = False
        self._push(SnapshotPush(reason=reason, epoch=self._hub.epoch, position=self._position))

    def _say_live(self) -> None:
        if not self._live:
            self._live = True
            self._push(StatePush(state=StreamState.LIVE, position=self._position))

    def _push(self, push: Push) -> None:
        self._outlet.send(packed_push(push).framed(self._number))
