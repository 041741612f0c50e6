"""Media types as bytes show them, in whatever pieces the bytes come."""

import zipfile
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.snapshots.formats import MAX_JSON_BYTES, JsonCheck, check_for

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def zipped() -> bytes:
    """Return a real archive."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a", "b")
    return buffer.getvalue()


def verdict(media_type: str, data: bytes, piece: int = 1 << 20) -> str | None:
    check = check_for(media_type)
    assert check is not None
    for start in range(0, len(data), piece):
        check.feed(memoryview(data)[start : start + piece])
    return check.finish()


GOOD = [
    ("text/plain", b""),
    ("text/markdown", "# caf\u00e9".encode()),
    ("image/svg+xml", b"<svg/>"),
    ("application/jsonl", b"{}\n{}\n"),
    ("application/json", b' {"a": [1, null]} '),
    ("application/vnd.fusion.claims+json", b"[]"),
    ("image/png", PNG),
    ("image/jpeg", b"\xff\xd8\xff\xe0"),
    ("image/gif", b"GIF89a.."),
    ("image/webp", b"RIFF\0\0\0\0WEBP"),
    ("application/pdf", b"%PDF-1.7\n"),
    ("application/zip", zipped()),
    ("application/gzip", b"\x1f\x8b\x08"),
    ("application/zstd", b"\x28\xb5\x2f\xfd\0"),
    ("application/wasm", b"\0asm\1\0\0\0"),
    ("application/x-tar", bytes(257) + b"ustar\0"),
]


@pytest.mark.parametrize("media_type,data", GOOD)
@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_bytes_of_the_type(media_type: str, data: bytes, piece: int) -> None:
    assert verdict(media_type, data, piece) is None


@pytest.mark.parametrize(
    "media_type,data",
    [
        ("text/plain", b"\xff"),
        ("text/plain", "caf\u00e9".encode()[:-1]),
        ("application/json", b""),
        ("application/json", b"{"),
        ("application/json", b'{"a": 1, "a": 2}'),
        ("application/json", b"NaN"),
        ("application/json", b"[" * 5000 + b"]" * 5000),
        ("application/vnd.fusion.claims+json", b"claims"),
        *[(media_type, b"nothing of the kind") for media_type, _ in GOOD[6:]],
        *[(media_type, b"") for media_type, _ in GOOD[6:]],
    ],
)
@pytest.mark.parametrize("piece", [1, 1 << 20])
def test_bytes_of_another_type(media_type: str, data: bytes, piece: int) -> None:
    assert verdict(media_type, data, piece)


@pytest.mark.parametrize("media_type", ["application/octet-stream", "video/mp4", "application/x-unknown", ""])
def test_types_that_nothing_is_known_about(media_type: str) -> None:
    assert check_for(media_type) is None


def test_json_that_is_too_large_to_look_at_is_not_waved_through() -> None:
    check = JsonCheck()
    block = b" " * (MAX_JSON_BYTES // 4)
    for _ in range(5):
        check.feed(block)
    assert "too much" in (check.finish() or "")


@given(st.sampled_from([media_type for media_type, _ in GOOD]), st.binary(max_size=40), st.integers(1, 40))
def test_a_verdict_does_not_depend_on_the_pieces(media_type: str, data: bytes, piece: int) -> None:
    assert verdict(media_type, data, piece) == verdict(media_type, data)
