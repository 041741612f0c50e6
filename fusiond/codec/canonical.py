"""Canonical JSON, and the one strict reader of JSON that somebody else wrote.

Owns the bytes that digests are made over (`engine.md`, Decided details) and
the bounds of foreign JSON. Owns no record: that is `codec.records`.
"""

import json
import re
from collections.abc import Collection, Mapping

import orjson

from fusiond.domain.errors import InvalidError, TooLargeError

JsonValue = (
    None | bool | int | float | str | list["JsonValue"] | tuple["JsonValue", ...] | Mapping[str, "JsonValue"]
)
"""What JSON can hold. Reading makes lists and dicts, never tuples; floats have no canonical form."""

MIN_INTEGER = -(2**63)
MAX_INTEGER = 2**64 - 1

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_LEAVES = frozenset({str, int, bool, type(None)})
_MAX_INTEGER_CHARS = 21
# A string, also one that never ends, so that no quote inside it is tried as a start again.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+\\?(?:"|\Z)', re.DOTALL)
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


def canonical(value: JsonValue) -> bytes:
    """Return the one byte form of `value`: UTF-8, no spaces, keys sorted by code point.

    Strings are kept as they are, without Unicode normalisation.

    Raises:
        InvalidError: a float, an integer beyond 64 bits, a key that is no string, a lone
            surrogate, something that is no JSON, or too deep a nesting.
    """
    _refuse_inexact(value)
    return canonical_record(value)


def canonical_record(value: JsonValue) -> bytes:
    """Return `canonical(value)` for what `codec.records.unstructure` made.

    That has refused floats already; looking for them again would cost more than encoding.
    Raises InvalidError as `canonical` does.
    """
    try:
        return orjson.dumps(value, default=_plain, option=_OPTIONS)
    except orjson.JSONEncodeError as error:
        raise InvalidError(f"no canonical JSON: {error}", expected="plain JSON values") from error


def _refuse_inexact(value: JsonValue) -> None:
    """Refuse what the encoder would write although it is not exact JSON, floats first of all."""
    waiting: list[Collection[JsonValue]] = [(value,)]
    while waiting:
        for each in waiting.pop():
            if type(each) in _LEAVES:
                continue
            if isinstance(each, (dict, Mapping)):
                waiting.append(each.values())
            elif isinstance(each, (list, tuple)):
                waiting.append(each)
            elif not isinstance(each, (str, int)):
                raise InvalidError(
                    f"no canonical JSON: {type(each).__name__} value",
                    expected="null, booleans, integers, strings, arrays and objects",
                )


def _plain(value: object) -> dict[str, JsonValue]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} value")


def parse_json(data: bytes, *, max_bytes: int, max_depth: int) -> JsonValue:
    """Read JSON from an untrusted source.

    Args:
        data: UTF-8 without a byte order mark.
        max_bytes: bound on `len(data)`.
        max_depth: bound on nested arrays and objects, checked before anything recurses.

    Raises:
        TooLargeError: more than `max_bytes`.
        InvalidError: not JSON, not UTF-8, too deep, a duplicate key, NaN or an infinity, an
            integer beyond 64 bits, a lone surrogate.
    """
    if len(data) > max_bytes:
        raise TooLargeError(f"JSON of {len(data)} bytes", expected=f"at most {max_bytes} bytes")
    _check_depth(data, max_depth)
    try:
        value: JsonValue = _DECODER.decode(data.decode())
    except UnicodeDecodeError as error:
        raise InvalidError(f"JSON is not UTF-8 at byte {error.start}", expected="UTF-8") from error
    except json.JSONDecodeError as error:
        raise InvalidError(
            f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}", expected="one JSON value"
        ) from error
    if _SURROGATE_ESCAPE.search(data):
        _refuse_lone_surrogates(value)
    return value


def _check_depth(data: bytes, max_depth: int) -> None:
    depth = 0
    for bracket in _STRING.sub(b"", data).translate(None, _NOT_BRACKETS):
        if bracket in b"[{":
            depth += 1
            if depth > max_depth:
                raise InvalidError("JSON is nested too deeply", expected=f"at most {max_depth} levels")
        else:
            depth -= 1


def _refuse_lone_surrogates(value: JsonValue) -> None:
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise InvalidError("JSON holds half a surrogate pair", expected="whole characters") from error


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InvalidError(f"JSON object has the key {key[:80]!r} twice", expected="each key once")
            seen.add(key)
    return found


def _integer(text: str) -> int:
    if len(text) <= _MAX_INTEGER_CHARS:
        value = int(text)
        if MIN_INTEGER <= value <= MAX_INTEGER:
            return value
    raise InvalidError(f"JSON integer {text[:24]} is beyond 64 bits", expected="a 64-bit integer")


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise InvalidError(
            f"JSON number {text[:24]} is beyond what a number can hold", expected="a finite number"
        )
    return value


def _constant(text: str) -> None:
    raise InvalidError(f"JSON number {text}", expected="a finite number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant, strict=True
)
