"""Payloads of the steps that judge an attempt."""

from dataclasses import field
from enum import StrEnum
from typing import ClassVar

from fusiond.domain.artifacts import ProblemCode
from fusiond.domain.digest import ContentRef, Digest
from fusiond.domain.gates import ProcessOutcome
from fusiond.domain.ids import CommitId, GateName, TreeId
from fusiond.domain.records import dataclass
from fusiond.domain.steps.kinds import Compared, Observed, StepKind
from fusiond.domain.steps.turn import OutputRef
from fusiond.domain.verification import Arbitration, VerificationResult


class RerunCause(StrEnum):
    """What the feedback of a rerun is about."""

    GATE = "gate"
    CONTRACT = "contract"
    GATE_CHANGED_CODE = "gate_changed_code"


class GateVerdict(StrEnum):
    """The three verdicts of a protected gate."""

    PASSED = "passed"
    FAILED = "failed"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitGateStarted:
    """A unit gate is about to run; it may start again after a restart."""

    kind: ClassVar[StepKind] = StepKind.UNIT_GATE_STARTED
    v: ClassVar[int] = 1

    gate: Compared[GateName]
    round: Compared[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitGateFinished:
    """A unit gate's outcome. `detail` says what went wrong where the walls, not the gate, ended it."""

    kind: ClassVar[StepKind] = StepKind.UNIT_GATE_FINISHED
    v: ClassVar[int] = 1

    gate: Compared[GateName]
    round: Compared[int]
    outcome: Compared[ProcessOutcome]
    exit_code: Compared[int | None] = field(default=None)
    signal: Compared[int | None] = field(default=None)
    output: Observed[OutputRef | None] = field(default=None)
    duration_us: Observed[int] = field(default=0)
    survivors: Observed[int] = field(default=0)
    detail: Observed[str] = field(default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunRequested:
    """Feedback goes back to the same session; one rerun of the flow's limit is spent."""

    kind: ClassVar[StepKind] = StepKind.RERUN_REQUESTED
    v: ClassVar[int] = 1

    number: Compared[int]
    cause: Compared[RerunCause]
    gate: Compared[GateName | None]
    problems: Compared[tuple[ProblemCode, ...]]
    feedback: Observed[ContentRef]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactsValidated:
    """Manifest, summary and outputs were judged on the copied bytes.

    `tree` and `outputs` (a digest over all frozen identities) equal those of
    `revision_recorded` unless a gate changed something.
    """

    kind: ClassVar[StepKind] = StepKind.ARTIFACTS_VALIDATED
    v: ClassVar[int] = 1

    round: Compared[int]
    problems: Compared[tuple[ProblemCode, ...]]
    tree: Compared[TreeId]
    outputs: Compared[Digest]
    report: Observed[ContentRef | None] = field(default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedGateStarted:
    """A protected gate is about to be judged; a crash from here on is `blocked`."""

    kind: ClassVar[StepKind] = StepKind.PROTECTED_GATE_STARTED
    v: ClassVar[int] = 1

    gate: Compared[str]
    packet: Compared[Digest]
    candidate: Observed[CommitId]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedGateJudged:
    """A protected gate's verdict and its receipt."""

    kind: ClassVar[StepKind] = StepKind.PROTECTED_GATE_JUDGED
    v: ClassVar[int] = 1

    gate: Compared[str]
    packet: Compared[Digest]
    verdict: Compared[GateVerdict]
    reason: Compared[str]
    level: Compared[str]
    receipt: Observed[Digest]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationRecorded:
    """What one engine observed."""

    kind: ClassVar[StepKind] = StepKind.VERIFICATION_RECORDED
    v: ClassVar[int] = 1

    result: Compared[VerificationResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArbitrationDecided:
    """The policy's decision over the engines."""

    kind: ClassVar[StepKind] = StepKind.ARBITRATION_DECIDED
    v: ClassVar[int] = 1

    arbitration: Compared[Arbitration]
