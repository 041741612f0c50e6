"""Payloads of the steps that may follow the end of a run."""

from typing import ClassVar

from fusiond.domain.digest import Digest
from fusiond.domain.records import dataclass
from fusiond.domain.steps.kinds import Compared, Observed, StepKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Compensated:
    """A recorded call was undone by the tool's declared compensation."""

    kind: ClassVar[StepKind] = StepKind.COMPENSATED
    v: ClassVar[int] = 1

    call: Compared[int]
    tool: Compared[str]
    by: Observed[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentErased:
    """Bytes are gone on purpose; their digests stay on record."""

    kind: ClassVar[StepKind] = StepKind.CONTENT_ERASED
    v: ClassVar[int] = 1

    digests: Compared[tuple[Digest, ...]]
    by: Observed[str]
    reason: Observed[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """What outlives the run was written; `manifest` is the digest of its manifest."""

    kind: ClassVar[StepKind] = StepKind.ARCHIVED
    v: ClassVar[int] = 1

    manifest: Observed[Digest]
    workspace: Observed[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeRecorded:
    """A knowledge increment was recorded."""

    kind: ClassVar[StepKind] = StepKind.KNOWLEDGE_RECORDED
    v: ClassVar[int] = 1

    increment: Observed[Digest]
