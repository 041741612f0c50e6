"""The outermost shape of every message, as plain mappings.

Owns the message types and their closed field sets. Knows no record, so that
the blocking client can speak it without loading any; the records of the same
messages are in `wire.messages`.
"""

from collections.abc import Mapping

from fusiond.codec.packed import Plain
from fusiond.domain.errors import InvalidError
from fusiond.wire.version import PROTOCOL_MAJOR, PROTOCOL_MINOR

HELLO = "hello"
WELCOME = "welcome"
REQUEST = "request"
OK = "ok"
ERROR = "error"
PUSH = "push"

FROM_CLIENT = frozenset({HELLO, REQUEST})
FROM_DAEMON = frozenset({WELCOME, OK, ERROR, PUSH})

_REQUIRED: Mapping[str, frozenset[str]] = {
    HELLO: frozenset({"product", "protocol", "client"}),
    WELCOME: frozenset({"product", "protocol", "workspace", "path", "epoch", "head"}),
    REQUEST: frozenset({"id", "method", "params"}),
    OK: frozenset({"id", "result"}),
    ERROR: frozenset({"id", "code", "message", "fields"}),
    PUSH: frozenset({"subscription", "kind"}),
}
_OPTIONAL: Mapping[str, frozenset[str]] = {REQUEST: frozenset({"key"})}
_NONE: frozenset[str] = frozenset()


def hello(product: str, client: str) -> dict[str, object]:
    """Return the first message of a client.

    Args:
        product: the client's version of Fusion.
        client: which program it is, for the daemon's log.
    """
    protocol = {"major": PROTOCOL_MAJOR, "minor": PROTOCOL_MINOR}
    return {"type": HELLO, "product": product, "protocol": protocol, "client": client}


def request(number: int, method: str, params: Mapping[str, object], key: str | None) -> dict[str, object]:
    """Return a request. `number` is the client's own, from 1, unused among those under way."""
    message: dict[str, object] = {"type": REQUEST, "id": number, "method": method, "params": params}
    if key is not None:
        message["key"] = key
    return message


def message_type(message: Mapping[str, Plain], allowed: frozenset[str], *, strict: bool) -> str:
    """Return the type of a message after checking its fields.

    Args:
        message: as unpacked.
        allowed: the types that may come from that side.
        strict: refuse unknown fields; a client does not, to read a newer daemon.
            A push has fields by kind; they are checked by its record.

    Raises:
        InvalidError: an unknown type, or a field missing or unknown.
    """
    kind = message.get("type")
    if not isinstance(kind, str) or kind not in allowed:
        raise InvalidError(f"message type {_short(kind)}", expected=f"one of {', '.join(sorted(allowed))}")
    missing = _REQUIRED[kind] - message.keys()
    if missing:
        raise InvalidError(f"{kind} without {', '.join(sorted(missing))}", expected="every field it needs")
    if strict and kind != PUSH:
        unknown = message.keys() - _REQUIRED[kind] - _OPTIONAL.get(kind, _NONE) - {"type"}
        if unknown:
            names = ", ".join(_short(each) for each in sorted(unknown)[:5])
            raise InvalidError(f"{kind} with unknown fields {names}", expected="known fields only")
    return kind


def text(message: Mapping[str, Plain], name: str, *, most: int) -> str:
    """Return a text field of at most `most` characters, or raise InvalidError."""
    value = message.get(name)
    if not isinstance(value, str) or len(value) > most:
        raise InvalidError(f"{name} is {_short(value)}", expected=f"text of at most {most} characters")
    return value


def number(message: Mapping[str, Plain], name: str, *, least: int = 0) -> int:
    """Return an integer field of at least `least`, or raise InvalidError."""
    value = message.get(name)
    if type(value) is not int or value < least:
        raise InvalidError(f"{name} is {_short(value)}", expected=f"an integer of at least {least}")
    return value


def mapping(message: Mapping[str, Plain], name: str) -> dict[str, Plain]:
    """Return a field that is a mapping, or raise InvalidError."""
    value = message.get(name)
    if not isinstance(value, dict):
        raise InvalidError(f"{name} is {_short(value)}", expected="a mapping")
    return value


def _short(value: Plain) -> str:
    return repr(value[:40]) if isinstance(value, str) else f"a {type(value).__name__}"
