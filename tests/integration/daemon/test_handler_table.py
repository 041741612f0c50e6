"""The table of handlers and the kept results of keyed mutations."""

import pytest

from fusiond.daemon.registry import Context, Handlers, KeptResult, KeyedResultsInMemory
from fusiond.domain.digest import digest_bytes
from fusiond.wire.methods import METHODS, PING, STREAMING, SUBSCRIBE, Method
from fusiond.wire.params import Nothing, SubscribeParams
from fusiond.wire.results import Pong, Subscribed


async def ping(_: Nothing, context: Context) -> Pong:
    return Pong(now_us=context.now_us())


async def subscribe(_: SubscribeParams, context: Context) -> Subscribed:
    raise AssertionError("never called")


def test_table_says_what_nobody_answers() -> None:
    handlers = Handlers()
    assert set(handlers.missing()) == set(METHODS) - STREAMING
    handlers.on(PING, ping)
    assert "ping" not in handlers.missing()


def test_method_is_answered_by_one() -> None:
    handlers = Handlers()
    handlers.on(PING, ping)
    with pytest.raises(ValueError, match="ping"):
        handlers.on(PING, ping)


def test_streaming_and_unlisted_methods_are_not_for_handlers() -> None:
    with pytest.raises(ValueError, match="subscribe"):
        Handlers().on(SUBSCRIBE, subscribe)
    with pytest.raises(ValueError, match="ping2"):
        Handlers().on(Method(name="ping2", params=Nothing, result=Pong), ping)


def test_every_method_but_stopping_needs_a_key_to_change_something() -> None:
    assert {name for name, method in METHODS.items() if method.mutation != method.keyed} == {"daemon.stop"}


async def test_newest_results_are_kept() -> None:
    kept = KeyedResultsInMemory(limit=2)
    for key in ("a", "b", "c"):
        await kept.store("run.submit", key, KeptResult(asked=digest_bytes(b""), result=key.encode()))
    assert await kept.lookup("run.submit", "a") is None
    assert await kept.lookup("run.cancel", "c") is None
    found = await kept.lookup("run.submit", "c")
    assert found is not None
    assert found.result == b"c"
