"""A feed of steps that survives the daemon: reconnect, resync, go on without gap or duplicate.

Owns when to connect again and from which position to go on. What is known
(the store behind a screen) is the listener's; how to connect is an argument.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from fusiond.client.aio import AsyncConnection
from fusiond.domain.errors import FusionError, TryAgainError, UnreachableError
from fusiond.domain.ids import RunId
from fusiond.domain.records import dataclass
from fusiond.wire.messages import Push, SnapshotPush, StatePush, StepPush, StreamState
from fusiond.wire.params import SubscribeParams

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePoint:
    """Everything up to `position` of the ledger `epoch` is known."""

    epoch: str
    position: int


class FeedListener(Protocol):
    """Who is told. All are called in the feed's own task, one at a time."""

    async def connected(self, connection: AsyncConnection, known: ResumePoint | None) -> ResumePoint:
        """Take the new connection and return what is known: `known` if it still is.

        With None everything must be read anew (`run.list` returns epoch and position).
        """
        ...

    def lost(self, error: FusionError) -> None:
        """What is shown is stale from now on, and nothing may be decided."""
        ...

    async def resync(self, connection: AsyncConnection, snapshot: SnapshotPush) -> ResumePoint:
        """Everything known is void: read it anew and return what is known then."""
        ...

    def pushed(self, pushes: list[Push]) -> None:
        """Steps and states, in order, each step once."""
        ...


class ReconnectingFeed:
    """Keeps one subscription alive over any number of connections.

    Args:
        connect: makes a greeted connection, starting the daemon if that is wanted.
        listener: who is told.
        jitter: a number from 0 to 1, so that many clients do not come back at once.
        run: the only run to follow.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[AsyncConnection]],
        listener: FeedListener,
        *,
        jitter: Callable[[], float],
        run: RunId | None = None,
    ) -> None:
        self._connect = connect
        self._listener = listener
        self._jitter = jitter
        self._run = run
        self._known: ResumePoint | None = None
        self._pause_s = FIRST_PAUSE_S

    async def run(self) -> None:
        """Follow until cancelled.

        Raises:
            FusionError: what connecting again cannot cure, such as another protocol.
        """
        while True:
            try:
                await self._follow()
            except (UnreachableError, TryAgainError) as error:
                self._listener.lost(error)
            await asyncio.sleep(self._pause_s * (0.5 + self._jitter()))
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    async def _follow(self) -> None:
        connection = await self._connect()
        try:
            known = await self._listener.connected(connection, self._known)
            self._known = known
            _, subscription = await connection.subscribe(
                SubscribeParams(epoch=known.epoch, from_position=known.position, run=self._run)
            )
            async for batch in subscription.batches():
                self._pause_s = FIRST_PAUSE_S
                await self._take(connection, batch)
        finally:
            connection.close()

    async def _take(self, connection: AsyncConnection, batch: list[Push]) -> None:
        fresh: list[Push] = []
        for push in batch:
            if isinstance(push, SnapshotPush):
                # What came before it is void.
                fresh.clear()
                self._known = await self._listener.resync(connection, push)
            elif self._is_new(push):
                fresh.append(push)
        if fresh:
            self._listener.pushed(fresh)

    def _is_new(self, push: Push) -> bool:
        known = self._known
        assert known is not None, "a subscription starts from something known"
        match push:
            case StepPush(position=position) if position <= known.position:
                return False
            case StepPush(position=position) | StatePush(state=StreamState.LIVE, position=position):
                self._known = ResumePoint(epoch=known.epoch, position=max(position, known.position))
                return True
            case _:
                return True
