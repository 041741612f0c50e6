"""The one transition table: in which phase which step is legal, and what comes next.

A run, a stage and an attempt each have a phase. A step is legal only where the
table has a row; everything else raises IllegalStepError and changes nothing.
Conditions on payload fields (numbers, rounds, gates) are checked by `fold`,
which consults this table first. Nothing else decides legality.
"""

from enum import StrEnum

from fusiond.domain.errors import IllegalStepError
from fusiond.domain.steps.kinds import StepKind as K


class RunPhase(StrEnum):
    """Phases of a run (`engine.md`, Fold and decide)."""

    CREATED = "created"
    RUNNING = "running"
    AWAITING_APPROVAL = "awaiting_approval"
    PARKED = "parked"
    CANCELLING = "cancelling"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        """Say whether the run has ended."""
        return self in (RunPhase.FINISHED, RunPhase.FAILED, RunPhase.CANCELLED)


class StagePhase(StrEnum):
    """Phases of a stage."""

    WAITING = "waiting"
    ACTIVE = "active"
    FINISHED = "finished"


class AttemptPhase(StrEnum):
    """Phases of an attempt.

    READY: started, or a rerun was requested; the next turn is due.
    TURN: a turn is under way and no call is open.
    CALLING: a call is open; after a crash its outcome is unknown.
    UNKNOWN: a call was closed without a result.
    JUDGING: the revision is recorded and gates run on it.
    VALIDATED: manifest, summary and outputs were judged.
    FROZEN, FAILED: over.
    """

    READY = "ready"
    TURN = "turn"
    CALLING = "calling"
    UNKNOWN = "unknown"
    JUDGING = "judging"
    VALIDATED = "validated"
    FROZEN = "frozen"
    FAILED = "failed"

    @property
    def over(self) -> bool:
        """Say whether the attempt has ended."""
        return self in (AttemptPhase.FROZEN, AttemptPhase.FAILED)


R, S, A = RunPhase, StagePhase, AttemptPhase

# What a finished run becomes is in the payload of run_finished; `fold` picks the
# phase, the row only says that the step is legal.
RUN_TABLE: dict[tuple[RunPhase, K], RunPhase] = {
    (R.CREATED, K.RUN_STARTED): R.RUNNING,
    (R.RUNNING, K.RUN_PARKED): R.PARKED,
    (R.RUNNING, K.RUN_RESUMED): R.RUNNING,
    (R.RUNNING, K.RUN_CANCELLED): R.CANCELLING,
    (R.RUNNING, K.RUN_FINISHED): R.FINISHED,
    (R.RUNNING, K.APPROVAL_REQUESTED): R.AWAITING_APPROVAL,
    (R.RUNNING, K.APPROVAL_WITHDRAWN): R.RUNNING,
    (R.AWAITING_APPROVAL, K.APPROVAL_REQUESTED): R.AWAITING_APPROVAL,
    (R.AWAITING_APPROVAL, K.APPROVAL_DECIDED): R.RUNNING,
    (R.AWAITING_APPROVAL, K.APPROVAL_EXPIRED): R.AWAITING_APPROVAL,
    (R.AWAITING_APPROVAL, K.APPROVAL_WITHDRAWN): R.RUNNING,
    (R.AWAITING_APPROVAL, K.RUN_PARKED): R.PARKED,
    (R.AWAITING_APPROVAL, K.RUN_RESUMED): R.AWAITING_APPROVAL,
    (R.AWAITING_APPROVAL, K.RUN_CANCELLED): R.CANCELLING,
    (R.PARKED, K.RUN_RESUMED): R.RUNNING,
    (R.PARKED, K.RUN_CANCELLED): R.CANCELLING,
    (R.PARKED, K.APPROVAL_DECIDED): R.PARKED,
    (R.PARKED, K.APPROVAL_WITHDRAWN): R.PARKED,
    (R.CANCELLING, K.RUN_RESUMED): R.CANCELLING,
    (R.CANCELLING, K.APPROVAL_WITHDRAWN): R.CANCELLING,
    (R.CANCELLING, K.RUN_FINISHED): R.CANCELLED,
    **{
        (phase, kind): phase
        for phase in (R.FINISHED, R.FAILED, R.CANCELLED)
        for kind in (K.COMPENSATED, K.CONTENT_ERASED, K.ARCHIVED, K.KNOWLEDGE_RECORDED)
    },
}

