"""Methods to handlers: who answers what, and how a mutation happens once.

Owns the way from a plain request to a plain result: the parameters' record,
the rules for mutations, the key that makes a repeated request one act. Owns
no connection (`daemon.session`) and no method's meaning (`daemon.handlers`).
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol, TypeVar

from fusiond.codec.packed import pack, unpack
from fusiond.codec.records import structure, unstructure
from fusiond.daemon.logs import fields
from fusiond.domain.digest import Digest, digest_bytes
from fusiond.domain.errors import ConflictError, FusionError, InvalidError, TryAgainError, UnsupportedError
from fusiond.domain.ids import TenantId
from fusiond.domain.records import dataclass
from fusiond.wire.messages import Request
from fusiond.wire.methods import METHODS, STREAMING, Method
from fusiond.wire.version import check_mutation

P = TypeVar("P")
R = TypeVar("R")

KEPT_RESULTS = 4_096

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Who is at the other end, as the kernel says.

    `pidfd` names the process without a race; None where the kernel has none. It is open
    as long as the connection is, so a handler looks at it before it first awaits.
    """

    uid: int
    pid: int
    pidfd: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a handler knows beside its parameters.

    Args:
        peer: who asks.
        client: which program says it asks; untrusted.
        tenant: the configured one, for parameters that name none.
        now_us: UTC wall clock.
        key: the client-made key of a mutation, for handlers that keep it in the ledger.
    """

    peer: Peer
    client: str
    tenant: TenantId
    now_us: Callable[[], int]
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResult:
    """What a mutation with a key did: the digest of its parameters, the packed result."""

    asked: Digest
    result: bytes


class KeyedResults(Protocol):
    """Results of mutations by method and key, for requests that come again."""

    async def lookup(self, method: str, key: str) -> KeptResult | None:
        """Return what is kept; None when nothing is."""
        ...

    async def store(self, method: str, key: str, kept: KeptResult) -> None:
        """Keep a result, durably where the implementation promises it."""
        ...


class KeyedResultsInMemory:
    """Keeps the newest results as long as the daemon lives."""

    def __init__(self, limit: int = KEPT_RESULTS) -> None:
        self._limit = limit
        self._kept: OrderedDict[tuple[str, str], KeptResult] = OrderedDict()

    async def lookup(self, method: str, key: str) -> KeptResult | None:
        return self._kept.get((method, key))

    async def store(self, method: str, key: str, kept: KeptResult) -> None:
        self._kept[method, key] = kept
        if len(self._kept) > self._limit:
            self._kept.popitem(last=False)


class Handlers:
    """The table of handlers: `handlers.on(RUN_SHOW, show_run)`."""

    def __init__(self) -> None:
        self._by_name: dict[str, Callable[[object, Context], Awaitable[object]]] = {}

    def on(self, method: Method[P, R], handler: Callable[[P, Context], Awaitable[R]]) -> None:
        """Let `handler` answer `method`. ValueError when it is taken or not for handlers."""
        if method.name in self._by_name or method.name in STREAMING or method.name not in METHODS:
            raise ValueError(f"{method.name} has a handler or takes none")
        wanted = method.params

        async def checked(params: object, context: Context) -> object:
            assert isinstance(params, wanted)
            return await handler(params, context)

        self._by_name[method.name] = checked

    def missing(self) -> tuple[str, ...]:
        """Return the methods that nobody answers."""
        return tuple(name for name in METHODS if name not in self._by_name and name not in STREAMING)

    async def call(self, name: str, params: object, context: Context) -> object:
        """Call the handler of a method. UnsupportedError when there is none."""
        handler = self._by_name.get(name)
        if handler is None:
            raise UnsupportedError(f"this daemon does not answer {name}")
        return await handler(params, context)


def method_of(request: Request) -> Method[object, object]:
    """Return the method that a request names. UnsupportedError for an unknown one."""
    try:
        return METHODS[request.method]
    except KeyError:
        raise UnsupportedError(
            f"unknown method {request.method!r}",
            expected="a method of this daemon's version",
            cure="if the client is newer, stop the daemon with `fusion daemon stop`",
        ) from None


class Registry:
    """Performs requests."""

    def __init__(self, handlers: Handlers, keyed: KeyedResults) -> None:
        self._handlers = handlers
        self._keyed = keyed
        self._under_way: dict[tuple[str, str], tuple[Digest, asyncio.Task[dict[str, object]]]] = {}
        self._refusing = False

    def refuse_mutations(self) -> None:
        """Begin no further mutation: the daemon is stopping."""
        self._refusing = True

    async def perform(self, request: Request, client_minor: int, context: Context) -> dict[str, object]:
        """Return the plain result of a request.

        A mutation goes on to its end even if nobody waits for it any more.

        Raises:
            FusionError: the request is wrong, or the handler said no.
        """
        method = method_of(request)
        if method.mutation and method.keyed:
            check_mutation(client_minor)
        params = structure(method.params, request.params, strict=True)
        if not method.keyed:
            if request.key is not None:
                raise InvalidError(f"{method.name} with a key", expected="no key")
            return dict(unstructure(await self._handlers.call(method.name, params, context)))
        if request.key is None:
            raise InvalidError(f"{method.name} without a key", expected="a key made by the client")
        if self._refusing:
            raise TryAgainError("the daemon is stopping", cure="ask again in a moment, with the same key")
        return await self._once(method.name, request.key, params, context)

    async def settle(self) -> None:
        """Wait until no mutation is under way."""
        while self._under_way:
            await asyncio.wait([task for _, task in self._under_way.values()])

    async def _once(self, name: str, key: str, params: object, context: Context) -> dict[str, object]:
        asked = digest_bytes(pack(unstructure(params)))
        earlier = self._under_way.get((name, key))
        if earlier is None:
            task = asyncio.create_task(self._act(name, key, asked, params, context))
            self._under_way[name, key] = (asked, task)
            task.add_done_callback(lambda done: self._done(name, key, done))
        else:
            _check_same(name, earlier[0], asked)
            task = earlier[1]
        return await asyncio.shield(task)

    async def _act(
        self, name: str, key: str, asked: Digest, params: object, context: Context
    ) -> dict[str, object]:
        kept = await self._keyed.lookup(name, key)
        if kept is not None:
            _check_same(name, kept.asked, asked)
            return dict(unpack(kept.result))
        result = unstructure(await self._handlers.call(name, params, replace(context, key=key)))
        await self._keyed.store(name, key, KeptResult(asked=asked, result=pack(result)))
        return dict(result)

    def _done(self, name: str, key: str, task: asyncio.Task[dict[str, object]]) -> None:
        del self._under_way[name, key]
        error = None if task.cancelled() else task.exception()
        # Whoever asked may be gone; what went wrong must not be.
        if error is not None and not isinstance(error, FusionError):
            log.error("mutation failed", exc_info=error, extra=fields(method=name))


def _check_same(name: str, first: Digest, asked: Digest) -> None:
    if first != asked:
        raise ConflictError(
            f"the key of this {name} was used with other parameters",
            expected="a key of its own for every act",
            cure="ask again with a new key",
        )
