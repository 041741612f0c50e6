"""The port of snapshots: from files an agent can touch to a version nobody can."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from fusiond.domain.artifacts import ContractProblem, FrozenArtifact, RecordedBy
from fusiond.domain.digest import Digest
from fusiond.domain.flow import OutputSpec
from fusiond.domain.ids import AttemptId, OutputName, RunId
from fusiond.domain.records import dataclass
from fusiond.domain.steps.attempt import LaidInput
from fusiond.ports.content import Page


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedArtifact:
    """A file that the supervisor adds, such as the patch of the attempt's changes."""

    output: OutputName
    path: str
    media_type: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeRequest:
    """Everything a check or a freeze needs.

    Args:
        attempt: whose.
        outputs: host directory of the outputs.
        report: host directory of manifest and summary.
        contract: the node's declared outputs.
        schemas: JSON Schema documents by output name.
        supervised: the supervisor writes manifest and summary where the node wrote none.
        injected: artifacts that the supervisor adds.
    """

    attempt: AttemptId
    outputs: str
    report: str
    contract: tuple[OutputSpec, ...]
    schemas: tuple[tuple[OutputName, bytes], ...] = ()
    supervised: bool
    injected: tuple[InjectedArtifact, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was found. `outputs` is the digest over all identities that are not injected."""

    problems: tuple[ContractProblem, ...]
    outputs: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Bytes copied, hashed and judged, not yet published.

    `place` is a host directory on the snapshots' own filesystem.
    """

    attempt: AttemptId
    problems: tuple[ContractProblem, ...]
    outputs: Digest
    artifacts: tuple[FrozenArtifact, ...]
    recorded_by: RecordedBy
    manifest: Digest
    summary: Digest
    place: str


class Document(StrEnum):
    """The two documents of a frozen version; the value is the file's name."""

    MANIFEST = "artifacts.json"
    SUMMARY = "result.md"


class Documents(Protocol):
    """Reads the documents of frozen versions."""

    async def document(self, attempt: AttemptId, document: Document, digest: Digest) -> bytes:
        """Return a document whole. CorruptError when it is not the one of `digest`."""
        ...


class Snapshots(Protocol):
    """Checks, freezes, hands over and reads attempts' artifacts."""

    async def check(self, request: FreezeRequest) -> Checked:
        """Judge and hash in place, without copying."""
        ...

    async def stage(self, request: FreezeRequest) -> Staged:
        """Copy and hash in one pass, then judge the copies. StorageError on a full disk."""
        ...

    async def publish(self, staged: Staged) -> None:
        """Make it the read-only version by a rename that refuses to replace, durably."""
        ...

    async def drop(self, staged: Staged) -> None:
        """Forget staged bytes."""
        ...

    async def hand_over(self, run: RunId, inputs: Sequence[LaidInput], target: str) -> None:
        """Lay read-only copies under `target/<name>`; CorruptError when a digest differs."""
        ...

    async def verify(self, attempt: AttemptId, artifacts: Sequence[FrozenArtifact]) -> Sequence[str]:
        """Return the paths whose frozen bytes no longer match, all of them."""
        ...

    async def page(self, attempt: AttemptId, artifact: FrozenArtifact, offset: int, limit: int) -> Page:
        """Read a page of a frozen body, checked against stored chunk hashes."""
        ...

    async def sweep(self, runs: frozenset[RunId], frozen: frozenset[AttemptId]) -> Sequence[str]:
        """Remove what interrupted freezes left: all staged bytes, and of `runs` (the open ones)
        every published directory that is not in `frozen`; return what was removed.
        """
        ...
