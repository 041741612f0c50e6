"""Digests: how bytes are named, and how several fields become one digest.

Every compound digest is SHA-256 over a domain tag and length-prefixed fields,
never over bare concatenation, so that no two different records can share the
bytes that are hashed (`engine.md`, Ledger).
"""

import hashlib
import re
from collections.abc import Iterable
from typing import NewType

from fusiond.domain.errors import InvalidError
from fusiond.domain.records import dataclass

Digest = NewType("Digest", str)
"""SHA-256 as 64 lower-case hex digits."""

ZERO = Digest("0" * 64)
"""The `prev_hash` of the first step of a run."""

_SHORT = 1_024
# Most fields are short, and every step has thirteen of them.
_PREFIXES = tuple(size.to_bytes(8, "big") for size in range(_SHORT))

_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentRef:
    """Content by digest and length; the bytes live elsewhere and may be erased."""

    digest: Digest
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Bytes with their digest, so that nobody on their way hashes them again; `content_of` alone makes it."""

    digest: Digest
    data: bytes

    @property
    def ref(self) -> ContentRef:
        """Return the reference under which a step names this."""
        return ContentRef(digest=self.digest, size=len(self.data))


def content_of(data: bytes) -> Content:
    """Return `data` as content of a step."""
    return Content(digest=digest_bytes(data), data=data)


def digest_bytes(data: bytes) -> Digest:
    """Return the SHA-256 of `data`."""
    return Digest(hashlib.sha256(data).hexdigest())


def ref_of(data: bytes) -> ContentRef:
    """Return the reference under which `data` is stored."""
    return ContentRef(digest=digest_bytes(data), size=len(data))


def parse_digest(text: str) -> Digest:
    """Return `text` as a digest, or raise InvalidError."""
    if not _DIGEST.match(text):
        raise InvalidError(f"{text[:80]!r} is no digest", expected="64 lower-case hex digits")
    return Digest(text)


def digest_fields(tag: str, fields: Iterable[bytes]) -> Digest:
    """Hash several fields so that no other split of the bytes gives the same digest.

    Args:
        tag: names what is hashed, such as `fusion.step.v1`.
        fields: the fields in order; each is preceded by its 8-byte length.
    """
    parts: list[bytes] = []
    for field in (tag.encode(), *fields):
        size = len(field)
        parts.append(_PREFIXES[size] if size < _SHORT else size.to_bytes(8, "big"))
        parts.append(field)
    return Digest(hashlib.sha256(b"".join(parts)).hexdigest())
