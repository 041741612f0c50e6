"""Content as files: written once, named by digest, linked for each run that may read it.

Layout below `.fusion/content`: `sha256/ab/cdef…` holds the bytes,
`runs/<run>/<digest>` is a hard link to them and the run's permission to read
them, `tmp/` is what is being written. A bare digest opens nothing. The number
of links says how many runs still need the bytes.
"""

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fusiond.domain.digest import ContentRef, Digest, parse_digest
from fusiond.domain.errors import CorruptError, NotFoundError, StorageError
from fusiond.domain.ids import RunId, parse_run_id
from fusiond.domain.records import dataclass

CHUNK_BYTES = 1024 * 1024
_FRESH = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def storing(what: str) -> Iterator[None]:
    """Turn what the disk refuses while writing into StorageError."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{what} could not be written: {error.strerror}",
            state="nothing was stored",
            cure="free disk space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "check the disk",
        ) from error


@contextmanager
def loading(what: str) -> Iterator[None]:
    """Turn what the disk refuses while reading into StorageError."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{what} could not be read: {error.strerror}", cure="check the disk") from error


@dataclass(frozen=True, slots=True)
class Objects:
    """The files below one `content` directory."""

    root: Path

    @property
    def temporary(self) -> Path:
        """Where unfinished writes are."""
        return self.root / "tmp"

    def create(self) -> None:
        """Make the directories."""
        for place in (self.root / "sha256", self.root / "runs", self.temporary):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)

    def of_run(self, run: RunId, digest: Digest) -> Path:
        """Return the path by which a run reads a digest. InvalidError for words that are neither."""
        return self.root / "runs" / parse_run_id(run) / parse_digest(digest)

    def write(self, run: RunId, data: bytes, ref: ContentRef, token: str) -> None:
        """Store bytes durably for a run. Nothing is left half-stored."""
        fresh = self.temporary / token
        try:
            descriptor = os.open(fresh, _FRESH, 0o400)
            try:
                write_all(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            self.keep(run, fresh, ref)
        finally:
            fresh.unlink(missing_ok=True)

    def keep(self, run: RunId, fresh: Path, ref: ContentRef) -> None:
        """Link a finished, synced file under its digest and for its run, durably."""
        whole = self.root / "sha256" / ref.digest[:2] / ref.digest[2:]
        linked = self.of_run(run, ref.digest)
        for directory in (whole.parent, linked.parent):
            if not directory.is_dir():
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                sync_directory(directory.parent)
        _link(fresh, whole, ref)
        try:
            _link(whole, linked, ref)
        except OSError as error:
            if error.errno != errno.EMLINK:
                raise
            # The shared file has all the links that the file system allows: this run gets its own.
            _link(fresh, linked, ref)
        sync_directory(whole.parent)
        sync_directory(linked.parent)

    def open(self, run: RunId, digest: Digest) -> int:
        """Open a run's content for reading. NotFoundError when the run has no such content."""
        try:
            return os.open(self.of_run(run, digest), _READ)
        except FileNotFoundError:
            raise NotFoundError(
                f"run {run} has no content {digest[:12]}", fields={"run": run, "digest": digest}
            ) from None

    def read(self, run: RunId, ref: ContentRef) -> bytes:
        """Return a run's content whole, hashed. CorruptError when it is not what it was."""
        descriptor = self.open(run, ref.digest)
        with os.fdopen(descriptor, "rb") as stream:
            data = stream.read(ref.size + 1)
        if len(data) != ref.size or hashlib.sha256(data).hexdigest() != ref.digest:
            raise damaged(run, ref.digest, f"{len(data)} bytes of another digest")
        return data

    def verify(self, run: RunId, ref: ContentRef, descriptor: int) -> None:
        """Hash an open file whole. CorruptError when it is not what it was."""
        if os.fstat(descriptor).st_size != ref.size:
            raise damaged(run, ref.digest, f"{os.fstat(descriptor).st_size} bytes")
        with os.fdopen(os.dup(descriptor), "rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found != ref.digest:
            raise damaged(run, ref.digest, f"digest {found[:12]}")

    def sweep(self) -> int:
        """Remove unfinished writes; return how many."""
        unfinished = list(self.temporary.iterdir())
        for path in unfinished:
            path.unlink()
        return len(unfinished)


def _link(source: Path, target: Path, ref: ContentRef) -> None:
    """Give a file another name. What is there already stays, unless its bytes are no longer those."""
    try:
        os.link(source, target)
    except FileExistsError:
        if not _sound(target, ref):
            spare = source.with_name(f"{source.name}.spare")
            os.link(source, spare)
            os.replace(spare, target)


def _sound(path: Path, ref: ContentRef) -> bool:
    with os.fdopen(os.open(path, _READ), "rb") as stream:
        same_size = os.fstat(stream.fileno()).st_size == ref.size
        return same_size and hashlib.file_digest(stream, "sha256").hexdigest() == ref.digest


def damaged(run: RunId, digest: Digest, found: str) -> CorruptError:
    """Return the error for content whose bytes changed."""
    return CorruptError(
        f"content {digest[:12]} of run {run} is damaged: {found}",
        expected="the bytes of that digest",
        cure="restore .fusion/content from a backup",
        fields={"run": run, "digest": digest},
    )


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything: a full disk shows as a short write first."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
