"""One client's session: hello, requests, subscriptions, and errors it can act on.

Owns what a connection means. Bytes, peers and flow control are
`daemon.server`; methods are handlers behind `daemon.registry`.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Protocol

from fusiond.codec.packed import Plain
from fusiond.codec.records import structure, unstructure
from fusiond.daemon.logs import fields
from fusiond.daemon.output_follow import OutputFollow, OutputStreams
from fusiond.daemon.registry import Context, Peer, Registry
from fusiond.daemon.subscriptions import Outlet, StepHub, StepSubscription
from fusiond.domain.errors import FusionError, InvalidError, NotFoundError, TooLargeError, TryAgainError
from fusiond.domain.ids import TenantId, WorkspaceId
from fusiond.domain.records import dataclass
from fusiond.wire import envelope
from fusiond.wire.faults import fault
from fusiond.wire.framing import frame
from fusiond.wire.limits import REQUEST_US
from fusiond.wire.messages import (
    Hello,
    HelloReply,
    ProtocolVersion,
    Request,
    StatePush,
    StreamState,
    packed_push,
    read_from_client,
    welcome_message,
)
from fusiond.wire.methods import OUTPUT_FOLLOW, STREAMING, SUBSCRIBE
from fusiond.wire.params import Nothing, OutputFollowParams, SubscribeParams, UnsubscribeParams
from fusiond.wire.results import Following, Subscribed
from fusiond.wire.version import check_major

IN_FLIGHT = 32
"""Requests under way on one connection; more wait unread."""

SUBSCRIPTIONS = 32

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What every session of the daemon shares.

    Args:
        product: the daemon's version of Fusion.
        workspace: its id.
        path: its real path.
        tenant: the configured one.
        now_us: UTC wall clock.
        registry: performs requests.
        hub: the ledger's tail.
        outputs: output of attempts.
        request_us: how long a request may take.
    """

    product: str
    workspace: WorkspaceId
    path: str
    tenant: TenantId
    now_us: Callable[[], int]
    registry: Registry
    hub: StepHub
    outputs: OutputStreams
    request_us: int = REQUEST_US


class Link(Outlet, Protocol):
    """The way to the client, and its end."""

    def close(self) -> None:
        """Send what is queued, then close."""
        ...

    def relieved(self) -> None:
        """The session can take messages again."""
        ...


