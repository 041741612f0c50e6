"""Frozen bodies read back: any page of any size, and no byte that was tampered with."""

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.domain.artifacts import FrozenArtifact
from fusiond.domain.digest import digest_bytes
from fusiond.domain.errors import CorruptError, InvalidError
from fusiond.ports.content import Page
from fusiond.ports.snapshots import Document
from fusiond.snapshots.copying import CHUNK_BYTES
from fusiond.snapshots.layout import sidecar_name
from fusiond.snapshots.reading import MAX_PAGE_BYTES
from tests.fakes.freezing import Attempt, attempt, frozen

SIZE = 3 * CHUNK_BYTES + 17
BODY = os.urandom(SIZE)
SMALL = b"a small body"


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attempt]:
    """One frozen version for all the tests that only read."""
    made = Attempt(tmp_path_factory.mktemp("ground"))
    made.put("big.bin", BODY)
    made.put("small.txt", SMALL)
    made.put("empty", b"")
    made.put("d/exact.bin", BODY[: 2 * CHUNK_BYTES])
    yield made
    made.remove()


@pytest.fixture(scope="module")
def artifacts(ground: Attempt) -> dict[str, FrozenArtifact]:
    staged = ground.freeze(ground.request())
    return {each.path: each for each in staged.artifacts}


def page(ground: Attempt, artifact: FrozenArtifact, offset: int, limit: int) -> Page:
    return asyncio.run(ground.snapshots.page(attempt(), artifact, offset, limit))


@given(offset=st.integers(0, SIZE + 10), limit=st.integers(1, 2 * MAX_PAGE_BYTES))
def test_any_page_is_the_bytes_at_its_offset(
    ground: Attempt, artifacts: dict[str, FrozenArtifact], offset: int, limit: int
) -> None:
    got = page(ground, artifacts["big.bin"], offset, limit)
    assert got == Page(offset=offset, total=SIZE, data=BODY[offset : offset + min(limit, MAX_PAGE_BYTES)])


@pytest.mark.parametrize("path", ["big.bin", "small.txt", "empty", "d/exact.bin"])
def test_pages_in_a_row_are_the_whole(
    ground: Attempt, artifacts: dict[str, FrozenArtifact], path: str
) -> None:
    whole = b""
    while data := page(ground, artifacts[path], len(whole), 100_000).data:
        whole += data
    assert whole == (ground.version() / "outputs" / path).read_bytes()


@pytest.mark.parametrize("offset,limit", [(-1, 1), (0, 0), (0, -1)])
def test_senseless_pages_are_refused(
    ground: Attempt, artifacts: dict[str, FrozenArtifact], offset: int, limit: int
) -> None:
    with pytest.raises(InvalidError):
        page(ground, artifacts["small.txt"], offset, limit)


@pytest.mark.parametrize("path", ["../artifacts.json", "/etc/passwd", "tmp.txt", "d"])
def test_only_what_was_frozen_can_be_read(
    ground: Attempt, artifacts: dict[str, FrozenArtifact], path: str
) -> None:
    forged = replace(artifacts["small.txt"], path=path)
    with pytest.raises(CorruptError):
        page(ground, forged, 0, 10)


def test_a_version_that_is_gone_is_told(ground: Attempt, artifacts: dict[str, FrozenArtifact]) -> None:
    with pytest.raises(CorruptError, match=r"small\.txt"):
        asyncio.run(ground.snapshots.page(attempt(9), artifacts["small.txt"], 0, 10))


@pytest.fixture
def version(tmp_path: Path) -> tuple[Attempt, dict[str, FrozenArtifact]]:
    """A version that a test may spoil."""
    made = Attempt(tmp_path)
    made.put("big.bin", BODY)
    made.put("small.txt", SMALL)
    staged = made.freeze(made.request())
    for each in made.version().rglob("*"):
        each.chmod(0o700)
    made.version().chmod(0o700)
    return made, {each.path: each for each in staged.artifacts}


Version = tuple[Attempt, dict[str, FrozenArtifact]]


def flip(place: Path, offset: int) -> None:
    with place.open("r+b") as stream:
        stream.seek(offset)
        (byte,) = stream.read(1)
        stream.seek(offset)
        stream.write(bytes([byte ^ 1]))


def test_a_tampered_chunk_is_found_and_named_and_the_others_can_be_read(version: Version) -> None:
    ground, artifacts = version
    flip(ground.version() / "outputs/big.bin", CHUNK_BYTES + 5)
    with pytest.raises(CorruptError) as caught:
        page(ground, artifacts["big.bin"], CHUNK_BYTES + 100, 10)
    assert "big.bin" in caught.value.found
    assert f"bytes {CHUNK_BYTES} to {2 * CHUNK_BYTES}" in caught.value.found
    assert caught.value.fields == {"attempt": str(attempt()), "path": "big.bin"}
    assert page(ground, artifacts["big.bin"], 0, 10).data == BODY[:10]
    assert page(ground, artifacts["big.bin"], 2 * CHUNK_BYTES, 10).data == BODY[2 * CHUNK_BYTES :][:10]
    with pytest.raises(CorruptError):
        page(ground, artifacts["big.bin"], CHUNK_BYTES - 5, 10)
    assert asyncio.run(ground.snapshots.verify(attempt(), [*artifacts.values()])) == ["big.bin"]


