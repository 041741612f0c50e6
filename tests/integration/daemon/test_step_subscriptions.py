"""Subscriptions to steps: every step once and in order, whatever happens in between."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusiond.client import aio
from fusiond.client.aio import AsyncConnection
from fusiond.client.reconnecting import ReconnectingFeed, ResumePoint
from fusiond.codec.packed import unpack
from fusiond.daemon.subscriptions import READ_STEPS, TAIL_STEPS, StepHub, StepSubscription
from fusiond.domain.digest import Digest
from fusiond.domain.errors import CorruptError, FusionError, NewerError, TryAgainError, UnreachableError
from fusiond.ports.ledger import PositionedStep, UnreadableStep
from fusiond.wire.limits import FRAME_BYTES, REPLAY_POSITIONS
from fusiond.wire.messages import (
    Push,
    Pushed,
    SnapshotPush,
    SnapshotReason,
    StatePush,
    StepPush,
    StreamState,
    read_from_daemon,
)
from fusiond.wire.methods import PING, RUN_LIST
from fusiond.wire.params import Nothing, RunListParams, SubscribeParams
from tests.fakes.daemon_parts import OTHER_RUN, RUN, FedLedger, Served, new_workspace, served, step_at
from tests.fakes.pushes import Pushes
from tests.fakes.raw_client import raw_client
from tests.waiting import DEADLINE_S, eventually


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Served]:
    """A serving daemon with ten steps in its ledger."""
    async with served(new_workspace(tmp_path), ledger=FedLedger(10)) as running:
        yield running


async def subscribed(daemon: Served, params: SubscribeParams) -> Pushes:
    """Subscribe on a fresh connection."""
    return Pushes((await (await daemon.connect()).subscribe(params))[1])


def live_at(position: int) -> StatePush:
    """Return the push that says everything up to `position` was sent."""
    return StatePush(state=StreamState.LIVE, position=position)


async def test_history_then_live_then_what_comes(daemon: Served) -> None:
    pushes = await subscribed(daemon, SubscribeParams(epoch="epoch-1", from_position=7))
    first = [await pushes.next() for _ in range(4)]
    assert first == [*(StepPush(position=p, step=step_at(p).step) for p in (8, 9, 10)), live_at(10)]
    daemon.append(2)
    assert await pushes.steps(2) == [11, 12]


async def test_reply_comes_before_the_first_push(daemon: Served) -> None:
    async with raw_client(daemon.address, greeted=True) as client:
        client.ask(5, "subscribe", {})
        reply, push = await client.hear(), await client.hear()
    assert reply == {
        "type": "ok",
        "id": 5,
        "result": {"subscription": 1, "epoch": "epoch-1", "position": 10},
    }
    assert push is not None
    assert (push["type"], push["subscription"], push["position"]) == ("push", 1, 1)


async def test_subscribing_at_the_head_is_live_at_once(daemon: Served) -> None:
    pushes = await subscribed(daemon, SubscribeParams(epoch="epoch-1", from_position=10))
    assert await pushes.next() == live_at(10)
    daemon.append()
    assert await pushes.steps(1) == [11]


async def test_one_run_only(daemon: Served) -> None:
    pushes = await subscribed(daemon, SubscribeParams(from_position=9, run=OTHER_RUN))
    assert await pushes.next() == live_at(10)
    daemon.append(3)
    daemon.append(1, run=OTHER_RUN)
    daemon.append(1)
    daemon.append(1, run=OTHER_RUN)
    assert await pushes.steps(2) == [14, 16]


@pytest.mark.parametrize(
    "params,reason",
    [
        (SubscribeParams(epoch="epoch-0", from_position=4), SnapshotReason.EPOCH),
        (SubscribeParams(epoch="epoch-1", from_position=11), SnapshotReason.FUTURE),
        (SubscribeParams(from_position=11), SnapshotReason.FUTURE),
    ],
)
async def test_position_that_means_nothing_here_is_a_snapshot(
    daemon: Served, params: SubscribeParams, reason: SnapshotReason
) -> None:
    pushes = await subscribed(daemon, params)
    assert await pushes.next() == SnapshotPush(reason=reason, epoch="epoch-1", position=10)
    assert await pushes.next() == live_at(10)
    daemon.append()
    assert await pushes.steps(1) == [11]


async def test_too_far_behind_is_a_snapshot(daemon: Served) -> None:
    # Only the announced head counts for that; the steps need not be read.
    daemon.hub.head = REPLAY_POSITIONS + 11
    pushes = await subscribed(daemon, SubscribeParams(from_position=10))
    assert await pushes.next() == SnapshotPush(
        reason=SnapshotReason.TOO_FAR, epoch="epoch-1", position=REPLAY_POSITIONS + 11
    )


async def test_step_too_large_for_a_frame_is_a_snapshot_and_the_rest_follows(daemon: Served) -> None:
    large = step_at(11)
    refs = large.step.refs + (large.step.hash,) * (FRAME_BYTES // 64)
    daemon.ledger.steps.append(PositionedStep(position=11, step=with_refs(large, refs).step))
    daemon.append()
    pushes = await subscribed(daemon, SubscribeParams(from_position=10))
    assert await pushes.next() == SnapshotPush(reason=SnapshotReason.TOO_LARGE, epoch="epoch-1", position=11)
    assert await pushes.steps(1) == [12]


def with_refs(positioned: PositionedStep, refs: tuple[str, ...]) -> PositionedStep:
    """Return the step with other references."""
    step = replace(positioned.step, refs=tuple(Digest(each) for each in refs))
    return PositionedStep(position=positioned.position, step=step)


async def test_unsubscribed_is_silent(daemon: Served) -> None:
    connection = await daemon.connect()
    _, subscription = await connection.subscribe(SubscribeParams(from_position=10))
    await connection.unsubscribe(subscription)
    assert daemon.server.subscriptions == 0
    daemon.append(5)
    await connection.call(PING, Nothing())
    with pytest.raises(TryAgainError, match="unsubscribed"):
        await Pushes(subscription).steps(1)


async def test_step_that_nobody_can_read_is_told_once_and_hides_no_other(daemon: Served) -> None:
    pushes = await subscribed(daemon, SubscribeParams(from_position=10))
    other = await subscribed(daemon, SubscribeParams(from_position=10, run=RUN))
    assert [await pushes.next(), await other.next()] == [live_at(10), live_at(10)]
    error = NewerError("written by a newer fusion")
    for position in (11, 12):
        daemon.ledger.steps.append(UnreadableStep(position=position, run=OTHER_RUN, error=error))
    daemon.append()
    assert await pushes.next() == SnapshotPush(reason=SnapshotReason.UNREADABLE, epoch="epoch-1", position=11)
    assert await pushes.steps(1) == [13]
    assert await other.steps(1) == [13]


async def test_subscriptions_of_one_connection_are_bounded(daemon: Served) -> None:
    connection = await daemon.connect()
    for _ in range(32):
        await connection.subscribe(SubscribeParams(from_position=10))
    with pytest.raises(FusionError, match="32 subscriptions"):
        await connection.subscribe(SubscribeParams(from_position=10))


async def test_unreadable_ledger_ends_the_subscription_with_its_reason(daemon: Served) -> None:
    pushes = await subscribed(daemon, SubscribeParams(from_position=10))
    assert await pushes.next() == live_at(10)
    daemon.ledger.broken = CorruptError("the chain of a run is broken at 11")
    daemon.append()
    ended = await pushes.next()
    assert isinstance(ended, StatePush)
    assert (ended.state, ended.detail) == (StreamState.FAILED, "the chain of a run is broken at 11")
    daemon.ledger.broken = None
    again = await subscribed(daemon, SubscribeParams(from_position=10))
    assert await again.steps(1) == [11]


async def test_error_nobody_foresaw_ends_the_subscription_alone(
    daemon: Served, caplog: pytest.LogCaptureFixture
) -> None:
    daemon.ledger.broken = RuntimeError("secret detail")
    pushes = await subscribed(daemon, SubscribeParams())
    ended = await pushes.next()
    assert isinstance(ended, StatePush)
    assert ended.state is StreamState.FAILED
    assert "secret" not in ended.detail
    assert "subscription failed" in caplog.text


async def test_stopping_daemon_says_so_to_subscribers(daemon: Served) -> None:
    pushes = await subscribed(daemon, SubscribeParams(from_position=10))
    assert await pushes.next() == live_at(10)
    await daemon.server.drain()
    ended = await pushes.next()
    assert isinstance(ended, StatePush)
    assert (ended.state, ended.detail) == (StreamState.ENDED, "the daemon stops")
    with pytest.raises(UnreachableError):
        await pushes.next()


async def test_long_history_comes_whole(tmp_path: Path) -> None:
    count = TAIL_STEPS + 3 * READ_STEPS
    async with served(new_workspace(tmp_path), ledger=FedLedger(count)) as daemon:
        pushes = await subscribed(daemon, SubscribeParams())
        assert await pushes.steps(count) == list(range(1, count + 1))
        daemon.append(3)
        assert await pushes.steps(3) == [count + 1, count + 2, count + 3]


async def test_reader_that_falls_too_far_behind_ends_and_may_resume(daemon: Served) -> None:
    connection = await daemon.connect(queued_pushes=20)
    _, subscription = await connection.subscribe(SubscribeParams())
    daemon.append(100)
    await eventually(lambda: daemon.server.subscriptions == 0, "the client's own unsubscribe")
    pushes = Pushes(subscription)
    with pytest.raises(TryAgainError, match="too far behind"):
        await pushes.steps(1_000)
    other = await daemon.connect()
    _, again = await other.subscribe(SubscribeParams(epoch="epoch-1", from_position=20))
    assert await Pushes(again).steps(90) == list(range(21, 111))


async def subscriber(daemon: Served) -> None:
    """Wait for the one subscription."""
    await eventually(lambda: daemon.server.subscriptions == 1, "subscription")


class Store:
    """A listener that keeps what it is told, as a screen's store would."""

    def __init__(self) -> None:
        self.positions: list[int] = []
        self.resyncs: list[SnapshotReason] = []
        self.losses: list[FusionError] = []
        self.connections = 0

    async def connected(self, connection: AsyncConnection, known: ResumePoint | None) -> ResumePoint:
        self.connections += 1
        if known is not None:
            return known
        listed = await connection.call(RUN_LIST, RunListParams())
        return ResumePoint(epoch=listed.epoch, position=listed.position)

    def lost(self, error: FusionError) -> None:
        self.losses.append(error)

    async def resync(self, connection: AsyncConnection, snapshot: SnapshotPush) -> ResumePoint:
        listed = await connection.call(RUN_LIST, RunListParams())
        self.resyncs.append(snapshot.reason)
        return ResumePoint(epoch=listed.epoch, position=listed.position)

    def pushed(self, pushes: list[Push]) -> None:
        self.positions += [push.position for push in pushes if isinstance(push, StepPush)]


