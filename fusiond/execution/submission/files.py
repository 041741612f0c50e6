"""Files that a submission reads: the flow, what it names, inputs and datasets.

The user names these paths, but a repository may hold links that lead out of
it; what the flow names must stay inside the workspace.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from fusiond.domain.digest import Digest, digest_fields
from fusiond.domain.errors import InvalidError, NotFoundError, RefusedError, TooLargeError

MAX_INPUT_BYTES = 16 * 1024 * 1024
MAX_DATASET_FILES = 100_000
_CHUNK = 1024 * 1024


def read_input(path: str) -> bytes:
    """Read a regular file that a person named. NotFoundError, RefusedError, TooLargeError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise NotFoundError(f"no file {path}") from None
    except OSError as error:
        raise RefusedError(f"{path}: {error.strerror}", expected="a readable file") from error
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise RefusedError(f"{path} is no regular file")
        body = stream.read(MAX_INPUT_BYTES + 1)
    if len(body) > MAX_INPUT_BYTES:
        raise TooLargeError(f"{path} has more than {MAX_INPUT_BYTES} bytes")
    return body


def read_inside(root: str, path: str) -> bytes:
    """Read a workspace-relative file; RefusedError when it leads out of the workspace."""
    return read_input(str(_inside(root, path)))


def _inside(root: str, path: str) -> Path:
    base = Path(root).resolve()
    target = (base / path).resolve()
    if not target.is_relative_to(base):
        raise RefusedError(f"{path} leads out of the workspace", expected="a file inside it")
    return target


def dataset_digest(root: str, path: str) -> Digest:
    """Return the digest of a dataset: one file, or a directory's files by path and content."""
    target = _inside(root, path)
    if target.is_file():
        return digest_fields("fusion.dataset.file.v1", (_hashed(target),))
    if not target.is_dir():
        raise InvalidError(f"dataset {path} is not there", expected="a file or directory in the workspace")
    fields: list[bytes] = []
    for count, file in enumerate(_files(target)):
        if count >= MAX_DATASET_FILES:
            raise TooLargeError(f"dataset {path} has more than {MAX_DATASET_FILES} files")
        fields += [os.fsencode(file.relative_to(target)), _hashed(file)]
    return digest_fields("fusion.dataset.directory.v1", fields)


def _files(directory: Path) -> Iterator[Path]:
    for entry in sorted(directory.iterdir()):
        if entry.is_symlink():
            raise RefusedError(f"{entry.name} in a dataset is a link", expected="plain files")
        if entry.is_dir():
            yield from _files(entry)
        elif entry.is_file():
            yield entry
        else:
            raise RefusedError(f"{entry.name} in a dataset is no plain file", expected="plain files")


def _hashed(file: Path) -> bytes:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()
