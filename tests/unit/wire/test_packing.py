"""The strict msgpack inside frames: what goes in comes out, everything else is a clear error."""

import math
import struct

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.codec.packed import MAX_DEPTH, MAX_LIST_ITEMS, MAX_MAP_KEYS, MAX_TEXT_BYTES, Plain, pack, unpack
from fusiond.domain.errors import InvalidError

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | texts
    | st.binary(max_size=20)
    | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20)
messages = st.dictionaries(texts, values, max_size=8)


def nested(levels: int) -> bytes:
    """Return a map around `levels` - 1 lists, the innermost empty."""
    return b"\x81\xa1a" + b"\x91" * (levels - 2) + b"\x90"


@given(messages)
def test_what_is_packed_is_unpacked(message: dict[str, Plain]) -> None:
    assert unpack(pack(message)) == message


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_clear_error(data: bytes) -> None:
    try:
        message = unpack(data)
    except InvalidError:
        return
    assert isinstance(message, dict)


@given(messages, st.data())
def test_a_cut_message_is_refused(message: dict[str, Plain], data: st.DataObject) -> None:
    packed = pack(message)
    end = data.draw(st.integers(0, len(packed) - 1))
    with pytest.raises(InvalidError):
        unpack(packed[:end])


@pytest.mark.parametrize(
    "data,said",
    [
        (b"\x82\xa1a\x01\xa1a\x02", "same key twice"),
        (b"\x81\xa1a\x82\xa1b\x01\xa1b\x01", "same key twice"),
        (b"\x81\x01\x02", "map key"),
        (b"\x81\xc0\x02", "map key"),
        (b"\x81\xc4\x01a\x01", "binary key"),
        (b"\x81\x90\x01", "map key"),
        (b"\x81\xa1a\xd4\x05\x00", "max_ext_len"),
        (b"\x81\xa1a\xc7\x00\x05", "extension type 5"),
        (b"\x81\xa1a" + msgpack.packb(msgpack.Timestamp(1)), "max_ext_len"),
        (b"\x81\xa1a\xcb" + struct.pack(">d", math.nan), "NaN"),
        (b"\x81\xa1a\xcb" + struct.pack(">d", math.inf), "NaN"),
        (b"\x81\xa1a\x91\xca" + struct.pack(">f", math.nan), "NaN"),
        (b"\x81\xa1a\xa1\xff", "not UTF-8"),
        (b"\x81\xa1a\xc1", "FormatError"),
        (b"\x81\xa1a\xc0\xc0", "ExtraData"),
        (b"\xdf\xff\xff\xff\xff", "max_map_len"),
        (b"\x81\xa1a\xdd\xff\xff\xff\xff", "max_array_len"),
        (b"\x81\xa1a\xdb\xff\xff\xff\xff", "incomplete"),
        (b"\x81\xa1a\xc6\xff\xff\xff\xff", "incomplete"),
        (b"\x90", "list"),
        (b"\xa1a", "str"),
        (b"\xc0", "NoneType"),
        (b"", "incomplete"),
        (nested(100_000), "StackError"),
    ],
)
def test_hostile_bytes_are_refused_by_name(data: bytes, said: str) -> None:
    with pytest.raises(InvalidError, match=said):
        unpack(data)


def test_depth_is_bounded_exactly() -> None:
    assert unpack(nested(MAX_DEPTH))
    with pytest.raises(InvalidError, match="nested too deeply"):
        unpack(nested(MAX_DEPTH + 1))


def test_lengths_are_bounded_exactly() -> None:
    assert unpack(pack({"a": [None] * MAX_LIST_ITEMS}))
    assert unpack(pack({str(number): None for number in range(MAX_MAP_KEYS)}))
    assert unpack(pack({"a": "x" * MAX_TEXT_BYTES}))
    for over in (
        {"a": [None] * (MAX_LIST_ITEMS + 1)},
        {str(number): None for number in range(MAX_MAP_KEYS + 1)},
        {"a": "x" * (MAX_TEXT_BYTES + 1)},
    ):
        with pytest.raises(InvalidError):
            unpack(pack(over))


@pytest.mark.parametrize("value", [object(), {1, 2}, 2**64, -(2**63) - 1, "\udcff"])
def test_what_is_not_plain_is_not_packed(value: object) -> None:
    with pytest.raises(InvalidError):
        pack({"a": value})