async def test_feed_survives_restarts_of_the_daemon_without_gap_or_duplicate(tmp_path: Path) -> None:
    workspace, ledger, store = new_workspace(tmp_path), FedLedger(10), Store()

    async def connect() -> AsyncConnection:
        return await aio.connect(workspace, os.environ, product="0.1.0", client="feed")

    feed = asyncio.create_task(ReconnectingFeed(connect, store, jitter=lambda: 0.0).run())
    for _ in range(3):
        async with served(workspace, ledger=ledger) as daemon:
            await subscriber(daemon)
            daemon.append(20)
            # Not waited for: the daemon may go down in the middle of sending.
            await asyncio.sleep(0)
        ledger.append(5)
    async with served(workspace, ledger=ledger) as daemon:
        daemon.append(1)
        total = len(ledger.steps)
        await eventually(lambda: store.positions[-1:] == [total], "the last step")
    feed.cancel()
    await asyncio.gather(feed, return_exceptions=True)
    assert store.positions == list(range(11, total + 1))
    assert store.resyncs == []
    assert len(store.losses) >= 3


async def test_feed_reads_anew_when_the_ledger_is_another(tmp_path: Path) -> None:
    workspace, store = new_workspace(tmp_path), Store()

    async def connect() -> AsyncConnection:
        return await aio.connect(workspace, os.environ, product="0.1.0", client="feed")

    async with AsyncExitStack() as tasks:
        async with served(workspace, ledger=FedLedger(10)) as daemon:
            feed = asyncio.create_task(ReconnectingFeed(connect, store, jitter=lambda: 0.0).run())
            tasks.callback(feed.cancel)
            await subscriber(daemon)
            daemon.append(1)
            await eventually(lambda: store.positions == [11], "step")
        async with served(workspace, ledger=FedLedger(4, epoch="epoch-2")) as daemon:
            await eventually(lambda: store.resyncs, "resync")
            daemon.append(1)
            await eventually(lambda: store.positions[-1:] == [5], "step of the new ledger")
    assert store.resyncs == [SnapshotReason.EPOCH]
    assert store.positions == [11, 5]


