"""The control socket's server: connections, peers, bytes, flow control.

Owns who may connect, how much is read from and queued for each client, and
the orderly end. A client that does not read holds back only its own: its
requests are not read any more, its subscriptions wait, and in the end it is
disconnected. What messages mean is `daemon.session`.
"""

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Callable

from fusiond.daemon.logs import fields
from fusiond.daemon.registry import Peer
from fusiond.daemon.session import Services, Session
from fusiond.domain.errors import FusionError, RefusedError, TryAgainError
from fusiond.wire.faults import fault
from fusiond.wire.framing import FrameDecoder, frame
from fusiond.wire.limits import HELLO_US, REQUEST_BYTES

CONNECTIONS = 256
HIGH_WATER_BYTES = 256 * 1024
"""Bytes queued for a client above which it counts as slow."""

STALL_US = 60_000_000
"""How long a client may take nothing before it is disconnected; it can come back and resume."""

SO_PEERPIDFD = 77
"""asm-generic/socket.h; Linux 6.5. Not yet in Python's socket module."""

_CREDENTIALS = struct.Struct("3i")

log = logging.getLogger(__name__)


def peer_of(wire: socket.socket) -> Peer:
    """Return who is connected, from the kernel: SO_PEERCRED and, where there is one, a pidfd."""
    raw = wire.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    try:
        pidfd = wire.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError:
        # An older kernel, or a peer that is gone already.
        pidfd = None
    return Peer(uid=uid, pid=pid, pidfd=pidfd)


