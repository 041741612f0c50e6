"""Payloads of the steps of a stage and its attempts."""

from dataclasses import field
from enum import StrEnum
from typing import ClassVar

from fusiond.domain.artifacts import FrozenArtifact, RecordedBy
from fusiond.domain.digest import Digest
from fusiond.domain.ids import AttemptNumber, CommitId, NodeId, OutputName, TreeId
from fusiond.domain.launch import Isolation
from fusiond.domain.records import dataclass
from fusiond.domain.steps.kinds import Compared, Observed, StepKind
from fusiond.domain.steps.turn import OutputRef


class StageOutcome(StrEnum):
    """How a stage ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    BLOCKED = "blocked"
    CODE_CONFLICT = "code_conflict"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class AttemptFailure(StrEnum):
    """Why an attempt did not succeed."""

    COMMAND_FAILED = "command_failed"
    COMMAND_SIGNALLED = "command_signalled"
    COMMAND_NOT_FOUND = "command_not_found"
    COMMAND_NOT_EXECUTABLE = "command_not_executable"
    TIMED_OUT = "timed_out"
    OUTPUT_LIMIT = "output_limit"
    GATE_FAILED = "gate_failed"
    GATE_UNUSABLE = "gate_unusable"
    CONTRACT_UNMET = "contract_unmet"
    GATE_CHANGED_CODE = "gate_changed_code"
    SETUP_FAILED = "setup_failed"
    ISOLATION_FAILED = "isolation_failed"
    SANDBOX_FAILED = "sandbox_failed"
    INPUT_CORRUPT = "input_corrupt"
    INTERRUPTED = "interrupted"
    WORKSPACE_LOST = "workspace_lost"
    SESSION_LOST = "session_lost"
    CANCELLED = "cancelled"
    STORAGE = "storage"
    VERIFICATION = "verification"


UNCOUNTED = frozenset({AttemptFailure.INTERRUPTED, AttemptFailure.WORKSPACE_LOST})
"""Failures that are a restart's doing: they spend no attempt of the flow's, and no comparison sees them."""


class BlockReason(StrEnum):
    """Why a stage is blocked rather than failed."""

    TOOLCHAIN = "toolchain"
    STORAGE = "storage"
    ISOLATION = "isolation"
    GATE_UNUSABLE = "gate_unusable"
    COMMAND_UNUSABLE = "command_unusable"
    SANDBOX = "sandbox"
    INTERRUPTED = "interrupted"
    INPUT_CORRUPT = "input_corrupt"
    ESCALATED = "escalated"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidInput:
    """One frozen artifact laid as an input of an attempt; these are its parents.

    `many` says that the input may be several artifacts, so that it is laid as a
    directory however many there are.
    """

    name: str
    node: NodeId
    attempt: AttemptNumber
    output: OutputName | None
    path: str
    digest: Digest
    many: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted:
    """Worktree, setup and inputs are ready; nothing has run yet."""

    kind: ClassVar[StepKind] = StepKind.ATTEMPT_STARTED
    v: ClassVar[int] = 1

    start_tree: Compared[TreeId]
    inputs: Compared[tuple[LaidInput, ...]]
    setup_key: Compared[Digest | None]
    start_commit: Observed[CommitId]
    isolation: Observed[Isolation]
    worker: Observed[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRecorded:
    """The worktree's tree id and the outputs' digest, before a gate round."""

    kind: ClassVar[StepKind] = StepKind.REVISION_RECORDED
    v: ClassVar[int] = 1

    round: Compared[int]
    tree: Compared[TreeId]
    outputs: Compared[Digest]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed:
    """The attempt is over without success.

    `detail` is one displayable line; `output` is that of a setup that failed.
    """

    kind: ClassVar[StepKind] = StepKind.ATTEMPT_FAILED
    v: ClassVar[int] = 1

    reason: Compared[AttemptFailure]
    detail: Observed[str]
    output: Observed[OutputRef | None] = field(default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFrozen:
    """One immutable version exists and its bytes are on disk."""

    kind: ClassVar[StepKind] = StepKind.ATTEMPT_FROZEN
    v: ClassVar[int] = 1

    tree: Compared[TreeId]
    artifacts: Compared[tuple[FrozenArtifact, ...]]
    recorded_by: Compared[RecordedBy]
    manifest: Observed[Digest]
    summary: Observed[Digest]
    commit: Observed[CommitId]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFinished:
    """The stage is over.

    Args:
        outcome: how.
        attempt: the attempt that decided it, None when none started.
        block: set with BLOCKED.
        dependency: set with SKIPPED, the node that kept it from running.
        conflict_paths: set with CODE_CONFLICT.
        detail: one displayable line.
    """

    kind: ClassVar[StepKind] = StepKind.STAGE_FINISHED
    v: ClassVar[int] = 1

    outcome: Compared[StageOutcome]
    attempt: Compared[AttemptNumber | None]
    block: Compared[BlockReason | None] = field(default=None)
    dependency: Compared[NodeId | None] = field(default=None)
    conflict_paths: Compared[tuple[str, ...]] = field(default=())
    detail: Observed[str] = field(default="")
