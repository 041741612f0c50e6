"""Who may connect, how many, how long they may be silent, and what a client that reads nothing costs."""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from fusiond.client.blocking import peer_pid
from fusiond.domain.errors import RefusedError, TryAgainError
from fusiond.wire.methods import LOG_PAGE, PING
from fusiond.wire.params import Nothing, SubscribeParams
from fusiond.wire.results import BodyPage
from tests.fakes.daemon_parts import Desk, FedLedger, Served, new_workspace, served
from tests.fakes.pushes import Pushes
from tests.fakes.raw_client import RawClient, raw_client
from tests.waiting import eventually

NOBODY = 65_534


async def test_the_peer_is_known_from_the_kernel(tmp_path: Path) -> None:
    async with served(new_workspace(tmp_path)) as daemon, raw_client(daemon.address, greeted=True):
        (connection,) = daemon.server.open
        assert connection._peer is not None
        assert (connection._peer.uid, connection._peer.pid) == (os.geteuid(), os.getpid())
        pidfd = connection._peer.pidfd
        assert pidfd is None or os.get_inheritable(pidfd) is False
    await eventually(lambda: not daemon.server.open, "end of the connection")
    if pidfd is not None:
        with pytest.raises(OSError):
            os.fstat(pidfd)


async def test_another_users_process_is_refused(tmp_path: Path) -> None:
    async with (
        served(new_workspace(tmp_path), owner=os.geteuid() + 1) as daemon,
        raw_client(daemon.address) as client,
    ):
        (said,) = await client.hear_all()
        assert (said["code"], said["id"]) == ("refused", None)
        assert f"user {os.geteuid()} may not use this daemon" in str(said["message"])


def start_as_another_user(act: Callable[[], int]) -> int:
    """Run `act` in a child process of another user and return the child's pid; `act` is its exit code.

    Only root can become somebody else; for everybody else the child stays who it is.
    """
    child = os.fork()
    if child == 0:
        code = 99
        try:
            if os.geteuid() == 0:
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
            code = act()
        finally:
            os._exit(code)
    return child


async def test_a_real_other_user_is_refused_even_with_the_directory_open(tmp_path: Path) -> None:
    async with served(new_workspace(tmp_path)) as daemon:
        runtime = Path(os.environ["XDG_RUNTIME_DIR"], "fusion", daemon.workspace.id)
        # The directory would keep the other user out; a descriptor of it lets the socket be tried.
        directory = os.open(runtime, os.O_RDONLY)
        runtime.chmod(0o711)
        (runtime / "control.sock").chmod(0o666)

        def dial() -> int:
            with socket.socket(socket.AF_UNIX) as wire:
                wire.settimeout(10)
                wire.connect(f"/proc/self/fd/{directory}/control.sock")
                with suppress(BrokenPipeError):
                    wire.sendall(b"\x00\x00\x00\x01\xc1")
                return int(b"may not use this daemon" in wire.recv(4_096))

        child = start_as_another_user(dial)
        ended: list[int] = []

        def look() -> bool:
            pid, status = os.waitpid(child, os.WNOHANG)
            ended.extend([os.waitstatus_to_exitcode(status)] if pid else [])
            return bool(ended)

        await eventually(look, "end of the other user's process")
        os.close(directory)
        runtime.chmod(0o700)
        assert ended == [int(os.geteuid() == 0)]


def test_client_refuses_a_daemon_of_another_user() -> None:
    address = Path(os.environ["XDG_RUNTIME_DIR"], "other.sock")
    with socket.socket(socket.AF_UNIX) as bound, socket.socket(socket.AF_UNIX) as client:
        bound.bind(str(address))

        def listen() -> int:
            bound.listen()
            return 0

        # The kernel's answer is who listened, not who bound.
        child = start_as_another_user(listen)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        client.connect(str(address))
        if os.geteuid() == 0:
            with pytest.raises(RefusedError, match=f"user {NOBODY}"):
                peer_pid(client)
        else:
            assert peer_pid(client) == child
    address.unlink()


async def test_connections_over_the_limit_are_told_and_closed(tmp_path: Path) -> None:
    async with served(new_workspace(tmp_path), connections=3) as daemon:
        kept = [await daemon.connect() for _ in range(3)]
        with pytest.raises(TryAgainError, match="3 connections are open"):
            await daemon.connect()
        await kept[0].call(PING, Nothing())
        kept[1].close()
        await eventually(lambda: len(daemon.server.open) == 2, "a free place")
        await (await daemon.connect()).call(PING, Nothing())


