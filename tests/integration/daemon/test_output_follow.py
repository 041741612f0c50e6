"""Following output over a real socket: true offsets, stated gaps, an end."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fusiond.daemon.output_follow import PUSH_BYTES, OutputStream
from fusiond.domain.ids import AttemptNumber, NodeId
from fusiond.wire.limits import OUTPUT_KEPT_BYTES, OUTPUT_LAG_BYTES
from fusiond.wire.messages import GapPush, OutputPush, Push, StatePush, StreamState
from fusiond.wire.params import OutputFollowParams
from tests.fakes.daemon_parts import RUN, Served, WrittenOutput, new_workspace, served
from tests.fakes.pushes import Pushes
from tests.fakes.raw_client import raw_client
from tests.waiting import eventually

TURN = OutputStream(run=RUN, node=NodeId("build"), attempt=AttemptNumber(1), what="turn-1")
GATE = OutputStream(run=RUN, node=NodeId("build"), attempt=AttemptNumber(1), what="gate-unit-1")
ALL = OutputFollowParams(run=RUN)


@dataclass
class Followed:
    """A daemon and the output that it has to tell of."""

    daemon: Served
    output: WrittenOutput

    async def follow(self, params: OutputFollowParams) -> Pushes:
        """Follow on a fresh connection."""
        return Pushes(await (await self.daemon.connect()).follow(params))


@pytest.fixture
async def followed(tmp_path: Path) -> AsyncIterator[Followed]:
    """A serving daemon."""
    output = WrittenOutput()
    async with served(new_workspace(tmp_path), outputs=output) as daemon:
        yield Followed(daemon, output)


def pushed(stream: OutputStream, offset: int, data: bytes) -> OutputPush:
    """Return the push of some bytes."""
    return OutputPush(
        run=stream.run, node=stream.node, attempt=stream.attempt, what=stream.what, offset=offset, data=data
    )


def gap(stream: OutputStream, start: int, end: int) -> GapPush:
    """Return the push of a gap."""
    return GapPush(
        run=stream.run, node=stream.node, attempt=stream.attempt, what=stream.what, start=start, end=end
    )


async def until(pushes: Pushes, state: StreamState) -> list[Push]:
    """Return everything up to a state, without it."""
    found: list[Push] = []
    while True:
        push = await pushes.next()
        if isinstance(push, StatePush) and push.state is state:
            return found
        found.append(push)


def joined(pushes: list[Push]) -> bytes:
    """Return the bytes of pushes that must follow one another without gap."""
    data = b""
    for push in pushes:
        assert isinstance(push, OutputPush)
        assert push.offset == len(data)
        data += push.data
    return data


async def test_what_is_there_then_what_comes_then_the_end(followed: Followed) -> None:
    followed.output.write(TURN, b"one\xff\n")
    pushes = await followed.follow(ALL)
    assert await until(pushes, StreamState.LIVE) == [pushed(TURN, 0, b"one\xff\n")]
    followed.output.write(TURN, b"two\n")
    assert await pushes.next() == pushed(TURN, 5, b"two\n")
    followed.output.write(TURN, b"three\n")
    followed.output.complete = True
    assert await until(pushes, StreamState.ENDED) == [pushed(TURN, 9, b"three\n")]
    await eventually(lambda: followed.daemon.server.subscriptions == 0, "end of the subscription")


async def test_several_outputs_take_turns(followed: Followed) -> None:
    followed.output.write(TURN, bytes(3 * PUSH_BYTES))
    followed.output.write(GATE, bytes(2 * PUSH_BYTES))
    followed.output.complete = True
    came = await until(await followed.follow(ALL), StreamState.ENDED)
    whats = [push.what for push in came if isinstance(push, OutputPush)]
    assert whats == ["turn-1", "gate-unit-1", "turn-1", "gate-unit-1", "turn-1"]


async def test_one_output_from_an_offset(followed: Followed) -> None:
    followed.output.write(TURN, b"0123456789")
    followed.output.write(GATE, b"not this")
    followed.output.complete = True
    params = OutputFollowParams(run=RUN, node=TURN.node, attempt=TURN.attempt, what=TURN.what, from_offset=6)
    came = await until(await followed.follow(params), StreamState.ENDED)
    assert came == [pushed(TURN, 6, b"6789")]


async def test_unknown_run_ends_with_the_reason(followed: Followed) -> None:
    pushes = await followed.follow(OutputFollowParams(run="7"))
    ended = await pushes.next()
    assert isinstance(ended, StatePush)
    assert (ended.state, ended.detail) == (StreamState.FAILED, "no run 7")


async def test_bytes_that_were_not_kept_are_a_gap(followed: Followed) -> None:
    followed.output.write(TURN, b"0123456789")
    followed.output.kept_from = 4
    followed.output.complete = True
    came = await until(await followed.follow(ALL), StreamState.ENDED)
    assert came == [gap(TURN, 0, 4), pushed(TURN, 4, b"456789")]


async def test_far_behind_is_moved_forward_and_told(followed: Followed) -> None:
    size = OUTPUT_LAG_BYTES + 1
    followed.output.write(TURN, bytes(size))
    followed.output.complete = True
    came = await until(await followed.follow(ALL), StreamState.ENDED)
    assert came[0] == gap(TURN, 0, size - OUTPUT_KEPT_BYTES)
    sent = [push for push in came[1:] if isinstance(push, OutputPush)]
    assert sum(len(push.data) for push in sent) == OUTPUT_KEPT_BYTES
    assert sent[0].offset == size - OUTPUT_KEPT_BYTES


async def test_within_the_bound_nothing_is_left_out(followed: Followed) -> None:
    data = bytes(range(256)) * (OUTPUT_LAG_BYTES // 256)
    followed.output.write(TURN, data)
    followed.output.complete = True
    assert joined(await until(await followed.follow(ALL), StreamState.ENDED)) == data


async def test_follower_that_does_not_read_gets_a_gap_and_not_a_queue(followed: Followed) -> None:
    async with raw_client(followed.daemon.address, greeted=True) as slow:
        transport = slow.writer.transport
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        slow.ask(1, "output.follow", {"run": RUN})
        followed.output.write(TURN, bytes(OUTPUT_LAG_BYTES))
        (connection,) = followed.daemon.server.open
        await eventually(lambda: not connection._writable.is_set(), "full buffers")
        followed.output.write(TURN, bytes(2 * OUTPUT_LAG_BYTES))
        followed.output.complete = True
        transport.resume_reading()
        kinds, reached = [], 0
        while (push := await slow.hear()) is not None and push.get("state") != "ended":
            kinds.append(push.get("kind"))
            if push.get("kind") == "output":
                assert push["offset"] == reached
                data = push["data"]
                assert isinstance(data, bytes)
                reached += len(data)
            elif push.get("kind") == "gap":
                assert push["start"] == reached
                reached = int(str(push["end"]))
    assert "gap" in kinds
    assert reached == 3 * OUTPUT_LAG_BYTES
