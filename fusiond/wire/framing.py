"""Frames: a 4-byte big-endian length and one msgpack map. Sans-IO.

Owns where one message ends and the next begins, and that nobody buffers more
than a bound. Owns neither sockets nor the meaning of a message.
"""

from collections.abc import Mapping

from fusiond.codec.packed import Plain, pack, unpack
from fusiond.domain.errors import FusionError, InvalidError, TooLargeError
from fusiond.wire.limits import FRAME_BYTES, LENGTH_PREFIX_BYTES


def frame(message: Mapping[str, object]) -> bytes:
    """Return `message` as a whole frame.

    Raises:
        InvalidError: it holds something that is no plain value.
        TooLargeError: it is over the hard cap.
    """
    return frame_packed(pack(message))


def frame_packed(payload: bytes) -> bytes:
    """Return packed bytes as a whole frame. TooLargeError over the hard cap."""
    if len(payload) > FRAME_BYTES:
        raise TooLargeError(f"a message of {len(payload)} bytes", expected=f"at most {FRAME_BYTES} bytes")
    return len(payload).to_bytes(LENGTH_PREFIX_BYTES, "big") + payload


class FrameDecoder:
    """Turns chunks as they come into messages.

    After an error the stream has no more frame boundaries to trust: every
    further call raises the same error.

    Args:
        limit: bytes a frame may have, without its prefix; at most the hard cap.
    """

    def __init__(self, limit: int = FRAME_BYTES) -> None:
        self._limit = min(limit, FRAME_BYTES)
        self._buffer = bytearray()
        self._start = 0
        self._broken: FusionError | None = None

    @property
    def pending(self) -> int:
        """Bytes that were fed and are not yet part of a returned message."""
        return len(self._buffer) - self._start

    def feed(self, data: bytes) -> None:
        """Take the next chunk, of any length."""
        if self._start:
            del self._buffer[: self._start]
            self._start = 0
        self._buffer += data

    def next(self) -> dict[str, Plain] | None:
        """Return the next whole message, None when more bytes are needed.

        Raises:
            TooLargeError: the prefix announces more than the limit; nothing of the body is awaited.
            InvalidError: the prefix is zero, or the body breaks a rule of `codec.packed`.
        """
        if self._broken is not None:
            raise self._broken
        try:
            return self._next()
        except FusionError as error:
            self._broken = error
            self._buffer.clear()
            self._start = 0
            raise

    def _next(self) -> dict[str, Plain] | None:
        body = self._start + LENGTH_PREFIX_BYTES
        if len(self._buffer) < body:
            return None
        size = int.from_bytes(self._buffer[self._start : body], "big")
        if size > self._limit:
            raise TooLargeError(f"a frame of {size} bytes", expected=f"at most {self._limit} bytes")
        if size == 0:
            raise InvalidError("an empty frame", expected="one msgpack map")
        end = body + size
        if len(self._buffer) < end:
            return None
        message = unpack(self._buffer[body:end])
        self._start = end
        return message
