"""The vocabulary of the ledger: every kind of the design's table, each with its payload and its marks."""

from dataclasses import fields
from typing import get_type_hints

import pytest

from fusiond.domain.steps.kinds import FieldMark, StepKind
from fusiond.domain.steps.record import PAYLOADS

# The table "Step kinds" of the engine's design.
RUN = "run_started, run_parked, run_resumed, run_cancelled, run_finished"
STAGE_AND_ATTEMPT = "attempt_started, revision_recorded, attempt_failed, attempt_frozen, stage_finished"
AGENT_TURN = (
    "turn_started, budget_reserved, planned, budget_reconciled, tool_gate_decided, tool_called, "
    "tool_returned, effect_unknown, entropy_used, labels_added, violation_recorded"
)
PEOPLE = "approval_requested, approval_decided, approval_expired, approval_withdrawn"
JUDGEMENT = (
    "unit_gate_started, unit_gate_finished, rerun_requested, artifacts_validated, "
    "protected_gate_started, protected_gate_judged, verification_recorded, arbitration_decided"
)
AFTER = "compensated, content_erased, archived, knowledge_recorded"
TABLE = f"{RUN}, {STAGE_AND_ATTEMPT}, {AGENT_TURN}, {PEOPLE}, {JUDGEMENT}, {AFTER}".split(", ")


def test_the_kinds_are_those_of_the_table() -> None:
    assert sorted(StepKind) == sorted(TABLE)
    assert len(TABLE) == 37


def test_every_kind_has_one_payload_and_every_payload_one_kind() -> None:
    assert sorted(PAYLOADS) == sorted(TABLE)
    assert len(set(PAYLOADS.values())) == len(TABLE)
    assert all(payload.kind is kind for kind, payload in PAYLOADS.items())


@pytest.mark.parametrize("kind", StepKind)
def test_a_payload_says_of_each_field_whether_replay_compares_it(kind: StepKind) -> None:
    payload = PAYLOADS[kind]
    assert payload.v >= 1
    hints = get_type_hints(payload, include_extras=True)
    for each in fields(payload):
        marks = [mark for mark in hints[each.name].__metadata__ if isinstance(mark, FieldMark)]
        assert len(marks) == 1, f"{payload.__name__}.{each.name}"


# What differs between two machines, two moments or two runs of the same thing is never compared.
NEVER_COMPARED = (
    "_us",
    "output",
    "commit",
    "worker",
    "by",
    "path",
    "survivors",
    "detail",
    "nonce",
    "feedback",
)
COMPARED_IN_SPITE_OF_THE_NAME = {
    ("run_started", "base_commit"),
    ("run_resumed", "added_wall_clock_us"),
    ("attempt_frozen", "recorded_by"),
}


@pytest.mark.parametrize("kind", StepKind)
def test_times_ids_people_and_captured_output_are_only_observed(kind: StepKind) -> None:
    hints = get_type_hints(PAYLOADS[kind], include_extras=True)
    for each in fields(PAYLOADS[kind]):
        if (kind, each.name) in COMPARED_IN_SPITE_OF_THE_NAME or not each.name.endswith(NEVER_COMPARED):
            continue
        assert FieldMark(compared=False) in hints[each.name].__metadata__, f"{kind}.{each.name}"


def test_verdicts_exit_codes_trees_and_decisions_are_compared() -> None:
    compared = {
        (str(kind), name)
        for kind, payload in PAYLOADS.items()
        for name, hint in get_type_hints(payload, include_extras=True).items()
        if FieldMark(compared=True) in getattr(hint, "__metadata__", ())
    }
    assert compared >= {
        ("unit_gate_finished", "outcome"),
        ("unit_gate_finished", "exit_code"),
        ("tool_returned", "exit_code"),
        ("tool_returned", "signal"),
        ("tool_gate_decided", "verdict"),
        ("revision_recorded", "tree"),
        ("revision_recorded", "outputs"),
        ("artifacts_validated", "problems"),
        ("attempt_frozen", "artifacts"),
        ("attempt_frozen", "tree"),
        ("arbitration_decided", "arbitration"),
        ("approval_decided", "decision"),
        ("stage_finished", "outcome"),
        ("run_finished", "result_tree"),
    }