@pytest.mark.parametrize("sent", [b"", b"\x00\x00", b"\x00\x00\x00\x09\x82"])
async def test_half_a_hello_is_not_waited_for(tmp_path: Path, sent: bytes) -> None:
    async with served(new_workspace(tmp_path), hello_us=50_000) as daemon:
        async with raw_client(daemon.address) as client:
            client.say(sent)
            (said,) = await client.hear_all()
            assert said["code"] == "try_again"
            assert "no hello" in str(said["message"])
        await (await daemon.connect()).call(PING, Nothing())


async def test_after_hello_silence_is_allowed(tmp_path: Path) -> None:
    async with served(new_workspace(tmp_path), hello_us=50_000) as daemon:
        quiet = await daemon.connect()
        async with raw_client(daemon.address) as never_says_hello:
            await never_says_hello.hear_all()
        await quiet.call(PING, Nothing())


async def test_a_hundred_clients_all_get_everything(tmp_path: Path) -> None:
    async with served(new_workspace(tmp_path)) as daemon:
        connections = [await daemon.connect() for _ in range(100)]
        readers = [Pushes((await each.subscribe(SubscribeParams()))[1]) for each in connections]
        daemon.append(50)
        for reader in readers:
            assert await reader.steps(50) == list(range(1, 51))
        answers = await asyncio.gather(*(each.call(PING, Nothing()) for each in connections))
        assert len(answers) == 100
        # One read serves them all, not one each.
        assert len(daemon.ledger.reads) < 20


async def test_client_that_never_reads_delays_nobody_and_costs_little(tmp_path: Path) -> None:
    async with served(new_workspace(tmp_path)) as daemon, raw_client(daemon.address) as deaf:
        await deaf.greet()
        deaf.ask(1, "subscribe", {})
        await eventually(lambda: daemon.server.subscriptions == 1, "subscription")
        pause_reading(deaf)
        connection = await daemon.connect()
        reader = Pushes((await connection.subscribe(SubscribeParams()))[1])
        for _ in range(6):
            daemon.append(1_000)
            await reader.steps(1_000)
        (held,) = (each for each in daemon.server.open if each._writable.is_set() is False)
        assert held._transport is not None
        assert held._transport.get_write_buffer_size() < 2 * 1024 * 1024
        assert held._queued == []


async def test_requests_of_a_client_that_never_reads_are_not_piled_up(tmp_path: Path) -> None:
    ledger = FedLedger()
    desk = Desk(ledger)
    handlers = desk.handlers()
    answered = 0

    async def page(*_: object) -> BodyPage:
        nonlocal answered
        answered += 1
        return BodyPage(offset=0, total=0, data=bytes(100_000))

    handlers.on(LOG_PAGE, page)
    async with (
        served(new_workspace(tmp_path), ledger=ledger, handlers=handlers) as daemon,
        raw_client(daemon.address, greeted=True) as deaf,
    ):
        pause_reading(deaf)
        for number in range(1, 1_001):
            deaf.ask(number, "log.page", {"run": "0", "node": "n", "attempt": 1, "what": "turn-1"})
        await eventually(lambda: is_slow(daemon), "full buffers")
        other = await daemon.connect()
        for _ in range(20):
            await other.call(PING, Nothing())
        assert answered < 100
        resume_reading(deaf)
        for _ in range(1_000):
            assert await deaf.hear() is not None
        assert answered == 1_000


async def test_client_that_takes_nothing_for_too_long_is_disconnected(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        served(new_workspace(tmp_path), ledger=FedLedger(6_000), stall_us=100_000) as daemon,
        raw_client(daemon.address, greeted=True) as deaf,
    ):
        pause_reading(deaf)
        deaf.ask(1, "subscribe", {})
        await eventually(lambda: not daemon.server.open, "end of the connection")
        assert "reads nothing" in caplog.text
        await (await daemon.connect()).call(PING, Nothing())


async def test_closing_connection_whose_client_reads_nothing_ends(tmp_path: Path) -> None:
    async with (
        served(new_workspace(tmp_path), ledger=FedLedger(6_000), stall_us=100_000) as daemon,
        raw_client(daemon.address, greeted=True) as deaf,
    ):
        pause_reading(deaf)
        deaf.ask(1, "subscribe", {})
        await eventually(lambda: is_slow(daemon), "full buffers")
        await daemon.server.drain()
        await eventually(lambda: not daemon.server.open, "end of the connection")


def is_slow(daemon: Served) -> bool:
    """Say whether some client's buffers are full."""
    return any(not each._writable.is_set() for each in daemon.server.open)


def pause_reading(client: RawClient) -> None:
    """Let the client's own end stop reading, so that the kernel's buffers fill."""
    transport = client.writer.transport
    assert isinstance(transport, asyncio.Transport)
    transport.pause_reading()


def resume_reading(client: RawClient) -> None:
    """Let it read again."""
    transport = client.writer.transport
    assert isinstance(transport, asyncio.Transport)
    transport.resume_reading()
