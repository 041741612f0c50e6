"""Whether bytes are of the media type they are said to be, checked while they pass by.

Owns the formats that are looked at: texts are UTF-8, JSON parses, well-known
binary formats begin as they must. Everything else is taken as it is.
"""

import codecs
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Protocol

from fusiond.codec.canonical import JsonValue, parse_json
from fusiond.domain.errors import InvalidError, TooLargeError

MAX_JSON_BYTES = 32 * 1024 * 1024
MAX_JSON_DEPTH = 128

_HEAD_BYTES = 512

# Offset and the alternatives that may stand there.
_MAGIC: dict[str, tuple[int, tuple[bytes, ...]]] = {
    "application/gzip": (0, (b"\x1f\x8b",)),
    "application/pdf": (0, (b"%PDF-",)),
    "application/wasm": (0, (b"\0asm",)),
    "application/x-tar": (257, (b"ustar",)),
    "application/zip": (0, (b"PK\x03\x04", b"PK\x05\x06")),
    "application/zstd": (0, (b"\x28\xb5\x2f\xfd",)),
    "image/gif": (0, (b"GIF87a", b"GIF89a")),
    "image/jpeg": (0, (b"\xff\xd8\xff",)),
    "image/png": (0, (b"\x89PNG\r\n\x1a\n",)),
    "image/webp": (8, (b"WEBP",)),
}

_TEXTS = frozenset(
    {
        "application/javascript",
        "application/jsonl",
        "application/toml",
        "application/x-ndjson",
        "application/yaml",
        "image/svg+xml",
    }
)


class FormatCheck(Protocol):
    """Looks at the bytes of one file, block after block."""

    def feed(self, block: bytes | memoryview) -> None:
        """Take the next block."""
        ...

    def finish(self) -> str | None:
        """Say what is wrong, or None."""
        ...


def check_for(media_type: str) -> FormatCheck | None:
    """Return a new check for a media type, or None where nothing is checked."""
    make = _maker(media_type)
    return None if make is None else make()


@lru_cache(maxsize=256)
def _maker(media_type: str) -> Callable[[], FormatCheck] | None:
    if is_json(media_type):
        return JsonCheck
    if media_type in _MAGIC:
        return partial(_MagicCheck, media_type)
    if media_type.startswith("text/") or media_type in _TEXTS:
        return _TextCheck
    return None


def is_json(media_type: str) -> bool:
    """Say whether documents of this type are JSON."""
    return media_type == "application/json" or media_type.endswith("+json")


class _TextCheck:
    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._problem: str | None = None

    def feed(self, block: bytes | memoryview) -> None:
        self._decode(block, final=False)

    def finish(self) -> str | None:
        self._decode(b"", final=True)
        return self._problem

    def _decode(self, block: bytes | memoryview, *, final: bool) -> None:
        if self._problem is not None:
            return
        try:
            self._decoder.decode(block, final)
        except UnicodeDecodeError:
            self._problem = "bytes that are not UTF-8"


class JsonCheck:
    """Keeps a JSON document, up to a bound; `value` is there once `finish` found nothing wrong."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self.value: JsonValue = None

    def feed(self, block: bytes | memoryview) -> None:
        """Take the next block."""
        self._size += len(block)
        if self._size <= MAX_JSON_BYTES:
            self._parts.append(bytes(block))
        else:
            self._parts.clear()

    def finish(self) -> str | None:
        """Say what is wrong, or None."""
        if self._size > MAX_JSON_BYTES:
            return f"{self._size} bytes, which is too much to be checked as JSON ({MAX_JSON_BYTES} bytes)"
        try:
            self.value = parse_json(b"".join(self._parts), max_bytes=MAX_JSON_BYTES, max_depth=MAX_JSON_DEPTH)
        except (InvalidError, TooLargeError) as error:
            return error.found
        return None


class _MagicCheck:
    def __init__(self, media_type: str) -> None:
        self._offset, self._magics = _MAGIC[media_type]
        self._head = b""

    def feed(self, block: bytes | memoryview) -> None:
        if len(self._head) < _HEAD_BYTES:
            self._head += bytes(block[: _HEAD_BYTES - len(self._head)])

    def finish(self) -> str | None:
        if any(self._head.startswith(each, self._offset) for each in self._magics):
            return None
        return "bytes that do not begin as this format does"