class Session:
    """The conversation on one connection.

    Args:
        services: shared by all sessions.
        link: the way to the client.
        peer: who the client is.
    """

    def __init__(self, services: Services, link: Link, peer: Peer) -> None:
        self._services = services
        self._link = link
        self._peer = peer
        self._hello: Hello | None = None
        self._requests: dict[int, asyncio.Task[None]] = {}
        self._subscriptions: dict[int, asyncio.Task[None]] = {}
        self._next_subscription = 1
        self._draining = False

    @property
    def greeted(self) -> bool:
        """Whether the client has said hello."""
        return self._hello is not None

    @property
    def saturated(self) -> bool:
        """Whether enough requests are under way for no more to be read."""
        return len(self._requests) >= IN_FLIGHT

    @property
    def subscriptions(self) -> int:
        """How many subscriptions there are."""
        return len(self._subscriptions)

    def receive(self, message: dict[str, Plain]) -> None:
        """Take one message. Never raises for what a client sent."""
        number = message.get("id")
        try:
            parsed = read_from_client(message)
            if isinstance(parsed, Hello):
                self._greet(parsed)
            else:
                self._start(parsed)
        except FusionError as error:
            self._link.send(frame(fault(number if type(number) is int else None, error)))
            if self._hello is None:
                self._link.close()

    def refuse(self, error: FusionError) -> None:
        """Say what is wrong with the connection as a whole, and close it."""
        self._link.send(frame(fault(None, error)))
        self._link.close()

    def lost(self) -> None:
        """The connection is gone: nobody waits for reads or pushes any more."""
        for task in (*self._requests.values(), *self._subscriptions.values()):
            task.cancel()

    async def drain(self) -> None:
        """Answer what was asked, refuse what comes now, then close."""
        self._draining = True
        ended = list(self._subscriptions)
        for task in self._subscriptions.values():
            task.cancel()
        if self._requests:
            await asyncio.wait(list(self._requests.values()))
        for number in ended:
            self._say_ended(number, StreamState.ENDED, "the daemon stops")
        self._link.close()

    def _greet(self, hello: Hello) -> None:
        if self._hello is not None:
            raise InvalidError("hello came twice", expected="one hello, first")
        check_major(
            hello.protocol.major, "this client", "use the client and the daemon of one version of fusion"
        )
        self._hello = hello
        services = self._services
        reply = HelloReply(
            product=services.product,
            protocol=ProtocolVersion(),
            workspace=services.workspace,
            path=services.path,
            epoch=services.hub.epoch,
            head=services.hub.head,
        )
        self._link.send(frame(welcome_message(reply)))

    def _start(self, request: Request) -> None:
        if self._hello is None:
            raise InvalidError("a request before hello", expected="hello first")
        if request.id in self._requests:
            raise InvalidError(f"request {request.id} is under way", expected="an id that is not in use")
        if self._draining:
            raise TryAgainError("the daemon is stopping", cure="ask again in a moment")
        if request.method in STREAMING:
            # At once and in order: the reply must come before the first push.
            self._reply(request.id, self._stream(request))
            return
        context = Context(
            peer=self._peer,
            client=self._hello.client,
            tenant=self._services.tenant,
            now_us=self._services.now_us,
        )
        work = self._answer(request, self._hello.protocol.minor, context)
        task = asyncio.create_task(work)
        self._requests[request.id] = task
        task.add_done_callback(lambda _: self._answered(request.id))

    def _answered(self, number: int) -> None:
        del self._requests[number]
        self._link.relieved()

    async def _answer(self, request: Request, minor: int, context: Context) -> None:
        try:
            async with asyncio.timeout(self._services.request_us / 1e6):
                result = await self._services.registry.perform(request, minor, context)
            self._reply(request.id, result)
        except TimeoutError:
            self._fail(request, _too_slow(request, self._services.request_us))
        except FusionError as error:
            self._fail(request, error)
        except Exception as error:
            # The boundary of handlers: what they did not foresee ends the request, not the daemon.
            self._fail(request, self._incident(request, error))

    def _reply(self, number: int, result: dict[str, object]) -> None:
        self._link.send(frame({"type": envelope.OK, "id": number, "result": result}))

    def _fail(self, request: Request, error: FusionError) -> None:
        self._link.send(frame(fault(request.id, error)))

    def _incident(self, request: Request, error: Exception) -> FusionError:
        incident = f"{self._services.now_us():x}"
        log.error("request failed", exc_info=error, extra=fields(method=request.method, incident=incident))
        return FusionError(
            f"internal error while answering {request.method}",
            cure=f"look for incident {incident} in `fusion daemon logs`",
            fields={"incident": incident},
        )

    def _stream(self, request: Request) -> dict[str, object]:
        if request.key is not None:
            raise InvalidError(f"{request.method} with a key", expected="no key")
        if request.method == SUBSCRIBE.name:
            return self._subscribe(structure(SubscribeParams, request.params, strict=True))
        if request.method == OUTPUT_FOLLOW.name:
            return self._follow(structure(OutputFollowParams, request.params, strict=True))
        return self._unsubscribe(structure(UnsubscribeParams, request.params, strict=True))

    def _subscribe(self, params: SubscribeParams) -> dict[str, object]:
        hub = self._services.hub
        number = self._number()
        self._push_in_background(number, StepSubscription(hub, self._link, number, params).run())
        return dict(unstructure(Subscribed(subscription=number, epoch=hub.epoch, position=hub.head)))

    def _follow(self, params: OutputFollowParams) -> dict[str, object]:
        number = self._number()
        follow = OutputFollow(self._services.outputs, self._link, number, params)
        self._push_in_background(number, follow.run())
        return dict(unstructure(Following(subscription=number)))

    def _unsubscribe(self, params: UnsubscribeParams) -> dict[str, object]:
        task = self._subscriptions.get(params.subscription)
        if task is None:
            raise NotFoundError(f"no subscription {params.subscription} on this connection")
        task.cancel()
        return dict(unstructure(Nothing()))

    def _number(self) -> int:
        if len(self._subscriptions) >= SUBSCRIPTIONS:
            raise TooLargeError(
                f"{SUBSCRIPTIONS} subscriptions on one connection", expected="fewer", cure="end one"
            )
        number = self._next_subscription
        self._next_subscription += 1
        return number

    def _push_in_background(self, number: int, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(self._push(number, work))
        self._subscriptions[number] = task
        task.add_done_callback(lambda _: self._subscriptions.pop(number))

    async def _push(self, number: int, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except FusionError as error:
            self._say_ended(number, StreamState.FAILED, error.sentence())
        except Exception:
            # The boundary of subscriptions: one that fails ends alone.
            log.exception("subscription failed", extra=fields(subscription=number))
            self._say_ended(number, StreamState.FAILED, "internal error; see `fusion daemon logs`")

    def _say_ended(self, number: int, state: StreamState, detail: str) -> None:
        push = StatePush(state=state, position=self._services.hub.head, detail=detail)
        self._link.send(packed_push(push).framed(number))


def _too_slow(request: Request, limit_us: int) -> FusionError:
    return TryAgainError(
        f"{request.method} took longer than {limit_us // 1_000_000} s",
        state="a mutation goes on",
        cure="ask again; a mutation with the same key",
    )
