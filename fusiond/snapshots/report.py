"""Manifest and summary as the attempt left them.

Owns reading the two files out of the untrusted report directory. Their formats
are `codec.manifest` and `codec.summary`.
"""

import os

from fusiond.codec import manifest, summary
from fusiond.codec.manifest import read_manifest
from fusiond.codec.summary import summary_problems
from fusiond.domain.artifacts import ContractProblem, ProblemCode, RecordedBy
from fusiond.domain.contract import MANIFEST, SUMMARY, Claim, FileKind, problem
from fusiond.domain.records import dataclass
from fusiond.snapshots.disk import Disk
from fusiond.snapshots.walk import RefusedFileError, UntrustedTree


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an attempt says about itself.

    Args:
        claims: the manifest's entries, or None where there is no usable manifest.
        summary: the bytes of the summary, or None where the attempt has none.
        recorded_by: who writes the manifest that is frozen.
        problems: everything wrong with the two files.
    """

    claims: tuple[Claim, ...] | None
    summary: bytes | None
    recorded_by: RecordedBy
    problems: tuple[ContractProblem, ...]


def read_report(directory: str, *, supervised: bool, may_be_empty: bool) -> Report:
    """Read manifest and summary.

    Args:
        directory: holds both.
        supervised: a file that is missing is the supervisor's to write, and no problem.
        may_be_empty: a manifest without entries is none either.
    """
    try:
        tree = UntrustedTree(directory)
    except RefusedFileError as error:
        kind = error.kind
        found: list[bytes | FileKind] = [kind, kind]
    else:
        try:
            found = [_read(tree, MANIFEST, manifest.MAX_BYTES), _read(tree, SUMMARY, summary.MAX_BYTES)]
        finally:
            tree.close()
    written, told = found
    problems: list[ContractProblem] = []
    claims: tuple[Claim, ...] | None = None
    recorded_by = RecordedBy.AGENT
    if isinstance(written, bytes):
        reading = read_manifest(written, may_be_empty=may_be_empty)
        claims = reading.claims
        problems += reading.problems
    elif supervised and written is FileKind.MISSING:
        recorded_by = RecordedBy.SUPERVISOR
    else:
        problems.append(_refused(written, MANIFEST, ProblemCode.MANIFEST_MISSING))
    if isinstance(told, bytes):
        problems += summary_problems(told)
    elif not (supervised and told is FileKind.MISSING):
        problems.append(_refused(told, SUMMARY, ProblemCode.SUMMARY_MISSING))
    return Report(
        claims=claims,
        summary=told if isinstance(told, bytes) else None,
        recorded_by=recorded_by,
        problems=tuple(problems),
    )


def _refused(kind: FileKind, name: str, missing: ProblemCode) -> ContractProblem:
    code = missing if kind is FileKind.MISSING else ProblemCode.FILE_KIND
    return problem(code, name, kind.value, "a regular file with one link")


def _read(tree: UntrustedTree, name: str, max_bytes: int) -> bytes | FileKind:
    """Return the file, with one byte more than allowed where there is more."""
    try:
        descriptor, _ = tree.open_file(name)
    except RefusedFileError as error:
        return error.kind
    data = b""
    try:
        while len(data) <= max_bytes and (more := os.read(descriptor, max_bytes + 1 - len(data))):
            data += more
    except OSError:
        return FileKind.UNREADABLE
    finally:
        os.close(descriptor)
    return data


def write_report(disk: Disk, place: int, manifest_data: bytes, summary_data: bytes) -> None:
    """Write both files into a staged version."""
    disk.write_file(MANIFEST, manifest_data, dir_fd=place)
    disk.write_file(SUMMARY, summary_data, dir_fd=place)
