"""The envelope of a step, and the table from kind to payload.

A `NewStep` is what somebody wants to append; a `Step` has its place in the
chain. Sealing (canonical bytes and hash) is `codec.steps`.
"""

from fusiond.domain.digest import ZERO, Digest
from fusiond.domain.ids import AttemptNumber, NodeId, RunId
from fusiond.domain.labels import NONE, Labels
from fusiond.domain.records import dataclass
from fusiond.domain.steps.after import Archived, Compensated, ContentErased, KnowledgeRecorded
from fusiond.domain.steps.attempt import (
    AttemptFailed,
    AttemptFrozen,
    AttemptStarted,
    RevisionRecorded,
    StageFinished,
)
from fusiond.domain.steps.judgement import (
    ArbitrationDecided,
    ArtifactsValidated,
    ProtectedGateJudged,
    ProtectedGateStarted,
    RerunRequested,
    UnitGateFinished,
    UnitGateStarted,
    VerificationRecorded,
)
from fusiond.domain.steps.kinds import StepKind
from fusiond.domain.steps.people import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    ApprovalWithdrawn,
)
from fusiond.domain.steps.run import RunCancelled, RunFinished, RunParked, RunResumed, RunStarted
from fusiond.domain.steps.turn import (
    BudgetReconciled,
    BudgetReserved,
    EffectUnknown,
    EntropyUsed,
    LabelsAdded,
    Planned,
    ToolCalled,
    ToolGateDecided,
    ToolReturned,
    TurnStarted,
    ViolationRecorded,
)

Payload = (
    RunStarted
    | RunParked
    | RunResumed
    | RunCancelled
    | RunFinished
    | AttemptStarted
    | RevisionRecorded
    | AttemptFailed
    | AttemptFrozen
    | StageFinished
    | TurnStarted
    | BudgetReserved
    | Planned
    | BudgetReconciled
    | ToolGateDecided
    | ToolCalled
    | ToolReturned
    | EffectUnknown
    | EntropyUsed
    | LabelsAdded
    | ViolationRecorded
    | ApprovalRequested
    | ApprovalDecided
    | ApprovalExpired
    | ApprovalWithdrawn
    | UnitGateStarted
    | UnitGateFinished
    | RerunRequested
    | ArtifactsValidated
    | ProtectedGateStarted
    | ProtectedGateJudged
    | VerificationRecorded
    | ArbitrationDecided
    | Compensated
    | ContentErased
    | Archived
    | KnowledgeRecorded
)

PAYLOADS: dict[StepKind, type[Payload]] = {
    each.kind: each
    for each in (
        RunStarted,
        RunParked,
        RunResumed,
        RunCancelled,
        RunFinished,
        AttemptStarted,
        RevisionRecorded,
        AttemptFailed,
        AttemptFrozen,
        StageFinished,
        TurnStarted,
        BudgetReserved,
        Planned,
        BudgetReconciled,
        ToolGateDecided,
        ToolCalled,
        ToolReturned,
        EffectUnknown,
        EntropyUsed,
        LabelsAdded,
        ViolationRecorded,
        ApprovalRequested,
        ApprovalDecided,
        ApprovalExpired,
        ApprovalWithdrawn,
        UnitGateStarted,
        UnitGateFinished,
        RerunRequested,
        ArtifactsValidated,
        ProtectedGateStarted,
        ProtectedGateJudged,
        VerificationRecorded,
        ArbitrationDecided,
        Compensated,
        ContentErased,
        Archived,
        KnowledgeRecorded,
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewStep:
    """A fact to append.

    Args:
        node: the stage's node, None for steps of the run itself.
        attempt: None for steps of the stage or the run.
        payload: what happened.
        at_us: UTC wall clock.
        refs: digests of the content the payload names.
        labels: taint of that content.
        cost_uusd: what it cost.
        idempotency_key: set on external writes; unique in the ledger.
    """

    node: NodeId | None = None
    attempt: AttemptNumber | None = None
    payload: Payload
    at_us: int
    refs: tuple[Digest, ...] = ()
    labels: Labels = NONE
    cost_uusd: int = 0
    idempotency_key: Digest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A fact with its place: `seq` counts from 1 within the run."""

    run: RunId
    seq: int
    node: NodeId | None
    attempt: AttemptNumber | None
    payload: Payload
    at_us: int
    refs: tuple[Digest, ...]
    labels: Labels
    cost_uusd: int
    idempotency_key: Digest | None
    prev_hash: Digest
    hash: Digest

    @property
    def kind(self) -> StepKind:
        """Return the payload's kind."""
        return self.payload.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The last position of a run's chain; `seq` 0 and a zero hash before the first step."""

    seq: int = 0
    hash: Digest = ZERO
