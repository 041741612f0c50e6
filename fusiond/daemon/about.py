"""The methods of the daemon itself: ping, status, stop."""

import os
from collections.abc import Callable

from fusiond.daemon.lifecycle import StopRequest
from fusiond.daemon.registry import Context, Handlers
from fusiond.daemon.server import Server
from fusiond.wire.methods import DAEMON_STATUS, DAEMON_STOP, PING
from fusiond.wire.params import DaemonStopParams, Nothing
from fusiond.wire.results import DaemonStatus, Pong


class About:
    """Answers for the daemon.

    Args:
        stop: how to end it.
        started_us: since when it runs, UTC.
        facts: further lines for people.
    """

    def __init__(
        self, stop: StopRequest, started_us: int, facts: Callable[[], tuple[tuple[str, str], ...]]
    ) -> None:
        self._stop = stop
        self._started_us = started_us
        self._facts = facts
        self._server: Server | None = None

    def bind(self, handlers: Handlers) -> None:
        """Take the three methods."""
        handlers.on(PING, self.ping)
        handlers.on(DAEMON_STATUS, self.status)
        handlers.on(DAEMON_STOP, self.end)

    def serve(self, server: Server) -> None:
        """Know the server whose connections are counted."""
        self._server = server

    async def ping(self, _: Nothing, context: Context) -> Pong:
        """Answer with the time."""
        return Pong(now_us=context.now_us())

    async def status(self, _: Nothing, context: Context) -> DaemonStatus:
        """Say what the daemon is and does."""
        server = self._server
        assert server is not None, "requests come through a server"
        services = server.services
        return DaemonStatus(
            product=services.product,
            pid=os.getpid(),
            started_us=self._started_us,
            workspace=services.path,
            epoch=services.hub.epoch,
            position=services.hub.head,
            connections=len(server.open),
            subscriptions=server.subscriptions,
            draining=self._stop.asked,
            facts=self._facts(),
        )

    async def end(self, params: DaemonStopParams, context: Context) -> Nothing:
        """Ask for the end and answer; the connection closes when it comes."""
        self._stop.ask(f"asked by process {context.peer.pid}", drain=params.drain)
        return Nothing()