def test_a_tampered_small_body(version: Version) -> None:
    ground, artifacts = version
    flip(ground.version() / "outputs/small.txt", 3)
    with pytest.raises(CorruptError, match=r"small\.txt"):
        page(ground, artifacts["small.txt"], 0, 1)


@pytest.mark.parametrize("offset", [0, 40, 100])
def test_a_tampered_sidecar(version: Version, offset: int) -> None:
    ground, artifacts = version
    chunks = artifacts["big.bin"].chunks
    assert chunks is not None
    flip(ground.version() / sidecar_name(chunks), offset)
    with pytest.raises(CorruptError, match=r"big\.bin.*chunks"):
        page(ground, artifacts["big.bin"], 0, 1)


def test_a_body_and_a_sidecar_that_were_tampered_with_together(version: Version) -> None:
    """The ledger's chunks digest is what both are held against."""
    ground, artifacts = version
    body = ground.version() / "outputs/big.bin"
    flip(body, 0)
    staged = ground.stage(replace(ground.request(number=2), outputs=str(ground.version() / "outputs")))
    forged = frozen(staged, "big.bin").chunks
    honest = artifacts["big.bin"].chunks
    assert forged is not None
    assert honest is not None
    os.replace(Path(staged.place) / sidecar_name(forged), ground.version() / sidecar_name(honest))
    with pytest.raises(CorruptError, match=r"big\.bin"):
        page(ground, artifacts["big.bin"], 0, 1)


def _truncate(place: Path) -> None:
    os.truncate(place, SIZE - 1)


def _extend(place: Path) -> None:
    os.truncate(place, SIZE + 1)


def _unlink(place: Path) -> None:
    place.unlink()


def _link(place: Path) -> None:
    place.rename(place.with_name("aside"))
    place.symlink_to("aside")


def _hard_link(place: Path) -> None:
    os.link(place, place.with_name("aside"))


def _fifo(place: Path) -> None:
    place.unlink()
    os.mkfifo(place)


@pytest.mark.parametrize("spoil", [_truncate, _extend, _unlink, _link, _hard_link, _fifo])
def test_a_body_that_is_no_longer_the_frozen_file(version: Version, spoil: Callable[[Path], None]) -> None:
    ground, artifacts = version
    spoil(ground.version() / "outputs/big.bin")
    with pytest.raises(CorruptError, match=r"big\.bin"):
        page(ground, artifacts["big.bin"], 0, 1)
    assert asyncio.run(ground.snapshots.verify(attempt(), [*artifacts.values()])) == ["big.bin"]


def test_a_sidecar_that_is_gone(version: Version) -> None:
    ground, artifacts = version
    chunks = artifacts["big.bin"].chunks
    assert chunks is not None
    (ground.version() / sidecar_name(chunks)).unlink()
    with pytest.raises(CorruptError):
        page(ground, artifacts["big.bin"], 0, 1)


def test_a_record_without_a_chunks_digest_is_not_taken_on_trust(version: Version) -> None:
    ground, artifacts = version
    with pytest.raises(CorruptError):
        page(ground, replace(artifacts["big.bin"], chunks=None), 0, 1)


@pytest.mark.parametrize("document", Document)
def test_documents_are_read_whole_and_checked(tmp_path: Path, document: Document) -> None:
    ground = Attempt(tmp_path)
    ground.put("a.txt")
    staged = ground.freeze(ground.request())
    digest = {Document.MANIFEST: staged.manifest, Document.SUMMARY: staged.summary}[document]
    place = ground.version() / document
    read = partial(ground.snapshots.document, attempt(), document)
    assert asyncio.run(read(digest)) == place.read_bytes()
    with pytest.raises(CorruptError, match=document):
        asyncio.run(read(digest_bytes(b"other")))
    place.chmod(0o600)
    flip(place, 3)
    with pytest.raises(CorruptError, match=document):
        asyncio.run(read(digest))
    with pytest.raises(CorruptError, match=document):
        asyncio.run(ground.snapshots.document(attempt(2), document, digest))


def test_verification_names_every_path_that_is_not_as_frozen(version: Version) -> None:
    ground, artifacts = version
    assert asyncio.run(ground.snapshots.verify(attempt(), [*artifacts.values()])) == []
    forged = [replace(each, digest=digest_bytes(b"other")) for each in artifacts.values()]
    assert asyncio.run(ground.snapshots.verify(attempt(), forged)) == ["big.bin", "small.txt"]
    assert asyncio.run(ground.snapshots.verify(attempt(2), [*artifacts.values()])) == ["big.bin", "small.txt"]
