"""Following output as it is written: pushes that may be dropped, and gaps that are said.

Owns how far one follower has come in each output. The bytes are in their
files; where those are is the port's business.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from fusiond.daemon.subscriptions import Outlet
from fusiond.domain.ids import AttemptNumber, NodeId, RunId
from fusiond.domain.records import dataclass
from fusiond.wire.limits import OUTPUT_KEPT_BYTES, OUTPUT_LAG_BYTES
from fusiond.wire.messages import GapPush, OutputPush, Push, StatePush, StreamState, packed_push
from fusiond.wire.params import OutputFollowParams
from fusiond.wire.results import BodyPage

FIRST_POLL_S = 0.05
LONGEST_POLL_S = 0.25
"""How often a quiet output is looked at: the launcher writes it, the daemon is not told."""

PUSH_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputStream:
    """The identity of one output."""

    run: RunId
    node: NodeId
    attempt: AttemptNumber
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputIndex:
    """The outputs there are now, with the bytes written so far; `complete` when nothing more comes."""

    streams: tuple[tuple[OutputStream, int], ...]
    complete: bool


class OutputStreams(Protocol):
    """Output of attempts, live or finished."""

    async def index(self, params: OutputFollowParams) -> OutputIndex:
        """Find the outputs that `params` mean. NotFoundError, AmbiguousError."""
        ...

    async def read(
        self, params: OutputFollowParams, stream: OutputStream, offset: int, limit: int
    ) -> BodyPage:
        """Read at most `limit` bytes; the page starts later where bytes were not kept."""
        ...


class OutputFollow:
    """What one follower still has to get.

    Args:
        streams: the output.
        outlet: the way to the follower.
        number: of the subscription.
        params: which output, from where.
    """

    def __init__(
        self, streams: OutputStreams, outlet: Outlet, number: int, params: OutputFollowParams
    ) -> None:
        self._streams = streams
        self._outlet = outlet
        self._number = number
        self._params = params
        self._offsets: dict[OutputStream, int] = {}

    async def run(self) -> None:
        """Send until the output is complete or this is cancelled.

        Raises:
            FusionError: the output is gone or unreadable.
        """
        live, pause_s = False, FIRST_POLL_S
        while True:
            index = await self._streams.index(self._params)
            if await self._catch_up(index.streams):
                pause_s = FIRST_POLL_S
                continue
            if index.complete:
                self._push(StatePush(state=StreamState.ENDED, detail="the output is complete"))
                return
            if not live:
                live = True
                self._push(StatePush(state=StreamState.LIVE))
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_POLL_S)

    async def _catch_up(self, streams: Sequence[tuple[OutputStream, int]]) -> bool:
        moved = False
        for stream, size in streams:
            moved |= await self._advance(stream, size)
        return moved

    async def _advance(self, stream: OutputStream, size: int) -> bool:
        """Send one push of `stream`, so that several outputs take turns."""
        offset = self._offsets.setdefault(stream, self._params.from_offset)
        if offset >= size:
            return False
        if size - offset > OUTPUT_LAG_BYTES:
            self._gap(stream, offset, size - OUTPUT_KEPT_BYTES)
            offset = size - OUTPUT_KEPT_BYTES
        page = await self._streams.read(self._params, stream, offset, PUSH_BYTES)
        if page.offset > offset:
            self._gap(stream, offset, page.offset)
        if page.data:
            self._push(
                OutputPush(
                    run=stream.run,
                    node=stream.node,
                    attempt=stream.attempt,
                    what=stream.what,
                    offset=page.offset,
                    data=page.data,
                )
            )
        # Never back: between its last byte and its record an output cannot be read for a moment.
        self._offsets[stream] = max(offset, page.offset + len(page.data))
        await self._outlet.drained()
        return self._offsets[stream] > offset

    def _gap(self, stream: OutputStream, start: int, end: int) -> None:
        self._push(
            GapPush(
                run=stream.run,
                node=stream.node,
                attempt=stream.attempt,
                what=stream.what,
                start=start,
                end=end,
            )
        )

    def _push(self, push: Push) -> None:
        self._outlet.send(packed_push(push).framed(self._number))
