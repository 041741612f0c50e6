"""Artifacts: identity, manifest, contract problems. Facts in, judgement out.

Owns what a frozen artifact is and which manifests satisfy a contract. Reading
the disk is `snapshots`; the refused names are `domain.paths`.
"""

from enum import StrEnum

from fusiond.domain.digest import Digest, digest_fields
from fusiond.domain.ids import AttemptNumber, NodeId, OutputName, RunId
from fusiond.domain.records import dataclass


class Producer(StrEnum):
    """What kind of work made an artifact."""

    AGENT = "agent"
    RETRIEVAL = "retrieval"
    REASONING = "reasoning"


class RecordedBy(StrEnum):
    """Who wrote the manifest."""

    AGENT = "agent"
    SUPERVISOR = "supervisor"


class Scope(StrEnum):
    """How long an artifact is meant to live."""

    EPHEMERAL = "ephemeral"
    WORKING = "working"
    AUDIT = "audit"


CHANGES = OutputName("changes")
"""The artifact that every attempt that wrote code has beside what it declared: its patch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenArtifact:
    """One artifact as frozen: (node, output, attempt, digest) plus where and what.

    Args:
        output: the contract output it satisfies, or None for an extra.
        path: normalised relative path under `outputs/`.
        media_type: declared by the contract, else by the manifest.
        size: bytes.
        digest: SHA-256 of the bytes.
        chunks: digest over the hashes of the body's chunks, by which a page is checked
            without reading the whole; None for a body of one chunk, whose hash is `digest`.
    """

    output: OutputName | None
    path: str
    media_type: str
    size: int
    digest: Digest
    chunks: Digest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactKey:
    """The whole identity of an artifact within a tenant."""

    run: RunId
    node: NodeId
    attempt: AttemptNumber
    output: OutputName | None
    path: str
    digest: Digest


def artifact_id(key: ArtifactKey) -> Digest:
    """Return the artifact's id: equal bytes from two attempts are two artifacts."""
    return digest_fields(
        "fusion.artifact.v1",
        (
            key.run.encode(),
            key.node.encode(),
            str(key.attempt).encode(),
            (key.output or "").encode(),
            key.path.encode(),
            key.digest.encode(),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """One entry of `artifacts.json` as somebody wrote it: claims, not facts."""

    output: OutputName | None
    path: str
    media_type: str
    size: int
    sha256: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A parsed manifest: what the attempt says happened."""

    entries: tuple[ManifestEntry, ...]
    recorded_by: RecordedBy


class ProblemCode(StrEnum):
    """Every way in which manifest, summary or outputs can be wrong."""

    MANIFEST_MISSING = "manifest_missing"
    MANIFEST_EMPTY = "manifest_empty"
    MANIFEST_UNREADABLE = "manifest_unreadable"
    MANIFEST_FIELD = "manifest_field"
    MANIFEST_DUPLICATE = "manifest_duplicate"
    SUMMARY_MISSING = "summary_missing"
    SUMMARY_INVALID = "summary_invalid"
    OUTPUT_MISSING = "output_missing"
    OUTPUT_UNDECLARED = "output_undeclared"
    OUTPUT_UNLISTED = "output_unlisted"
    NAME_REFUSED = "name_refused"
    NAME_COLLISION = "name_collision"
    FILE_MISSING = "file_missing"
    FILE_KIND = "file_kind"
    FILE_CHANGED = "file_changed"
    SIZE_MISMATCH = "size_mismatch"
    SIZE_LIMIT = "size_limit"
    DIGEST_MISMATCH = "digest_mismatch"
    MEDIA_TYPE = "media_type"
    SCHEMA = "schema"
    NESTED_REPOSITORY = "nested_repository"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractProblem:
    """One thing wrong, with where, what was found and what was expected."""

    code: ProblemCode
    where: str
    found: str
    expected: str
