"""The closed vocabulary of ledger steps, in the past tense.

The value is the persisted tag (`engine.md`, Step kinds). Also owns the two
marks that every payload field carries: compared by replay, or only observed.
"""

from enum import StrEnum
from typing import Annotated, TypeVar

from fusiond.domain.records import dataclass


class StepKind(StrEnum):
    """Every kind of step."""

    RUN_STARTED = "run_started"
    RUN_PARKED = "run_parked"
    RUN_RESUMED = "run_resumed"
    RUN_CANCELLED = "run_cancelled"
    RUN_FINISHED = "run_finished"

    ATTEMPT_STARTED = "attempt_started"
    REVISION_RECORDED = "revision_recorded"
    ATTEMPT_FAILED = "attempt_failed"
    ATTEMPT_FROZEN = "attempt_frozen"
    STAGE_FINISHED = "stage_finished"

    TURN_STARTED = "turn_started"
    BUDGET_RESERVED = "budget_reserved"
    PLANNED = "planned"
    BUDGET_RECONCILED = "budget_reconciled"
    TOOL_GATE_DECIDED = "tool_gate_decided"
    TOOL_CALLED = "tool_called"
    TOOL_RETURNED = "tool_returned"
    EFFECT_UNKNOWN = "effect_unknown"
    ENTROPY_USED = "entropy_used"
    LABELS_ADDED = "labels_added"
    VIOLATION_RECORDED = "violation_recorded"

    APPROVAL_REQUESTED = "approval_requested"
    APPROVAL_DECIDED = "approval_decided"
    APPROVAL_EXPIRED = "approval_expired"
    APPROVAL_WITHDRAWN = "approval_withdrawn"

    UNIT_GATE_STARTED = "unit_gate_started"
    UNIT_GATE_FINISHED = "unit_gate_finished"
    RERUN_REQUESTED = "rerun_requested"
    ARTIFACTS_VALIDATED = "artifacts_validated"
    PROTECTED_GATE_STARTED = "protected_gate_started"
    PROTECTED_GATE_JUDGED = "protected_gate_judged"
    VERIFICATION_RECORDED = "verification_recorded"
    ARBITRATION_DECIDED = "arbitration_decided"

    COMPENSATED = "compensated"
    CONTENT_ERASED = "content_erased"
    ARCHIVED = "archived"
    KNOWLEDGE_RECORDED = "knowledge_recorded"


@dataclass(frozen=True, slots=True)
class FieldMark:
    """Says what replay does with a payload field."""

    compared: bool


_T = TypeVar("_T")

Compared = Annotated[_T, FieldMark(compared=True)]
"""A field that replay signatures cover."""

Observed = Annotated[_T, FieldMark(compared=False)]
"""A field that is kept and shown, and never compared."""
