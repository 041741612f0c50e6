"""Digests: known answers, and no two records whose bytes are hashed alike."""

import hashlib

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fusiond.domain.digest import ZERO, digest_bytes, digest_fields, parse_digest, ref_of
from fusiond.domain.errors import InvalidError

few = settings(max_examples=40)

records = st.lists(st.binary(max_size=8), max_size=6)
tags = st.text(max_size=8)


def test_known_answers() -> None:
    assert digest_bytes(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert digest_bytes(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert ZERO == "0" * 64


def test_fields_are_hashed_after_their_tag_each_with_its_length() -> None:
    hashed = b"\0\0\0\0\0\0\0\x03tag" + b"\0\0\0\0\0\0\0\x02ab" + b"\0" * 8
    assert digest_fields("tag", [b"ab", b""]) == hashlib.sha256(hashed).hexdigest()


def test_the_length_of_a_tag_is_that_of_its_bytes() -> None:
    hashed = b"\0\0\0\0\0\0\0\x02" + "é".encode()
    assert digest_fields("é", []) == hashlib.sha256(hashed).hexdigest()


@few
@given(tags, records, tags, records)
def test_different_records_have_different_digests(
    left_tag: str, left: list[bytes], right_tag: str, right: list[bytes]
) -> None:
    assume((left_tag, left) != (right_tag, right))
    assert digest_fields(left_tag, left) != digest_fields(right_tag, right)


@few
@given(tags, records, st.data())
def test_moving_bytes_between_fields_changes_the_digest(
    tag: str, record: list[bytes], data: st.DataObject
) -> None:
    joined = b"".join(record)
    cuts = data.draw(st.lists(st.integers(0, len(joined)), max_size=6).map(sorted))
    split = [joined[start:end] for start, end in zip([0, *cuts], [*cuts, len(joined)], strict=True)]
    assume(split != record)
    assert digest_fields(tag, split) != digest_fields(tag, record)


@few
@given(tags, st.binary(max_size=8), records)
def test_a_field_is_not_part_of_the_tag(tag: str, first: bytes, rest: list[bytes]) -> None:
    try:
        longer = tag + first.decode()
    except UnicodeDecodeError:
        assume(False)
    else:
        assert digest_fields(longer, rest) != digest_fields(tag, [first, *rest])


@few
@given(st.binary(max_size=64))
def test_a_reference_is_digest_and_size(data: bytes) -> None:
    ref = ref_of(data)
    assert (ref.digest, ref.size) == (digest_bytes(data), len(data))
    assert parse_digest(ref.digest) == ref.digest


@pytest.mark.parametrize(
    "text", ["", "0" * 63, "0" * 65, "A" * 64, "g" * 64, "0" * 64 + "\n", " " + "0" * 63]
)
def test_what_is_no_digest_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="is no digest"):
        parse_digest(text)


def test_a_refusal_shows_only_the_beginning_of_a_long_text() -> None:
    with pytest.raises(InvalidError) as refused:
        parse_digest("x" * 10_000)
    assert len(refused.value.found) < 120
