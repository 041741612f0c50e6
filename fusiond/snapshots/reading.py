"""Frozen bodies, read back and checked.

Owns pages and whole verification. Nobody gives a path here but the ledger: an
artifact is found by its attempt and its recorded identity.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fusiond.domain.artifacts import FrozenArtifact
from fusiond.domain.digest import Digest, digest_bytes
from fusiond.domain.errors import CorruptError, InvalidError
from fusiond.domain.ids import AttemptId
from fusiond.domain.paths import problem_with
from fusiond.ports.content import Page
from fusiond.snapshots.copying import CHUNK_BYTES, SourceError, chunks_digest, hash_of_chunk, pass_over
from fusiond.snapshots.disk import Disk
from fusiond.snapshots.layout import OUTPUTS, Layout, sidecar_name
from fusiond.snapshots.walk import RefusedFileError, UntrustedTree

MAX_PAGE_BYTES = 256 * 1024
"""No page is larger, whatever is asked for."""


def read_page(layout: Layout, attempt: AttemptId, artifact: FrozenArtifact, offset: int, limit: int) -> Page:
    """Read part of a frozen body.

    Args:
        layout: where versions live.
        attempt: whose version.
        artifact: as recorded in the ledger.
        offset: of the first byte; at or past the end the page is empty.
        limit: bytes, at least 1; a page has at most MAX_PAGE_BYTES.

    Raises:
        InvalidError: a negative offset or a limit under 1.
        CorruptError: the bytes are not those that were frozen, or gone.
    """
    if offset < 0 or limit < 1:
        raise InvalidError(
            f"offset {offset}, limit {limit}", expected="an offset from 0 and a limit from 1 on"
        )
    end = min(offset + min(limit, MAX_PAGE_BYTES), artifact.size)
    with frozen_body(layout, attempt, artifact) as body:
        if offset >= end:
            return Page(offset=offset, total=artifact.size, data=b"")
        first, last = offset // CHUNK_BYTES, (end - 1) // CHUNK_BYTES
        start, stop = first * CHUNK_BYTES, min((last + 1) * CHUNK_BYTES, artifact.size)
        data = _read(body, start, stop)
        hashes = _chunk_hashes(layout, attempt, artifact)
        for index in range(first, last + 1):
            chunk = data[index * CHUNK_BYTES - start : (index + 1) * CHUNK_BYTES - start]
            if hashlib.sha256(chunk).digest() != hash_of_chunk(hashes, index):
                raise _corrupt(
                    attempt, artifact, f"bytes {index * CHUNK_BYTES} to {stop} are not the frozen ones"
                )
    return Page(offset=offset, total=artifact.size, data=data[offset - start : end - start])


def read_document(layout: Layout, attempt: AttemptId, name: str, digest: Digest) -> bytes:
    """Read manifest or summary of a frozen version.

    Raises:
        CorruptError: it is gone or not what was frozen.
    """
    try:
        tree = UntrustedTree(str(layout.attempt(attempt)))
        try:
            descriptor, status = tree.open_file(name)
        finally:
            tree.close()
    except RefusedFileError as error:
        raise _changed_document(attempt, name, error.kind.value) from error
    try:
        data = _read(descriptor, 0, status.st_size)
    finally:
        os.close(descriptor)
    if digest_bytes(data) != digest:
        raise _changed_document(attempt, name, "other bytes than the frozen ones")
    return data


def _changed_document(attempt: AttemptId, name: str, found: str) -> CorruptError:
    return CorruptError(
        f"{name} of {attempt} is {found}",
        expected="the frozen document",
        cure="the version is damaged; run the stage again",
    )


@contextmanager
def frozen_body(layout: Layout, attempt: AttemptId, artifact: FrozenArtifact) -> Iterator[int]:
    """Open a frozen body of the recorded size, at offset 0.

    Raises:
        CorruptError: it is gone, of another kind or size.
    """
    if problem_with(artifact.path) is not None:
        raise _corrupt(attempt, artifact, "its recorded name is not one that is frozen")
    with _opened_file(layout, attempt, artifact, f"{OUTPUTS}/{artifact.path}") as (body, status):
        if status.st_size != artifact.size:
            raise _corrupt(attempt, artifact, f"it has {status.st_size} bytes")
        yield body


@contextmanager
def _opened_file(
    layout: Layout, attempt: AttemptId, artifact: FrozenArtifact, path: str
) -> Iterator[tuple[int, os.stat_result]]:
    try:
        tree = UntrustedTree(str(layout.attempt(attempt)))
    except RefusedFileError as error:
        raise _corrupt(attempt, artifact, f"its version is {error.kind.value}") from error
    try:
        descriptor, status = tree.open_file(path)
    except RefusedFileError as error:
        raise _corrupt(attempt, artifact, f"{error.blame} is {error.kind.value}") from error
    finally:
        tree.close()
    try:
        yield descriptor, status
    finally:
        os.close(descriptor)


def _chunk_hashes(layout: Layout, attempt: AttemptId, artifact: FrozenArtifact) -> bytes:
    """Return the hashes of all chunks, checked against what the ledger holds."""
    if artifact.size <= CHUNK_BYTES:
        return bytes.fromhex(artifact.digest)
    if artifact.chunks is None:
        raise _corrupt(attempt, artifact, "no digest of its chunks is recorded")
    count = -(-artifact.size // CHUNK_BYTES)
    with _opened_file(layout, attempt, artifact, sidecar_name(artifact.chunks)) as (sidecar, _):
        hashes = _read(sidecar, 0, count * hashlib.sha256().digest_size + 1)
    if chunks_digest(hashes) != artifact.chunks:
        raise _corrupt(attempt, artifact, "the hashes of its chunks are not the recorded ones")
    return hashes


def _read(descriptor: int, start: int, stop: int) -> bytes:
    parts: list[bytes] = []
    while start < stop and (part := os.pread(descriptor, stop - start, start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _corrupt(attempt: AttemptId, artifact: FrozenArtifact, found: str) -> CorruptError:
    return CorruptError(
        f"frozen artifact {artifact.path} of {attempt}: {found}",
        expected=f"{artifact.size} bytes with SHA-256 {artifact.digest}",
        state="the identity in the ledger",
        cure="restore the stages directory from a backup, or run the stage again",
        fields={"attempt": str(attempt), "path": artifact.path},
    )


def verify(layout: Layout, attempt: AttemptId, artifacts: Sequence[FrozenArtifact]) -> list[str]:
    """Hash every body again and return the paths of those that are not as frozen."""
    return [each.path for each in artifacts if not _is_intact(layout, attempt, each)]


def _is_intact(layout: Layout, attempt: AttemptId, artifact: FrozenArtifact) -> bool:
    try:
        with frozen_body(layout, attempt, artifact) as body:
            copied = pass_over(body, os.fstat(body), artifact.size, None, None, Disk())
    except (CorruptError, SourceError):
        return False
    return copied.digest == artifact.digest