STAGE_TABLE: dict[tuple[StagePhase, K], StagePhase] = {
    (S.WAITING, K.ATTEMPT_STARTED): S.ACTIVE,
    (S.WAITING, K.STAGE_FINISHED): S.FINISHED,
    (S.ACTIVE, K.ATTEMPT_STARTED): S.ACTIVE,
    (S.ACTIVE, K.VERIFICATION_RECORDED): S.ACTIVE,
    (S.ACTIVE, K.ARBITRATION_DECIDED): S.ACTIVE,
    (S.ACTIVE, K.PROTECTED_GATE_STARTED): S.ACTIVE,
    (S.ACTIVE, K.PROTECTED_GATE_JUDGED): S.ACTIVE,
    (S.ACTIVE, K.STAGE_FINISHED): S.FINISHED,
}

ATTEMPT_TABLE: dict[tuple[AttemptPhase, K], AttemptPhase] = {
    (A.READY, K.TURN_STARTED): A.TURN,
    (A.READY, K.REVISION_RECORDED): A.JUDGING,
    (A.TURN, K.BUDGET_RESERVED): A.TURN,
    (A.TURN, K.BUDGET_RECONCILED): A.TURN,
    (A.TURN, K.PLANNED): A.TURN,
    (A.TURN, K.TOOL_GATE_DECIDED): A.TURN,
    (A.TURN, K.ENTROPY_USED): A.TURN,
    (A.TURN, K.LABELS_ADDED): A.TURN,
    (A.TURN, K.VIOLATION_RECORDED): A.TURN,
    (A.TURN, K.TURN_STARTED): A.TURN,
    (A.TURN, K.TOOL_CALLED): A.CALLING,
    (A.TURN, K.REVISION_RECORDED): A.JUDGING,
    # A worktree that is no revision cannot be judged: it goes back at once.
    (A.TURN, K.RERUN_REQUESTED): A.READY,
    (A.CALLING, K.TOOL_RETURNED): A.TURN,
    (A.CALLING, K.BUDGET_RECONCILED): A.CALLING,
    (A.CALLING, K.VIOLATION_RECORDED): A.CALLING,
    (A.CALLING, K.EFFECT_UNKNOWN): A.UNKNOWN,
    (A.UNKNOWN, K.BUDGET_RECONCILED): A.UNKNOWN,
    (A.UNKNOWN, K.TOOL_RETURNED): A.TURN,
    (A.JUDGING, K.UNIT_GATE_STARTED): A.JUDGING,
    (A.JUDGING, K.UNIT_GATE_FINISHED): A.JUDGING,
    (A.JUDGING, K.VIOLATION_RECORDED): A.JUDGING,
    (A.JUDGING, K.RERUN_REQUESTED): A.READY,
    (A.JUDGING, K.ARTIFACTS_VALIDATED): A.VALIDATED,
    (A.VALIDATED, K.ARTIFACTS_VALIDATED): A.VALIDATED,
    (A.VALIDATED, K.RERUN_REQUESTED): A.READY,
    (A.VALIDATED, K.VIOLATION_RECORDED): A.VALIDATED,
    (A.VALIDATED, K.ATTEMPT_FROZEN): A.FROZEN,
    **{(phase, K.ATTEMPT_FAILED): A.FAILED for phase in A if not phase.over},
}


def run_after(phase: RunPhase, kind: K) -> RunPhase:
    """Return the run's next phase, or raise IllegalStepError."""
    following = RUN_TABLE.get((phase, kind))
    if following is None:
        raise _illegal("run", phase, kind, {k for p, k in RUN_TABLE if p is phase})
    return following


def stage_after(phase: StagePhase, kind: K) -> StagePhase:
    """Return the stage's next phase, or raise IllegalStepError."""
    following = STAGE_TABLE.get((phase, kind))
    if following is None:
        raise _illegal("stage", phase, kind, {k for p, k in STAGE_TABLE if p is phase})
    return following


def attempt_after(phase: AttemptPhase, kind: K) -> AttemptPhase:
    """Return the attempt's next phase, or raise IllegalStepError."""
    following = ATTEMPT_TABLE.get((phase, kind))
    if following is None:
        raise _illegal("attempt", phase, kind, {k for p, k in ATTEMPT_TABLE if p is phase})
    return following


def _illegal(scope: str, phase: StrEnum, kind: K, legal: set[K]) -> IllegalStepError:
    return IllegalStepError(
        f"step {kind} while the {scope} is {phase}",
        expected="one of " + ", ".join(sorted(legal)) if legal else "no further step",
    )
