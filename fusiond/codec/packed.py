"""Mappings to msgpack and back, strictly: the bytes inside every frame.

Owns the bounds of foreign msgpack: depth, lengths, key types, duplicate keys,
no extension types, no NaN. Owns no frame (`wire.framing`) and no record
(`codec.records`). Imports nothing heavy: the blocking client starts with it.
"""

from collections.abc import Mapping

import msgpack

from fusiond.domain.errors import InvalidError

Plain = None | bool | int | float | str | bytes | list["Plain"] | dict[str, "Plain"]
"""What unpacking makes."""

MAX_DEPTH = 32
MAX_LIST_ITEMS = 65_536
MAX_MAP_KEYS = 1_024
MAX_TEXT_BYTES = 512 * 1024
MAX_BINARY_BYTES = 512 * 1024

_LEAVES = frozenset({type(None), bool, int, str, bytes})


def pack(value: Mapping[str, object]) -> bytes:
    """Return the msgpack form of a mapping of plain values.

    Raises:
        InvalidError: something in it is no plain value, or is beyond 64 bits.
    """
    try:
        return bytes(msgpack.packb(value))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidError(f"cannot be packed: {error}", expected="plain values") from error


def unpack(data: bytes | bytearray) -> dict[str, Plain]:
    """Return the one mapping that `data` holds.

    The caller bounds `len(data)`, which bounds the memory: one byte of input
    makes at most one object.

    Raises:
        InvalidError: not msgpack, not exactly one mapping, over a bound, a key that is no
            string or comes twice, an extension type, NaN or an infinity.
    """
    try:
        value: Plain = msgpack.unpackb(
            data,
            strict_map_key=True,
            object_pairs_hook=_mapping,
            ext_hook=_extension,
            max_str_len=MAX_TEXT_BYTES,
            max_bin_len=MAX_BINARY_BYTES,
            max_array_len=MAX_LIST_ITEMS,
            max_map_len=MAX_MAP_KEYS,
            max_ext_len=0,
        )
    except (ValueError, TypeError) as error:
        raise InvalidError(f"not readable msgpack: {_reason(error)}", expected="one msgpack map") from error
    if not isinstance(value, dict):
        raise InvalidError(f"msgpack {type(value).__name__}", expected="one msgpack map")
    _check_values(value)
    return value


def _reason(error: Exception) -> str:
    match error:
        case UnicodeDecodeError():
            return "a string is not UTF-8"
        case ValueError(args=(str(text), *_)):
            return text[:200]
        case _:
            # The library's own errors carry no text, or the rest of the input.
            return type(error).__name__


def _mapping(pairs: list[tuple[object, Plain]]) -> dict[str, Plain]:
    found: dict[str, Plain] = {}
    for key, value in pairs:
        if not isinstance(key, str):
            raise InvalidError("a msgpack map has a binary key", expected="string keys")
        found[key] = value
    if len(found) != len(pairs):
        raise InvalidError("a msgpack map has the same key twice", expected="each key once")
    return found


def _extension(code: int, _: bytes) -> None:
    raise InvalidError(f"msgpack extension type {code}", expected="no extension types")


def _check_values(value: dict[str, Plain]) -> None:
    """Walk level by level, so that depth costs no recursion."""
    level: list[Plain] = [value]
    for _ in range(MAX_DEPTH):
        below: list[Plain] = []
        for each in level:
            if type(each) in _LEAVES:
                continue
            if isinstance(each, dict):
                below.extend(each.values())
            elif isinstance(each, list):
                below.extend(each)
            else:
                _check_number(each)
        if not below:
            return
        level = below
    raise InvalidError("msgpack is nested too deeply", expected=f"at most {MAX_DEPTH} levels")


def _check_number(value: Plain) -> None:
    # NaN is the one value that differs from itself; an infinity less itself is NaN.
    if not isinstance(value, float) or value - value != 0.0:
        raise InvalidError(
            "a msgpack value is NaN, infinite or of an unknown type", expected="finite numbers"
        )