class Server:
    """All connections of the daemon.

    Args:
        services: what sessions share.
        connections: how many may be open at once.
        hello_us: how long a connection may take to say hello.
        stall_us: how long a client may take nothing.
        owner: the only user whose processes may connect.
    """

    def __init__(
        self,
        services: Services,
        *,
        connections: int = CONNECTIONS,
        hello_us: int = HELLO_US,
        stall_us: int = STALL_US,
        owner: int | None = None,
    ) -> None:
        self.services = services
        self.limit = connections
        self.hello_s = hello_us / 1e6
        self.stall_s = stall_us / 1e6
        self.owner = os.geteuid() if owner is None else owner
        self.open: set[ClientConnection] = set()
        self._empty = asyncio.Event()
        self._listener: asyncio.Server | None = None

    @property
    def subscriptions(self) -> int:
        """How many subscriptions there are over all connections."""
        return sum(each.session.subscriptions for each in self.open if each.session is not None)

    async def start(self, listening: socket.socket) -> None:
        """Take connections on a bound, listening socket, which is closed at the end."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_unix_server(lambda: ClientConnection(self), sock=listening)

    async def drain(self) -> None:
        """Take no more connections, answer what was asked, tell subscribers, close."""
        if self._listener is not None:
            self._listener.close()
        sessions = [each.session for each in self.open if each.session is not None]
        if sessions:
            await asyncio.gather(*(session.drain() for session in sessions))

    async def close(self) -> None:
        """Cut every connection."""
        if self._listener is not None:
            self._listener.close()
        for each in list(self.open):
            each.abort()
        if self.open:
            await self._empty.wait()

    def admit(self, connection: "ClientConnection") -> None:
        """Count a connection."""
        self.open.add(connection)
        self._empty.clear()

    def forget(self, connection: "ClientConnection") -> None:
        """Count it no more."""
        self.open.discard(connection)
        if not self.open:
            self._empty.set()


class ClientConnection(asyncio.Protocol):
    """One accepted connection. Made by the server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._decoder = FrameDecoder(REQUEST_BYTES)
        self._transport: asyncio.Transport | None = None
        self._peer: Peer | None = None
        self._queued: list[bytes] = []
        self._writable = asyncio.Event()
        self._writable.set()
        self._reading = True
        self._closing = False
        self._deadline: asyncio.TimerHandle | None = None
        self.session: Session | None = None

    # --- called by the event loop -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit or refuse the peer."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        peer = self._peer = peer_of(transport.get_extra_info("socket"))
        self._server.admit(self)
        if peer.uid != self._server.owner:
            self._turn_away(RefusedError(f"user {peer.uid} may not use this daemon", expected="its own user"))
        elif len(self._server.open) > self._server.limit:
            self._turn_away(TryAgainError(f"{self._server.limit} connections are open", cure="close some"))
        else:
            self.session = Session(self._server.services, self, peer)
            self._set_deadline(self._server.hello_s, self._no_hello)

    def data_received(self, data: bytes) -> None:
        """Take bytes."""
        if self._closing or self.session is None:
            return
        self._decoder.feed(data)
        self._take_messages(self.session)

    def eof_received(self) -> bool:
        """Close when the client has closed its side: nobody half-closes this protocol."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._server.forget(self)
        self._closing = True
        self._clear_deadline()
        # Whoever waits to write is cancelled by its session.
        if self.session is not None:
            self.session.lost()
        if self._peer is not None and self._peer.pidfd is not None:
            os.close(self._peer.pidfd)

    def pause_writing(self) -> None:
        """The client takes less than it is sent."""
        self._writable.clear()
        self._regulate_reading()
        self._set_deadline(self._server.stall_s, self._stalled)

    def resume_writing(self) -> None:
        """The client has taken what was queued."""
        self._writable.set()
        self._clear_deadline()
        self.relieved()

    # --- called by the session --------------------------------------------------------------------

    def send(self, frame: bytes) -> None:
        """Queue a frame; everything of one turn of the loop is written at once."""
        if self._closing:
            return
        if not self._queued:
            asyncio.get_running_loop().call_soon(self._flush)
        self._queued.append(frame)

    async def drained(self) -> None:
        """Wait until the client has taken enough."""
        self._flush()
        await self._writable.wait()

    def relieved(self) -> None:
        """Read on, if reading was held back."""
        if self.session is not None and not self._reading and not self._closing:
            self._take_messages(self.session)

    def close(self) -> None:
        """Write what is queued, then close."""
        self._flush()
        self._closing = True
        self._clear_deadline()
        if self._transport is not None:
            self._transport.close()
            # A client that does not read would keep a closing transport for ever.
            self._set_deadline(self._server.stall_s, self.abort)

    def abort(self) -> None:
        """Close at once."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    # --- inside -----------------------------------------------------------------------------------

    def _take_messages(self, session: Session) -> None:
        try:
            while self._may_read(session) and (message := self._decoder.next()) is not None:
                greeted = session.greeted
                session.receive(message)
                if session.greeted and not greeted:
                    self._clear_deadline()
        except FusionError as error:
            log.info("frame refused", extra=fields(reason=error.found, pid=self._pid()))
            session.refuse(error)
        self._regulate_reading()

    def _may_read(self, session: Session) -> bool:
        return not self._closing and not session.saturated and self._writable.is_set()

    def _regulate_reading(self) -> None:
        if self._transport is None or self._closing or self.session is None:
            return
        wanted = self._may_read(self.session)
        if wanted and not self._reading:
            self._transport.resume_reading()
        elif not wanted and self._reading:
            self._transport.pause_reading()
        self._reading = wanted

    def _flush(self) -> None:
        if self._queued and self._transport is not None:
            data = b"".join(self._queued)
            self._queued.clear()
            self._transport.write(data)

    def _turn_away(self, error: FusionError) -> None:
        log.warning("connection refused", extra=fields(reason=error.found, pid=self._pid()))
        assert self._transport is not None
        self._transport.write(frame(fault(None, error)))
        self.close()

    def _set_deadline(self, seconds: float, act: Callable[[], None]) -> None:
        self._clear_deadline()
        self._deadline = asyncio.get_running_loop().call_later(seconds, act)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _no_hello(self) -> None:
        if self.session is not None:
            self.session.refuse(TryAgainError(f"no hello within {self._server.hello_s:g} s"))

    def _stalled(self) -> None:
        log.warning("client reads nothing; disconnected", extra=fields(pid=self._pid()))
        self.abort()

    def _pid(self) -> int:
        return self._peer.pid if self._peer is not None else 0
