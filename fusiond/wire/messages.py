"""Messages as records: greeting, request, reply, push. Sans-IO.

They embed domain records as they are. The field sets and what each version
may do are in `wire.envelope` and `wire.version`; the golden documents under
`tests/golden/wire` fix the shape of every message, and a change to one of
them is a change of the protocol's version.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar, TypeVar

from fusiond.codec.packed import Plain, pack
from fusiond.codec.records import structure, unstructure
from fusiond.domain.errors import FusionError, InvalidError
from fusiond.domain.ids import AttemptNumber, NodeId, RunId, WorkspaceId
from fusiond.domain.records import dataclass
from fusiond.domain.steps.record import Step
from fusiond.wire import envelope
from fusiond.wire.faults import error_of
from fusiond.wire.framing import frame_packed
from fusiond.wire.limits import FRAME_BYTES, KEY_CHARS, NAME_CHARS, PATH_BYTES
from fusiond.wire.version import PROTOCOL_MAJOR, PROTOCOL_MINOR

R = TypeVar("R")

_PUSH_OVERHEAD_BYTES = 64

_KEY = re.compile(rf"[A-Za-z0-9_-]{{1,{KEY_CHARS}}}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolVersion:
    """The protocol's version; see `wire.version`."""

    major: int = PROTOCOL_MAJOR
    minor: int = PROTOCOL_MINOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The first message of a client."""

    product: str
    protocol: ProtocolVersion
    client: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HelloReply:
    """The daemon's answer.

    Args:
        product: the daemon's version of Fusion.
        workspace: its id.
        path: its real path.
        epoch: the ledger's identity; positions of another epoch mean nothing.
        head: the ledger's last position.
    """

    product: str
    protocol: ProtocolVersion
    workspace: WorkspaceId
    path: str
    epoch: str
    head: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request. The parameters are still plain: which record they are is the method's."""

    id: int
    method: str
    params: dict[str, Plain]
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A successful reply, its result still plain."""

    id: int
    result: dict[str, Plain]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error reply; `id` is None when the connection itself is at fault."""

    id: int | None
    error: FusionError


class PushKind(StrEnum):
    """What a subscription is told."""

    STEP = "step"
    OUTPUT = "output"
    STATE = "state"
    SNAPSHOT = "snapshot"
    GAP = "gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPush:
    """One step; never dropped, never repeated, in the order of positions."""

    kind: ClassVar[PushKind] = PushKind.STEP

    position: int
    step: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPush:
    """Bytes of one output, at their true offset. May be dropped, which a `GapPush` says."""

    kind: ClassVar[PushKind] = PushKind.OUTPUT

    run: RunId
    node: NodeId
    attempt: AttemptNumber
    what: str
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GapPush:
    """Bytes `start` to `end` of one output are not sent; they can be paged."""

    kind: ClassVar[PushKind] = PushKind.GAP

    run: RunId
    node: NodeId
    attempt: AttemptNumber
    what: str
    start: int
    end: int


class StreamState(StrEnum):
    """Where a subscription stands."""

    LIVE = "live"
    ENDED = "ended"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePush:
    """The subscription changed its state.

    Args:
        state: LIVE after everything up to `position` was sent; ENDED when the followed
            output is complete or the daemon stops; FAILED with the reason.
        position: the ledger's, 0 for output.
        detail: why it ended or failed, one line.
    """

    kind: ClassVar[PushKind] = PushKind.STATE

    state: StreamState
    position: int = 0
    detail: str = ""


class SnapshotReason(StrEnum):
    """Why steps are not replayed one by one."""

    EPOCH = "epoch"
    FUTURE = "future"
    TOO_FAR = "too_far"
    TOO_LARGE = "too_large"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPush:
    """Forget what you know and read it anew; the steps after `position` of `epoch` follow.

    EPOCH: the ledger is another one. FUTURE: the client knows positions that this ledger
    does not have. TOO_FAR: it is too far behind. TOO_LARGE: one step fits in no frame.
    UNREADABLE: a run has a step that this version cannot read; listed runs say which.
    """

    kind: ClassVar[PushKind] = PushKind.SNAPSHOT

    reason: SnapshotReason
    epoch: str
    position: int


Push = StepPush | OutputPush | GapPush | StatePush | SnapshotPush