class Basket:
    """An outlet in memory that is full as often as it is told to be."""

    def __init__(self, pauses: list[int]) -> None:
        self.pushes: list[Push] = []
        self._pauses = pauses

    def send(self, frame: bytes) -> None:
        pushed = read_from_daemon(unpack(frame[4:]))
        assert isinstance(pushed, Pushed)
        assert pushed.push is not None
        self.pushes.append(pushed.push)

    async def drained(self) -> None:
        for _ in range(self._pauses.pop() if self._pauses else 0):
            await asyncio.sleep(0)

    def positions(self) -> list[int]:
        """Return the positions of the steps."""
        return [push.position for push in self.pushes if isinstance(push, StepPush)]


starts = st.lists(st.integers(0, 120) | st.just(1_000), min_size=1, max_size=5)
bursts = st.lists(st.integers(1, 25), max_size=8)
pauses = st.lists(st.integers(0, 4), max_size=20)


@given(starts, bursts, st.lists(pauses, min_size=5, max_size=5), st.integers(3, 9))
@settings(max_examples=60)
def test_any_subscribers_at_any_pace_get_every_step_once(
    begins: list[int], batches: list[int], paces: list[list[int]], tail: int
) -> None:
    asyncio.run(play(begins, batches, paces, tail))


async def play(begins: list[int], batches: list[int], paces: list[list[int]], tail: int) -> None:
    """Let subscribers begin one after another while the ledger grows, until all have everything."""
    ledger = FedLedger(60)
    # A tail and reads this small make every way of falling out of the tail likely.
    hub = StepHub(ledger, coalesce_s=0.0, tail_steps=tail, read_steps=3)
    await hub.start()
    baskets: list[tuple[int, Basket]] = []
    tasks: list[asyncio.Task[None]] = []
    for wanted, pace in zip(begins, paces, strict=False):
        begin, basket = min(wanted, hub.head), Basket(list(pace))
        baskets.append((begin, basket))
        subscription = StepSubscription(hub, basket, 1, SubscribeParams(from_position=begin, run=RUN))
        tasks.append(asyncio.create_task(subscription.run()))
        hub.announce(ledger.append(batches.pop() if batches else 1))
        await asyncio.sleep(0)
    for batch in batches:
        hub.announce(ledger.append(batch))
        await asyncio.sleep(0)
    total = len(ledger.steps)
    async with asyncio.timeout(DEADLINE_S):
        await eventually(
            lambda: all(begin == total or basket.positions()[-1:] == [total] for begin, basket in baskets),
            "everything",
        )
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for begin, basket in baskets:
        assert basket.positions() == list(range(begin + 1, total + 1))
