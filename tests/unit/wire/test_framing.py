"""Frames cut from any chunks: nothing is lost, nothing over a bound is awaited."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.codec.packed import Plain, pack
from fusiond.domain.errors import FusionError, InvalidError, TooLargeError
from fusiond.wire.framing import FrameDecoder, frame, frame_packed
from fusiond.wire.limits import FRAME_BYTES, REQUEST_BYTES

messages = st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 9) | st.binary(max_size=300)))


def decoded(decoder: FrameDecoder) -> list[dict[str, Plain]]:
    """Return every whole message that the decoder has."""
    found = []
    while (message := decoder.next()) is not None:
        found.append(message)
    return found


@given(messages, st.data())
def test_messages_survive_any_cutting(sent: list[dict[str, int | bytes]], data: st.DataObject) -> None:
    stream = b"".join(frame(each) for each in sent)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=8).map(sorted))
    decoder, received = FrameDecoder(), list[dict[str, Plain]]()
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        decoder.feed(stream[start:end])
        received += decoded(decoder)
    assert received == sent
    assert decoder.pending == 0


@given(st.lists(st.binary(max_size=64), max_size=8))
def test_any_bytes_give_messages_or_one_lasting_error(chunks: list[bytes]) -> None:
    decoder = FrameDecoder(REQUEST_BYTES)
    for chunk in chunks:
        decoder.feed(chunk)
        try:
            decoded(decoder)
        except FusionError as error:
            with pytest.raises(type(error)):
                decoder.next()
            return
    assert decoder.pending <= sum(map(len, chunks))


def test_bytes_come_one_at_a_time() -> None:
    decoder = FrameDecoder()
    stream = frame({"a": 1}) + frame({"b": 2})
    received = []
    for byte in stream:
        decoder.feed(bytes((byte,)))
        received += decoded(decoder)
    assert received == [{"a": 1}, {"b": 2}]


def test_too_long_a_frame_is_refused_from_its_prefix() -> None:
    decoder = FrameDecoder(REQUEST_BYTES)
    decoder.feed((REQUEST_BYTES + 1).to_bytes(4, "big"))
    with pytest.raises(TooLargeError, match=str(REQUEST_BYTES + 1)):
        decoder.next()


def test_the_limit_itself_is_allowed() -> None:
    filling = REQUEST_BYTES - len(pack({"a": b"x" * 70_000})) + 70_000
    whole = frame({"a": b"x" * filling})
    assert len(whole) == REQUEST_BYTES + 4
    decoder = FrameDecoder(REQUEST_BYTES)
    decoder.feed(whole)
    assert decoder.next() == {"a": b"x" * filling}


def test_no_limit_is_above_the_hard_cap() -> None:
    decoder = FrameDecoder(2**40)
    decoder.feed((FRAME_BYTES + 1).to_bytes(4, "big"))
    with pytest.raises(TooLargeError):
        decoder.next()
    with pytest.raises(TooLargeError):
        frame_packed(bytes(FRAME_BYTES + 1))


def test_an_empty_frame_is_refused() -> None:
    decoder = FrameDecoder()
    decoder.feed(bytes(4))
    with pytest.raises(InvalidError, match="empty frame"):
        decoder.next()


def test_good_frames_before_a_bad_one_are_delivered() -> None:
    decoder = FrameDecoder()
    decoder.feed(frame({"a": 1}) + b"\x00\x00\x00\x01\xc1" + frame({"b": 2}))
    assert decoder.next() == {"a": 1}
    for _ in range(2):
        with pytest.raises(InvalidError):
            decoder.next()
    decoder.feed(frame({"c": 3}))
    with pytest.raises(InvalidError):
        decoder.next()
