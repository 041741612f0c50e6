"""A client that says what it likes: bytes, half messages, nothing at all."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from fusiond.codec.packed import Plain
from fusiond.wire import envelope
from fusiond.wire.framing import FrameDecoder, frame
from tests.waiting import DEADLINE_S


class RawClient:
    """One connection without manners of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._decoder = FrameDecoder()
        self.writer = writer

    def say(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)

    def send(self, message: Mapping[str, object]) -> None:
        """Send one message."""
        self.say(frame(message))

    def ask(self, number: int, method: str, params: Mapping[str, object], key: str | None = None) -> None:
        """Send a request."""
        self.send(envelope.request(number, method, params, key))

    async def hear(self) -> dict[str, Plain] | None:
        """Return the next message, None when the daemon has closed the connection."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                message = self._decoder.next()
                if message is not None:
                    return message
                try:
                    data = await self._reader.read(65_536)
                except ConnectionError:
                    return None
                if not data:
                    return None
                self._decoder.feed(data)

    async def hear_all(self) -> list[dict[str, Plain]]:
        """Return everything until the daemon closes the connection."""
        found = []
        while (message := await self.hear()) is not None:
            found.append(message)
        return found

    async def greet(self, *, minor: int = 0) -> dict[str, Plain]:
        """Say hello and return the welcome."""
        self.send({**envelope.hello("0.1.0", "raw"), "protocol": {"major": 1, "minor": minor}})
        welcome = await self.hear()
        assert welcome is not None
        assert welcome["type"] == envelope.WELCOME
        return welcome


@asynccontextmanager
async def raw_client(address: str, *, greeted: bool = False) -> AsyncIterator[RawClient]:
    """Connect to a socket."""
    reader, writer = await asyncio.open_unix_connection(address)
    client = RawClient(reader, writer)
    try:
        if greeted:
            await client.greet()
        yield client
    finally:
        writer.transport.abort()
