"""The transition tables say exactly what is written here, row by row, and nothing else is legal."""

from collections.abc import Callable

import pytest

from fusiond.domain.errors import IllegalStepError
from fusiond.domain.steps.kinds import StepKind
from fusiond.domain.transitions import (
    ATTEMPT_TABLE,
    RUN_TABLE,
    STAGE_TABLE,
    AttemptPhase,
    RunPhase,
    StagePhase,
    attempt_after,
    run_after,
    stage_after,
)

AFTERWARDS = ("compensated", "content_erased", "archived", "knowledge_recorded")

RUN_ROWS = {
    "created": {"run_started": "running"},
    "running": {
        "run_parked": "parked",
        "run_resumed": "running",
        "run_cancelled": "cancelling",
        "run_finished": "finished",
        "approval_requested": "awaiting_approval",
        "approval_withdrawn": "running",
    },
    "awaiting_approval": {
        "run_parked": "parked",
        "run_resumed": "awaiting_approval",
        "run_cancelled": "cancelling",
        "approval_requested": "awaiting_approval",
        "approval_decided": "running",
        "approval_expired": "awaiting_approval",
        "approval_withdrawn": "running",
    },
    "parked": {
        "run_resumed": "running",
        "run_cancelled": "cancelling",
        "approval_decided": "parked",
        "approval_withdrawn": "parked",
    },
    "cancelling": {
        "run_resumed": "cancelling",
        "run_finished": "cancelled",
        "approval_withdrawn": "cancelling",
    },
    "finished": dict.fromkeys(AFTERWARDS, "finished"),
    "failed": dict.fromkeys(AFTERWARDS, "failed"),
    "cancelled": dict.fromkeys(AFTERWARDS, "cancelled"),
}

STAGE_ROWS: dict[str, dict[str, str]] = {
    "waiting": {"attempt_started": "active", "stage_finished": "finished"},
    "active": {
        "attempt_started": "active",
        "verification_recorded": "active",
        "arbitration_decided": "active",
        "protected_gate_started": "active",
        "protected_gate_judged": "active",
        "stage_finished": "finished",
    },
    "finished": {},
}

ATTEMPT_ROWS: dict[str, dict[str, str]] = {
    "ready": {"turn_started": "turn", "revision_recorded": "judging", "attempt_failed": "failed"},
    "turn": {
        "turn_started": "turn",
        "budget_reserved": "turn",
        "budget_reconciled": "turn",
        "planned": "turn",
        "tool_gate_decided": "turn",
        "entropy_used": "turn",
        "labels_added": "turn",
        "violation_recorded": "turn",
        "tool_called": "calling",
        "revision_recorded": "judging",
        "rerun_requested": "ready",
        "attempt_failed": "failed",
    },
    "calling": {
        "tool_returned": "turn",
        "budget_reconciled": "calling",
        "violation_recorded": "calling",
        "effect_unknown": "unknown",
        "attempt_failed": "failed",
    },
    "unknown": {"budget_reconciled": "unknown", "tool_returned": "turn", "attempt_failed": "failed"},
    "judging": {
        "unit_gate_started": "judging",
        "unit_gate_finished": "judging",
        "violation_recorded": "judging",
        "rerun_requested": "ready",
        "artifacts_validated": "validated",
        "attempt_failed": "failed",
    },
    "validated": {
        "artifacts_validated": "validated",
        "rerun_requested": "ready",
        "violation_recorded": "validated",
        "attempt_frozen": "frozen",
        "attempt_failed": "failed",
    },
    "frozen": {},
    "failed": {},
}


def legal_after(after: Callable[[StepKind], str]) -> dict[str, str]:
    """Return what follows each kind that is legal, asking for all kinds."""
    found = {}
    for kind in StepKind:
        try:
            found[str(kind)] = str(after(kind))
        except IllegalStepError:
            continue
    return found


@pytest.mark.parametrize("phase", RunPhase)
def test_run_table(phase: RunPhase) -> None:
    assert legal_after(lambda kind: run_after(phase, kind)) == RUN_ROWS[phase]


@pytest.mark.parametrize("phase", StagePhase)
def test_stage_table(phase: StagePhase) -> None:
    assert legal_after(lambda kind: stage_after(phase, kind)) == STAGE_ROWS[phase]


@pytest.mark.parametrize("phase", AttemptPhase)
def test_attempt_table(phase: AttemptPhase) -> None:
    assert legal_after(lambda kind: attempt_after(phase, kind)) == ATTEMPT_ROWS[phase]


def test_every_kind_has_a_row_in_exactly_one_scope() -> None:
    scopes = [{kind for _, kind in table} for table in (RUN_TABLE, STAGE_TABLE, ATTEMPT_TABLE)]
    assert set().union(*scopes) == set(StepKind)
    assert sum(map(len, scopes)) == len(StepKind)


def test_an_ended_run_moves_to_no_other_phase() -> None:
    assert {phase for phase in RunPhase if phase.over} == {"finished", "failed", "cancelled"}
    for (phase, _), following in RUN_TABLE.items():
        assert not phase.over or following is phase


def test_an_ended_attempt_has_no_further_step() -> None:
    assert {phase for phase in AttemptPhase if phase.over} == {"frozen", "failed"}
    assert not any(phase.over for phase, _ in ATTEMPT_TABLE)


def test_a_refusal_names_the_phase_the_step_and_what_is_legal() -> None:
    with pytest.raises(IllegalStepError) as refused:
        attempt_after(AttemptPhase.UNKNOWN, StepKind.TURN_STARTED)
    assert refused.value.sentence() == (
        "step turn_started while the attempt is unknown; "
        "expected one of attempt_failed, budget_reconciled, tool_returned"
    )
    with pytest.raises(IllegalStepError, match="while the stage is finished") as ended:
        stage_after(StagePhase.FINISHED, StepKind.STAGE_FINISHED)
    assert ended.value.expected == "no further step"
