"""Conversations with the daemon over a real socket: order, errors, keys, versions."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fusiond.codec.packed import Plain
from fusiond.daemon.registry import Context, Handlers
from fusiond.domain.errors import (
    ConflictError,
    FusionError,
    NotFoundError,
    TryAgainError,
)
from fusiond.wire.methods import LOG_PAGE, PING, RUN_LIST, RUN_SHOW, RUN_SUBMIT, RUN_WHY
from fusiond.wire.params import LogPageParams, Nothing, RunListParams, RunParams, RunSubmitParams
from fusiond.wire.results import BodyPage, Pong, RunShown, RunWhy
from tests.fakes.daemon_parts import NOW_US, RUN, Desk, FedLedger, Served, new_workspace, served
from tests.fakes.raw_client import raw_client
from tests.waiting import eventually

SUBMIT = RunSubmitParams(flow="fusion.yaml")


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Served]:
    """A serving daemon with three steps in its ledger."""
    async with served(new_workspace(tmp_path), ledger=FedLedger(3)) as running:
        yield running


async def test_hello_says_what_and_where_the_daemon_is(daemon: Served) -> None:
    async with raw_client(daemon.address) as client:
        assert await client.greet() == {
            "type": "welcome",
            "product": "0.1.0",
            "protocol": {"major": 1, "minor": 0},
            "workspace": daemon.workspace.id,
            "path": daemon.workspace.root,
            "epoch": "epoch-1",
            "head": 3,
        }


async def test_calls_return_records(daemon: Served) -> None:
    connection = await daemon.connect()
    assert await connection.call(PING, Nothing()) == Pong(now_us=NOW_US)
    listed = await connection.call(RUN_LIST, RunListParams())
    assert (listed.epoch, listed.position) == ("epoch-1", 3)
    connection.close()


async def test_request_before_hello_is_refused_and_closes(daemon: Served) -> None:
    async with raw_client(daemon.address) as client:
        client.ask(1, "ping", {})
        heard = await client.hear_all()
    assert [(each["id"], each["code"]) for each in heard] == [(1, "invalid")]


async def test_second_hello_is_refused_and_the_session_goes_on(daemon: Served) -> None:
    async with raw_client(daemon.address, greeted=True) as client:
        client.send({"type": "hello", "product": "", "protocol": {"major": 1, "minor": 0}, "client": ""})
        client.ask(1, "ping", {})
        first, second = await client.hear(), await client.hear()
    assert first is not None
    assert second is not None
    assert (first["type"], first["code"]) == ("error", "invalid")
    assert second["type"] == "ok"


async def test_other_major_version_is_refused_with_both_named(daemon: Served) -> None:
    async with raw_client(daemon.address) as client:
        client.send({"type": "hello", "product": "9", "protocol": {"major": 2, "minor": 0}, "client": ""})
        (said,) = await client.hear_all()
    assert said["code"] == "unsupported"
    assert "speaks protocol 2; expected protocol 1" in str(said["message"])


@pytest.mark.parametrize(
    "method,params,code,said",
    [
        ("run.fly", {}, "unsupported", "unknown method 'run.fly'"),
        ("run.list", {"limit": 5, "colour": "red"}, "invalid", "colour"),
        ("run.list", {"limit": "5"}, "invalid", "limit"),
        ("run.list", {"limit": 0}, "invalid", "limit is 0"),
        ("run.show", {}, "invalid", "run"),
        ("run.show", {"run": "01h"}, "unsupported", "does not answer run.show"),
        ("run.submit", {"flow": "f"}, "invalid", "without a key"),
        ("unsubscribe", {"subscription": 9}, "not_found", "no subscription 9"),
        ("subscribe", {"from": 1}, "invalid", "from"),
    ],
)
async def test_wrong_request_is_answered_and_the_session_goes_on(
    daemon: Served, method: str, params: dict[str, Plain], code: str, said: str
) -> None:
    async with raw_client(daemon.address, greeted=True) as client:
        client.ask(7, method, params)
        answer = await client.hear()
        client.ask(8, "ping", {})
        after = await client.hear()
    assert answer is not None
    assert after is not None
    assert (answer["type"], answer["id"], answer["code"]) == ("error", 7, code)
    assert said in str(answer["message"])
    assert (after["type"], after["id"]) == ("ok", 8)


@pytest.mark.parametrize("method", ["ping", "subscribe"])
async def test_key_where_none_belongs_is_refused(daemon: Served, method: str) -> None:
    async with raw_client(daemon.address, greeted=True) as client:
        client.ask(1, method, {}, key="k")
        answer = await client.hear()
    assert answer is not None
    assert answer["code"] == "invalid"


async def test_requests_of_one_connection_run_side_by_side(tmp_path: Path) -> None:
    ledger, gate = FedLedger(), asyncio.Event()
    desk = Desk(ledger, before_submit=lambda _: gate_opened(gate))
    async with served(new_workspace(tmp_path), ledger=ledger, handlers=desk.handlers()) as daemon:
        connection = await daemon.connect()
        slow = asyncio.create_task(connection.call(RUN_SUBMIT, SUBMIT, key="k"))
        await connection.call(PING, Nothing())
        assert not slow.done()
        gate.set()
        assert (await slow).run == RUN


async def gate_opened(gate: asyncio.Event) -> None:
    """Wait for the gate."""
    await gate.wait()


async def test_id_under_way_is_not_taken_twice(tmp_path: Path) -> None:
    ledger, gate = FedLedger(), asyncio.Event()
    desk = Desk(ledger, before_submit=lambda _: gate_opened(gate))
    async with (
        served(new_workspace(tmp_path), ledger=ledger, handlers=desk.handlers()) as daemon,
        raw_client(daemon.address, greeted=True) as client,
    ):
        client.ask(1, "run.submit", {"flow": "f"}, key="k")
        client.ask(1, "ping", {})
        refused = await client.hear()
        gate.set()
        answered = await client.hear()
    assert refused is not None
    assert answered is not None
    assert "request 1 is under way" in str(refused["message"])
    assert answered["type"] == "ok"


async def test_more_requests_than_are_worked_on_at_once_are_all_answered(daemon: Served) -> None:
    async with raw_client(daemon.address, greeted=True) as client:
        for number in range(1, 2_001):
            client.ask(number, "ping", {})
        heard = [await client.hear() for _ in range(2_000)]
    assert sorted(int(str(each["id"])) for each in heard if each is not None) == list(range(1, 2_001))


class Failing:
    """Handlers that fail as the run's name says."""

    async def show(self, params: RunParams, _: Context) -> RunShown:
        raise {
            "1": NotFoundError("no run 1", cure="`fusion ls`", fields={"prefix": "1"}),
            "2": ConflictError("somebody was first"),
        }.get(params.run, RuntimeError("secret detail of the inside"))

    async def why(self, params: RunParams, _: Context) -> RunWhy:
        return RunWhy(run=RUN, headline="x" * 2_000_000)

    async def page(self, params: LogPageParams, _: Context) -> BodyPage:
        await asyncio.Event().wait()
        raise AssertionError("never")

    def handlers(self) -> Handlers:
        """Return the table."""
        handlers = Handlers()
        handlers.on(RUN_SHOW, self.show)
        handlers.on(RUN_WHY, self.why)
        handlers.on(LOG_PAGE, self.page)
        return handlers


