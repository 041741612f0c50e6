"""The blocking client: one connection, plain mappings, nothing heavy imported.

For the CLI, whose whole start must take a few tens of milliseconds: it loads
`socket` and msgpack, no asyncio and no records. Owns one connection; the
methods and their fields are in `wire.methods`, resuming is `client.following`.
"""

import os
import socket
import struct
from collections.abc import Iterator, Mapping

from fusiond.client.discovery import CONTROL_SOCKET, Workspace, meeting_place
from fusiond.codec.packed import Plain
from fusiond.domain.errors import InvalidError, RefusedError, TryAgainError, UnreachableError
from fusiond.wire import envelope
from fusiond.wire.faults import error_of
from fusiond.wire.framing import FrameDecoder, frame
from fusiond.wire.version import check_major

CALL_S = 90.0
"""Longer than the daemon's own deadline, so that its answer is seen."""

CONNECT_S = 10.0

_CHUNK_BYTES = 256 * 1024
_CREDENTIALS = struct.Struct("3i")
_KEY_BYTES = 16


def new_key() -> str:
    """Return a fresh key for a mutation. Use it again to ask for the same act again."""
    return os.urandom(_KEY_BYTES).hex()


class Connection:
    """One greeted connection to the daemon of a workspace.

    Not for use by several threads. `welcome` is the daemon's answer to hello,
    `daemon_pid` is what the kernel says of the other side.
    """

    def __init__(self, wire: socket.socket, workspace: Workspace, product: str, client: str) -> None:
        self._wire = wire
        self._decoder = FrameDecoder()
        self._pushes: dict[int, list[dict[str, Plain]]] = {}
        self._next_id = 1
        self.daemon_pid = peer_pid(wire)
        self.welcome = self._greet(workspace, product, client)

    def __enter__(self) -> "Connection":  # noqa: PYI034 - typing is slow to load
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; closing twice is closing."""
        self._wire.close()

    def call(
        self, method: str, params: Mapping[str, object], *, key: str | None = None, timeout_s: float = CALL_S
    ) -> dict[str, Plain]:
        """Ask for `method` and return the result's fields.

        Args:
            method: a name from `wire.methods`.
            params: plain values by field name; fields with a default may be left out.
            key: of a mutation; `new_key()` unless an earlier try is repeated.
            timeout_s: how long to wait for the reply.

        Raises:
            FusionError: the daemon's error, as the exception of its code.
            UnreachableError: the connection broke; whether a mutation happened is not known,
                asking again with the same key finds out.
            TryAgainError: no reply within `timeout_s`.
        """
        number = self._next_id
        self._next_id += 1
        self._send(envelope.request(number, method, params, key))
        while True:
            message = self._receive(timeout_s)
            kind = envelope.message_type(message, envelope.FROM_DAEMON, strict=False)
            if kind == envelope.PUSH:
                self._keep(message)
            elif message.get("id") == number and kind == envelope.OK:
                return envelope.mapping(message, "result")
            elif message.get("id") in {number, None} and kind == envelope.ERROR:
                raise error_of(message)

    def pushes(self, subscription: int, *, timeout_s: float | None = None) -> Iterator[dict[str, Plain]]:
        """Yield the pushes of one subscription as they come, for ever.

        Args:
            subscription: its number, from the result of `subscribe` or `output.follow`.
            timeout_s: how long to wait for each, None for as long as it takes.

        Raises:
            UnreachableError: the connection broke.
            TryAgainError: nothing came within `timeout_s`.
        """
        while True:
            waiting = self._pushes.get(subscription)
            if waiting:
                self._pushes[subscription] = []
                yield from waiting
                continue
            message = self._receive(timeout_s)
            kind = envelope.message_type(message, envelope.FROM_DAEMON, strict=False)
            if kind == envelope.PUSH:
                self._keep(message)
            elif kind == envelope.ERROR and message["id"] is None:
                raise error_of(message)

    def _keep(self, message: dict[str, Plain]) -> None:
        number = envelope.number(message, "subscription")
        self._pushes.setdefault(number, []).append(message)

    def _greet(self, workspace: Workspace, product: str, client: str) -> dict[str, Plain]:
        self._send(envelope.hello(product, client))
        message = self._receive(CONNECT_S)
        kind = envelope.message_type(message, envelope.FROM_DAEMON, strict=False)
        if kind == envelope.ERROR:
            raise error_of(message)
        if kind != envelope.WELCOME:
            raise InvalidError(f"the daemon answers hello with {kind}", expected="a welcome")
        major = envelope.number(envelope.mapping(message, "protocol"), "major")
        check_daemon(major, message.get("path"), workspace, self.daemon_pid)
        return message

    def _send(self, message: Mapping[str, object]) -> None:
        self._wire.settimeout(CONNECT_S)
        try:
            self._wire.sendall(frame(message))
        except OSError as error:
            raise _lost(error) from error

    def _receive(self, timeout_s: float | None) -> dict[str, Plain]:
        while True:
            message = self._decoder.next()
            if message is not None:
                return message
            self._wire.settimeout(timeout_s)
            try:
                data = self._wire.recv(_CHUNK_BYTES)
            except TimeoutError as error:
                raise TryAgainError(f"the daemon said nothing for {timeout_s:g} s") from error
            except OSError as error:
                raise _lost(error) from error
            if not data:
                raise _lost(None)
            self._decoder.feed(data)


def _lost(error: OSError | None) -> UnreachableError:
    reason = (
        "the daemon closed the connection" if error is None else f"the connection broke: {error.strerror}"
    )
    return UnreachableError(reason, state="what the ledger has", cure="ask again")


def check_daemon(major: int, path: object, workspace: Workspace, pid: int) -> None:
    """Refuse a daemon that speaks another protocol or is that of another workspace.

    Args:
        major: its protocol, from its welcome.
        path: its workspace, from its welcome.
        workspace: the one that was meant.
        pid: the daemon's, from the kernel.

    Raises:
        UnsupportedError, RefusedError: with the cure.
    """
    check_major(major, "the daemon", f"stop it with `kill {pid}`; the next command starts one that fits")
    if path != workspace.root:
        raise RefusedError(
            f"the daemon that answers is that of {path!r}",
            expected=f"the daemon of {workspace.root}",
            cure=f"remove {workspace.marker}/daemon.lock",
        )


def peer_pid(wire: socket.socket) -> int:
    """Return the daemon's pid from the kernel. RefusedError when another user's process answers."""
    pid, uid, _ = _CREDENTIALS.unpack(
        wire.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    if uid != os.geteuid():
        wire.close()
        raise RefusedError(f"user {uid} answers on the daemon's socket", expected="a daemon of your own")
    return int(pid)


def connect(
    workspace: Workspace, environ: Mapping[str, str], *, product: str, client: str = "cli"
) -> Connection:
    """Connect to the running daemon of a workspace.

    Raises:
        UnreachableError: none is running.
        RefusedError: what is there is not ours.
        UnsupportedError: it speaks another protocol.
    """
    wire = dial(workspace, environ)
    try:
        return Connection(wire, workspace, product, client)
    except BaseException:
        wire.close()
        raise


def dial(workspace: Workspace, environ: Mapping[str, str]) -> socket.socket:
    """Return a connected socket, not greeted. UnreachableError when nobody listens."""
    directory = meeting_place(workspace, environ)
    if directory is None:
        raise _not_running(workspace)
    wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with directory:
            wire.settimeout(CONNECT_S)
            wire.connect(directory.socket_address(CONTROL_SOCKET))
    except (FileNotFoundError, ConnectionRefusedError) as error:
        wire.close()
        raise _not_running(workspace) from error
    except OSError as error:
        wire.close()
        raise UnreachableError(
            f"the daemon of {workspace.root} does not take connections: {error}",
            cure="look into .fusion/daemon.log",
        ) from error
    return wire


def _not_running(workspace: Workspace) -> UnreachableError:
    return UnreachableError(
        f"no daemon is running for {workspace.root}", cure="start it with `fusion daemon start`"
    )
