"""Bytes that no client of ours would send: a clear error, and the daemon goes on serving."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusiond.domain.errors import InvalidError
from fusiond.wire.framing import frame
from fusiond.wire.limits import REQUEST_BYTES
from fusiond.wire.methods import PING
from fusiond.wire.params import Nothing
from tests.fakes.daemon_parts import Served, new_workspace, served
from tests.fakes.raw_client import raw_client

T = TypeVar("T")

EXAMPLES = 120

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
fields = st.dictionaries(
    st.sampled_from(["type", "id", "method", "params", "key", "product", "protocol", "client", "x"]),
    plain | st.sampled_from(["request", "hello", "ping", "subscribe", "run.submit"]),
)


def examples(strategy: st.SearchStrategy[T]) -> list[T]:
    """Return examples, for a test that plays all of them against one daemon in one loop."""
    found: list[T] = []

    @given(strategy)
    @settings(max_examples=EXAMPLES, database=None)
    def collect(example: T) -> None:
        found.append(example)

    collect()
    return found


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Served]:
    """A serving daemon."""
    async with served(new_workspace(tmp_path)) as running:
        yield running


async def check_serving(daemon: Served) -> None:
    """Ask the daemon something on a fresh connection."""
    connection = await daemon.connect()
    await connection.call(PING, Nothing())
    connection.close()


@pytest.mark.parametrize("greeted", [False, True])
@pytest.mark.parametrize(
    "data,code",
    [
        ((REQUEST_BYTES + 1).to_bytes(4, "big"), "too_large"),
        (b"GET / HTTP/1.1\r\n", "too_large"),
        (bytes(4), "invalid"),
        (b"\x00\x00\x00\x01\xc1", "invalid"),
        (b"\x00\x00\x00\x05\x82\xa0\x01\xa0\x02", "invalid"),
    ],
)
async def test_broken_frame_is_said_and_ends_the_connection(
    daemon: Served, data: bytes, code: str, *, greeted: bool
) -> None:
    async with raw_client(daemon.address, greeted=greeted) as client:
        client.say(data)
        (said,) = await client.hear_all()
    assert (said["id"], said["code"]) == (None, code)
    await check_serving(daemon)


async def test_what_came_before_a_broken_frame_is_answered(daemon: Served) -> None:
    async with raw_client(daemon.address, greeted=True) as client:
        client.say(frame({"type": "request", "id": 1, "method": "unsubscribe", "params": {}}) + bytes(4))
        first, second = await client.hear_all()
    assert (first["id"], second["id"]) == (1, None)


async def test_any_bytes_are_survived(daemon: Served) -> None:
    chunks = st.lists(st.binary(min_size=1, max_size=300), max_size=5)
    for given_chunks in examples(chunks):
        async with raw_client(daemon.address, greeted=bool(len(given_chunks) % 2)) as client:
            for chunk in given_chunks:
                client.say(chunk)
            client.writer.write_eof()
            assert all(said["type"] == "error" and said["message"] for said in await client.hear_all())
    await check_serving(daemon)


async def test_any_maps_in_good_frames_are_survived(daemon: Served) -> None:
    for message in examples(fields):
        async with raw_client(daemon.address, greeted=True) as client:
            client.say(framed(message))
            client.writer.write_eof()
            await client.hear_all()
    await check_serving(daemon)


def framed(message: Mapping[str, object]) -> bytes:
    """Return a frame; nothing for a map that msgpack cannot hold."""
    try:
        return frame(message)
    except InvalidError:
        return b""