@pytest.fixture
async def failing(tmp_path: Path) -> AsyncIterator[Served]:
    """A daemon whose handlers fail."""
    async with served(new_workspace(tmp_path), handlers=Failing().handlers(), request_us=200_000) as running:
        yield running


async def test_handlers_errors_arrive_as_what_they_were(failing: Served) -> None:
    connection = await failing.connect()
    with pytest.raises(NotFoundError) as missing:
        await connection.call(RUN_SHOW, RunParams(run="1"))
    assert missing.value.found == "no run 1; `fusion ls`"
    assert missing.value.fields == {"prefix": "1"}
    with pytest.raises(ConflictError):
        await connection.call(RUN_SHOW, RunParams(run="2"))


async def test_unforeseen_error_is_internal_logged_and_survived(
    failing: Served, caplog: pytest.LogCaptureFixture
) -> None:
    connection = await failing.connect()
    with pytest.raises(FusionError) as caught:
        await connection.call(RUN_SHOW, RunParams(run="3"))
    assert caught.value.code == "internal"
    assert "secret detail" not in caught.value.sentence()
    assert f"{NOW_US:x}" in caught.value.sentence()
    assert any(record.exc_info and "secret detail" in str(record.exc_info[1]) for record in caplog.records)
    with pytest.raises(NotFoundError):
        await connection.call(RUN_SHOW, RunParams(run="1"))


async def test_result_too_large_for_a_frame_is_an_error(failing: Served) -> None:
    connection = await failing.connect()
    with pytest.raises(FusionError):
        await connection.call(RUN_WHY, RunParams(run="1"))
    with pytest.raises(NotFoundError):
        await connection.call(RUN_SHOW, RunParams(run="1"))


async def test_request_that_takes_too_long_is_told_to_try_again(failing: Served) -> None:
    async with raw_client(failing.address, greeted=True) as client:
        client.ask(1, "log.page", {"run": "1", "node": "n", "attempt": 1, "what": "turn-1"})
        answer = await client.hear()
    assert answer is not None
    assert answer["code"] == "try_again"


