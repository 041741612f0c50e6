"""What of a step is compared, and under which number of attempt.

Owns the exclusions of replay (`fusiond/design/0002`): what a restart records, attempts that a
restart ended, and values inside a payload that are ids of one run, that count what a restart
repeats, or that a record group of its own compares. Which payload fields are compared at all
is said by their types (`steps.kinds`). What is repeated within an attempt: `domain.settling`.
"""

from collections.abc import Iterable, Mapping

from fusiond.domain.digest import ZERO
from fusiond.domain.evolve import replace
from fusiond.domain.ids import AttemptNumber, NodeId, TreeId
from fusiond.domain.records import dataclass
from fusiond.domain.steps.attempt import (
    UNCOUNTED,
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
    UnitGateFinished,
    VerificationRecorded,
)
from fusiond.domain.steps.people import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    ApprovalWithdrawn,
)
from fusiond.domain.steps.record import Payload, Step
from fusiond.domain.steps.run import ResumeCause, RunFinished, RunResumed, RunStarted
from fusiond.domain.steps.turn import (
    BudgetReconciled,
    BudgetReserved,
    EffectUnknown,
    Planned,
    ToolCalled,
    ToolGateDecided,
    ToolReturned,
    TurnStarted,
)

_NO_TREE = TreeId("0" * 40)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """Attempts as comparison numbers them.

    Args:
        numbers: comparable number of each attempt that counts, from 1 within its stage.
        interrupted: how many of each stage's attempts an interruption ended.
    """

    numbers: Mapping[tuple[NodeId, AttemptNumber], int]
    interrupted: Mapping[NodeId, int]

    def number(self, node: NodeId | None, attempt: AttemptNumber | None) -> int | None:
        """Return the comparable number, 0 for no attempt, None for an interrupted one."""
        if node is None or attempt is None:
            return 0
        return self.numbers.get((node, attempt))


def number_attempts(steps: Iterable[Step]) -> Attempts:
    """Number the attempts of a run, leaving out those that an interruption ended."""
    started: list[tuple[NodeId, AttemptNumber]] = []
    interrupted: set[tuple[NodeId, AttemptNumber]] = set()
    for step in steps:
        if step.node is None or step.attempt is None:
            continue
        place = (step.node, step.attempt)
        match step.payload:
            case AttemptStarted():
                started.append(place)
            case AttemptFailed(reason=reason) if reason in UNCOUNTED:
                interrupted.add(place)
            case _:
                pass
    numbers: dict[tuple[NodeId, AttemptNumber], int] = {}
    counts: dict[NodeId, int] = {}
    lost: dict[NodeId, int] = {}
    for node, attempt in started:
        if (node, attempt) in interrupted:
            lost[node] = lost.get(node, 0) + 1
            continue
        counts[node] = counts.get(node, 0) + 1
        numbers[node, attempt] = counts[node]
    return Attempts(numbers=numbers, interrupted=lost)


def is_compared(step: Step, attempts: Attempts) -> bool:
    """Say whether a step is an event of the trace."""
    match step.payload:
        case RunStarted():
            return False  # It is the trace's head.
        case RunResumed(cause=ResumeCause.RESTART):
            return False
        case _:
            return attempts.number(step.node, step.attempt) is not None


def comparable(step: Step, attempts: Attempts) -> Payload:
    """Return a step's payload without ids of its run and without what a record group of its own compares.

    Trees and digests of outputs are compared as revisions, artifacts as artifacts; ids of
    artifacts carry the run's id, and follow from what is compared already; numbers of
    requests and reservations depend on how parallel stages interleave, those of turns and calls
    on restarts, and the order of events says what they would.
    """
    match step.payload:
        case AttemptStarted() as payload:
            inputs = tuple(
                replace(
                    each, attempt=AttemptNumber(attempts.number(each.node, each.attempt) or 0), digest=ZERO
                )
                for each in payload.inputs
            )
            return replace(payload, start_tree=_NO_TREE, inputs=inputs)
        case RevisionRecorded() | ArtifactsValidated() as judged:
            return replace(judged, tree=_NO_TREE, outputs=ZERO)
        case AttemptFrozen() as frozen:
            return replace(frozen, tree=_NO_TREE, artifacts=())
        case StageFinished() as ended:
            number = attempts.number(step.node, ended.attempt) or 0
            return replace(ended, attempt=AttemptNumber(number))
        case VerificationRecorded() as verified:
            return replace(verified, result=replace(verified.result, artifacts_checked=()))
        case ArbitrationDecided() as decided:
            return replace(decided, arbitration=replace(decided.arbitration, targets=()))
        case RunFinished() as finished:
            return replace(finished, result_tree=None)
        case TurnStarted() | Planned() as turned:
            return replace(turned, turn=0)
        case ToolGateDecided() | ToolCalled() | ToolReturned() | EffectUnknown() as called:
            return replace(called, call=0)
        case BudgetReserved() | BudgetReconciled() as reserved:
            return replace(reserved, reservation=0)
        case ApprovalRequested() | ApprovalDecided() | ApprovalExpired() | ApprovalWithdrawn() as said:
            return replace(said, request=0)
        case unchanged:
            return unchanged


def verdict_of(payload: Payload) -> str:
    """Return what a judging step decided, "" for every other kind."""
    match payload:
        case UnitGateFinished():
            return payload.outcome.value
        case ProtectedGateJudged():
            return payload.verdict.value
        case ArbitrationDecided():
            return payload.arbitration.decision.value
        case ToolGateDecided():
            return payload.verdict.value
        case _:
            return ""
