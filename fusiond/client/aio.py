"""The asyncio client: one connection, domain records, any number of subscriptions.

For the TUI and other programs with an event loop. Owns the connection;
reconnecting is `client.reconnecting`.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import TypeVar

from fusiond.client.blocking import CALL_S, CONNECT_S, check_daemon, dial, peer_pid
from fusiond.client.discovery import Workspace
from fusiond.codec.packed import Plain
from fusiond.codec.records import unstructure
from fusiond.domain.errors import FusionError, InvalidError, TryAgainError, UnreachableError
from fusiond.wire import envelope
from fusiond.wire.framing import FrameDecoder, frame
from fusiond.wire.messages import (
    Failure,
    Hello,
    HelloReply,
    ProtocolVersion,
    Push,
    Pushed,
    Reply,
    hello_message,
    read_from_daemon,
    result_of,
)
from fusiond.wire.methods import OUTPUT_FOLLOW, SUBSCRIBE, UNSUBSCRIBE, Method
from fusiond.wire.params import OutputFollowParams, SubscribeParams, UnsubscribeParams
from fusiond.wire.results import Subscribed
from fusiond.wire.version import PROTOCOL_MINOR

P = TypeVar("P")
R = TypeVar("R")

QUEUED_PUSHES = 50_000
"""A subscription whose reader is further behind is ended, and can be resumed where it was read to."""

BATCH_PUSHES = 500
"""The most pushes handed over at once: about 8 ms of decoding."""


class Subscription:
    """Pushes of one subscription, in order. Made by an `AsyncConnection`."""

    def __init__(self, number: int, *, tolerant: bool, limit: int) -> None:
        self.number = number
        self._limit = limit
        self._tolerant = tolerant
        self._waiting: list[dict[str, Plain]] = []
        self._woken = asyncio.Event()
        self._end: FusionError | None = None

    async def batches(self) -> AsyncIterator[list[Push]]:
        """Yield what has come, at most `BATCH_PUSHES` at once, until the subscription ends.

        Raises:
            UnreachableError: the connection broke.
            TryAgainError: this reader fell too far behind; subscribe again from where it is.
            InvalidError: the daemon sent what nobody can read.
        """
        while True:
            while self._waiting:
                batch, self._waiting = self._waiting[:BATCH_PUSHES], self._waiting[BATCH_PUSHES:]
                yield [push for push in map(self._read, batch) if push is not None]
                await asyncio.sleep(0)
            if self._end is not None:
                raise self._end
            self._woken.clear()
            await self._woken.wait()

    def _read(self, message: dict[str, Plain]) -> Push | None:
        try:
            pushed = read_from_daemon(message)
        except InvalidError:
            # A newer daemon may push what only a newer client can read.
            if self._tolerant:
                return None
            raise
        return pushed.push if isinstance(pushed, Pushed) else None

    def put(self, message: dict[str, Plain]) -> bool:
        """Take a push; False when the reader is too far behind, which ends the subscription."""
        if self._end is not None:
            return True
        if len(self._waiting) >= self._limit:
            self.end(TryAgainError("this reader fell too far behind", cure="subscribe again"))
            return False
        self._waiting.append(message)
        self._woken.set()
        return True

    def end(self, error: FusionError) -> None:
        """Let the reader see `error` after what has come already."""
        self._end = self._end or error
        self._woken.set()


class AsyncConnection(asyncio.Protocol):
    """One greeted connection. Made by `connect`.

    Args:
        queued_pushes: see `QUEUED_PUSHES`.
    """

    def __init__(self, queued_pushes: int = QUEUED_PUSHES) -> None:
        self._queued_pushes = queued_pushes
        self._decoder = FrameDecoder()
        self._transport: asyncio.Transport | None = None
        self._calls: dict[int, asyncio.Future[Reply]] = {}
        self._subscriptions: dict[int, Subscription] = {}
        self._opening: set[int] = set()
        self._greeting: asyncio.Future[HelloReply] = asyncio.get_running_loop().create_future()
        self._next_id = 1
        self._lost: FusionError | None = None
        self.closed = asyncio.Event()

    @property
    def welcome(self) -> HelloReply:
        """The daemon's answer to hello."""
        return self._greeting.result()

    async def call(
        self, method: Method[P, R], params: P, *, key: str | None = None, timeout_s: float = CALL_S
    ) -> R:
        """Ask for `method` and return its result.

        Args:
            method: one of `wire.methods`.
            params: its parameters.
            key: needed where `method.keyed`; the same key asks for the same act again.
            timeout_s: how long to wait.

        Raises:
            FusionError: the daemon's error, as the exception of its code.
            UnreachableError: the connection broke.
            TryAgainError: no reply within `timeout_s`.
        """
        reply = await self._ask(method.name, unstructure(params), key, timeout_s)
        return result_of(method.result, reply)

    async def subscribe(self, params: SubscribeParams) -> tuple[Subscribed, Subscription]:
        """Follow steps; see `SubscribeParams` for resuming."""
        begun = await self.call(SUBSCRIBE, params)
        return begun, self._subscriptions[begun.subscription]

    async def follow(self, params: OutputFollowParams) -> Subscription:
        """Follow output."""
        begun = await self.call(OUTPUT_FOLLOW, params)
        return self._subscriptions[begun.subscription]

    async def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription; its reader sees a TryAgainError after what has come already."""
        self._subscriptions.pop(subscription.number, None)
        subscription.end(TryAgainError("unsubscribed"))
        await self.call(UNSUBSCRIBE, UnsubscribeParams(subscription=subscription.number))

    def close(self) -> None:
        """Close the connection; everything that waits sees an UnreachableError."""
        self._end(UnreachableError("the connection was closed"))

    async def _ask(
        self, method: str, params: Mapping[str, object], key: str | None, timeout_s: float
    ) -> Reply:
        number = self._next_id
        self._next_id += 1
        waiting: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._send(envelope.request(number, method, params, key))
        self._calls[number] = waiting
        if method in {SUBSCRIBE.name, OUTPUT_FOLLOW.name}:
            self._opening.add(number)
        try:
            async with asyncio.timeout(timeout_s):
                return await waiting
        except TimeoutError as error:
            raise TryAgainError(f"no reply to {method} within {timeout_s:g} s") from error
        finally:
            del self._calls[number]

    async def greet(self, product: str, client: str) -> HelloReply:
        """Say hello and return the answer. Only `connect` calls it."""
        self._send(hello_message(Hello(product=product, protocol=ProtocolVersion(), client=client)))
        try:
            async with asyncio.timeout(CONNECT_S):
                return await self._greeting
        except TimeoutError as error:
            raise UnreachableError(f"the daemon did not answer hello within {CONNECT_S:g} s") from error

    def _send(self, message: Mapping[str, object]) -> None:
        if self._lost is not None or self._transport is None:
            raise self._lost or UnreachableError("not connected")
        self._transport.write(frame(message))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport (called by the event loop)."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Sort what came (called by the event loop)."""
        self._decoder.feed(data)
        try:
            while (message := self._decoder.next()) is not None:
                self._sort(message)
        except FusionError as error:
            self._end(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everybody who waits (called by the event loop)."""
        reason = f"the connection broke: {exc}" if exc else "the daemon closed the connection"
        self._end(UnreachableError(reason, state="what the ledger has", cure="ask again"))

    def _sort(self, message: dict[str, Plain]) -> None:
        if message.get("type") == envelope.PUSH:
            self._push(envelope.number(message, "subscription"), message)
            return
        match read_from_daemon(message):
            case HelloReply() as welcome if not self._greeting.done():
                self._greeting.set_result(welcome)
            case Reply() as reply:
                if reply.id in self._opening:
                    self._open(reply)
                self._answer(reply.id, reply)
            case Failure(id=None, error=error):
                self._end(error)
            case Failure(id=int(number), error=error):
                self._answer(number, error)
            case _:
                raise InvalidError("the daemon said hello twice")

    def _answer(self, number: int, answer: Reply | FusionError) -> None:
        waiting = self._calls.get(number)
        if waiting is None or waiting.done():
            return
        if isinstance(answer, Reply):
            waiting.set_result(answer)
        else:
            waiting.set_exception(answer)

    def _open(self, reply: Reply) -> None:
        # At once: pushes may follow the reply in the same breath.
        self._opening.discard(reply.id)
        number = envelope.number(reply.result, "subscription")
        tolerant = self.welcome.protocol.minor > PROTOCOL_MINOR
        self._subscriptions[number] = Subscription(number, tolerant=tolerant, limit=self._queued_pushes)

    def _push(self, number: int, message: dict[str, Plain]) -> None:
        subscription = self._subscriptions.get(number)
        if subscription is not None and not subscription.put(message):
            del self._subscriptions[number]
            params = unstructure(UnsubscribeParams(subscription=number))
            self._next_id += 1
            self._send(envelope.request(self._next_id - 1, UNSUBSCRIBE.name, params, None))

    def _end(self, error: FusionError) -> None:
        if self._lost is not None:
            return
        self._lost = error
        for waiting in self._calls.values():
            if not waiting.done():
                waiting.set_exception(error)
        if not self._greeting.done():
            self._greeting.set_exception(error)
            # Nobody may be waiting for it any more.
            self._greeting.exception()
        for subscription in self._subscriptions.values():
            subscription.end(error)
        if self._transport is not None:
            self._transport.abort()
        self.closed.set()


async def connect(
    workspace: Workspace,
    environ: Mapping[str, str],
    *,
    product: str,
    client: str,
    queued_pushes: int = QUEUED_PUSHES,
) -> AsyncConnection:
    """Connect to the running daemon of a workspace.

    Args:
        workspace: whose daemon.
        environ: where it may be met.
        product: this program's version of Fusion.
        client: which program this is.
        queued_pushes: see `QUEUED_PUSHES`.

    Raises:
        UnreachableError: none is running.
        RefusedError: what is there is not ours.
        UnsupportedError: it speaks another protocol.
    """
    wire = dial(workspace, environ)
    pid = peer_pid(wire)
    wire.setblocking(False)
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_unix_connection(lambda: AsyncConnection(queued_pushes), sock=wire)
    try:
        welcome = await connection.greet(product, client)
        check_daemon(welcome.protocol.major, welcome.path, workspace, pid)
    except BaseException:
        connection.close()
        raise
    return connection