async def test_same_key_is_one_act(tmp_path: Path) -> None:
    ledger = FedLedger()
    desk = Desk(ledger)
    async with served(new_workspace(tmp_path), ledger=ledger, handlers=desk.handlers()) as daemon:
        first, second = await daemon.connect(), await daemon.connect()
        one = await first.call(RUN_SUBMIT, SUBMIT, key="k1")
        assert await second.call(RUN_SUBMIT, SUBMIT, key="k1") == one
        assert len(desk.submitted) == 1
        with pytest.raises(ConflictError, match="other parameters"):
            await first.call(RUN_SUBMIT, RunSubmitParams(flow="other.yaml"), key="k1")
        await first.call(RUN_SUBMIT, SUBMIT, key="k2")
        assert len(desk.submitted) == 2


async def test_same_key_at_the_same_time_is_one_act(tmp_path: Path) -> None:
    ledger, gate = FedLedger(), asyncio.Event()
    desk = Desk(ledger, before_submit=lambda _: gate_opened(gate))
    async with served(new_workspace(tmp_path), ledger=ledger, handlers=desk.handlers()) as daemon:
        connections = [await daemon.connect() for _ in range(5)]
        calls = [asyncio.create_task(each.call(RUN_SUBMIT, SUBMIT, key="k")) for each in connections]
        await eventually(lambda: desk.asked == 1, "first submission")
        with pytest.raises(ConflictError):
            await connections[0].call(RUN_SUBMIT, RunSubmitParams(flow="other.yaml"), key="k")
        gate.set()
        assert len({(await call).run for call in calls}) == 1
        assert desk.submitted == ["fusion.yaml"]


async def test_mutation_goes_on_when_its_client_is_gone(tmp_path: Path) -> None:
    ledger, gate = FedLedger(), asyncio.Event()
    desk = Desk(ledger, before_submit=lambda _: gate_opened(gate))
    async with served(new_workspace(tmp_path), ledger=ledger, handlers=desk.handlers()) as daemon:
        async with raw_client(daemon.address, greeted=True) as client:
            client.ask(1, "run.submit", {"flow": "f"}, key="k")
            client.ask(2, "ping", {})
            await client.hear()
        await eventually(lambda: not daemon.server.open, "end of the connection")
        assert desk.submitted == []
        gate.set()
        await daemon.registry.settle()
        assert desk.submitted == ["f"]
        connection = await daemon.connect()
        assert (await connection.call(RUN_SUBMIT, RunSubmitParams(flow="f"), key="k")).run == RUN
        assert desk.submitted == ["f"]


async def test_failed_mutation_may_be_tried_again_with_its_key(tmp_path: Path) -> None:
    ledger, refusals = FedLedger(), [NotFoundError("no such flow"), None]

    async def refuse_once(_: RunSubmitParams) -> None:
        refusal = refusals.pop(0)
        if refusal is not None:
            raise refusal

    desk = Desk(ledger, before_submit=refuse_once)
    async with served(new_workspace(tmp_path), ledger=ledger, handlers=desk.handlers()) as daemon:
        connection = await daemon.connect()
        with pytest.raises(NotFoundError):
            await connection.call(RUN_SUBMIT, SUBMIT, key="k")
        assert (await connection.call(RUN_SUBMIT, SUBMIT, key="k")).run == RUN


async def test_newer_client_reads_but_does_not_change(daemon: Served) -> None:
    async with raw_client(daemon.address) as client:
        await client.greet(minor=1)
        client.ask(1, "run.list", {})
        client.ask(2, "run.submit", {"flow": "f"}, key="k")
        answers = {each["id"]: each for each in [await client.hear(), await client.hear()] if each}
    assert answers[1]["type"] == "ok"
    assert answers[2]["code"] == "unsupported"
    assert "fusion daemon stop" in str(answers[2]["message"])


async def test_stopping_daemon_answers_what_was_asked_and_begins_nothing(tmp_path: Path) -> None:
    ledger, gate = FedLedger(), asyncio.Event()
    desk = Desk(ledger, before_submit=lambda _: gate_opened(gate))
    async with served(new_workspace(tmp_path), ledger=ledger, handlers=desk.handlers()) as daemon:
        connection = await daemon.connect()
        under_way = asyncio.create_task(connection.call(RUN_SUBMIT, SUBMIT, key="k"))
        await connection.call(PING, Nothing())
        daemon.registry.refuse_mutations()
        with pytest.raises(TryAgainError, match="stopping"):
            await connection.call(RUN_SUBMIT, SUBMIT, key="k2")
        drained = asyncio.create_task(daemon.server.drain())
        gate.set()
        assert (await under_way).run == RUN
        await drained
        await connection.closed.wait()