_PUSHES: Mapping[str, type[Push]] = {
    each.kind.value: each for each in (StepPush, OutputPush, GapPush, StatePush, SnapshotPush)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """A push and whose it is; `push` is None for a kind that only a newer version knows."""

    subscription: int
    push: Push | None


def read_from_client(message: dict[str, Plain]) -> Hello | Request:
    """Return what a client sent, read strictly. InvalidError for anything but the two messages.

    The minor version may be newer: it is for the caller to judge, so no field of hello is
    refused that only a newer client knows.
    """
    kind = envelope.message_type(message, envelope.FROM_CLIENT, strict=message.get("type") != envelope.HELLO)
    if kind == envelope.HELLO:
        return Hello(
            product=envelope.text(message, "product", most=NAME_CHARS),
            protocol=_protocol(message),
            client=envelope.text(message, "client", most=NAME_CHARS),
        )
    return Request(
        id=envelope.number(message, "id", least=1),
        method=envelope.text(message, "method", most=NAME_CHARS),
        params=envelope.mapping(message, "params"),
        key=_key(message),
    )


def _protocol(message: Mapping[str, Plain]) -> ProtocolVersion:
    version = envelope.mapping(message, "protocol")
    return ProtocolVersion(major=envelope.number(version, "major"), minor=envelope.number(version, "minor"))


def _key(message: Mapping[str, Plain]) -> str | None:
    if "key" not in message:
        return None
    key = envelope.text(message, "key", most=KEY_CHARS)
    if not _KEY.match(key):
        raise InvalidError(f"key {key!r}", expected=f"1 to {KEY_CHARS} of A-Z a-z 0-9 _ -")
    return key


def read_from_daemon(message: dict[str, Plain]) -> HelloReply | Reply | Failure | Pushed:
    """Return what the daemon sent, ignoring fields that only a newer daemon knows."""
    kind = envelope.message_type(message, envelope.FROM_DAEMON, strict=False)
    if kind == envelope.PUSH:
        return _pushed(message)
    if kind == envelope.OK:
        return Reply(id=envelope.number(message, "id"), result=envelope.mapping(message, "result"))
    if kind == envelope.ERROR:
        whose = None if message["id"] is None else envelope.number(message, "id")
        return Failure(id=whose, error=error_of(message))
    return HelloReply(
        product=envelope.text(message, "product", most=NAME_CHARS),
        protocol=_protocol(message),
        workspace=WorkspaceId(envelope.text(message, "workspace", most=NAME_CHARS)),
        path=envelope.text(message, "path", most=PATH_BYTES),
        epoch=envelope.text(message, "epoch", most=NAME_CHARS),
        head=envelope.number(message, "head"),
    )


def _pushed(message: dict[str, Plain]) -> Pushed:
    subscription = envelope.number(message, "subscription")
    kind = message["kind"]
    record = _PUSHES.get(kind) if isinstance(kind, str) else None
    if record is None:
        return Pushed(subscription=subscription, push=None)
    return Pushed(subscription=subscription, push=structure(record, message, strict=False))


def hello_message(hello: Hello) -> dict[str, object]:
    """Return hello as it is sent."""
    return {"type": envelope.HELLO, **unstructure(hello)}


def welcome_message(reply: HelloReply) -> dict[str, object]:
    """Return the answer to hello as it is sent."""
    return {"type": envelope.WELCOME, **unstructure(reply)}


def ok_message(number: int, result: object) -> dict[str, object]:
    """Return the successful reply that carries the record `result`."""
    return {"type": envelope.OK, "id": number, "result": unstructure(result)}


def result_of(record: type[R], reply: Reply) -> R:
    """Return a reply's result as its record, ignoring fields that only a newer daemon knows."""
    return structure(record, reply.result, strict=False)


@dataclass(frozen=True, slots=True)
class PackedPush:
    """A push, packed once for any number of subscribers."""

    fields: bytes
    count: int

    @property
    def fits(self) -> bool:
        """Say whether it fits into a frame, whatever the subscription's number."""
        return len(self.fields) + _PUSH_OVERHEAD_BYTES <= FRAME_BYTES

    def framed(self, subscription: int) -> bytes:
        """Return the frame for one subscriber. TooLargeError when it is over the hard cap."""
        own = pack({"type": envelope.PUSH, "subscription": subscription})
        # A small msgpack map is one byte 0x80 + count, then keys and values: two maps join by their tails.
        return frame_packed(bytes((0x80 + self.count + 2,)) + own[1:] + self.fields)


def packed_push(push: Push) -> PackedPush:
    """Pack what is the same for every subscriber."""
    fields = {"kind": push.kind.value, **unstructure(push)}
    # The joined map must stay small: 15 keys, of which two are the subscriber's own.
    assert len(fields) <= 13, f"{type(push).__name__} has more fields than a small map"
    return PackedPush(fields=pack(fields)[1:], count=len(fields))
