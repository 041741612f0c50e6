"""From raw facts about a process to its outcome; only an exit code of 0 passes."""

import pytest

from fusiond.domain.gates import ProcessOutcome, judge
from fusiond.domain.launch import LaunchEnd, LaunchResult

SPECIAL_EXITS = {
    0: ProcessOutcome.PASSED,
    126: ProcessOutcome.NOT_EXECUTABLE,
    127: ProcessOutcome.NOT_FOUND,
}

ENDS = {
    LaunchEnd.SIGNALLED: ProcessOutcome.SIGNALLED,
    LaunchEnd.TIMED_OUT: ProcessOutcome.TIMED_OUT,
    LaunchEnd.OUTPUT_LIMIT: ProcessOutcome.OUTPUT_LIMIT,
    LaunchEnd.CANCELLED: ProcessOutcome.CANCELLED,
    LaunchEnd.SANDBOX_FAILURE: ProcessOutcome.SANDBOX_FAILURE,
}

REPAIRABLE = {
    ProcessOutcome.FAILED,
    ProcessOutcome.SIGNALLED,
    ProcessOutcome.TIMED_OUT,
    ProcessOutcome.OUTPUT_LIMIT,
}


def test_every_exit_code() -> None:
    outcomes = {code: judge(LaunchResult(end=LaunchEnd.EXITED, exit_code=code)) for code in range(256)}
    assert outcomes == dict.fromkeys(range(256), ProcessOutcome.FAILED) | SPECIAL_EXITS


def test_an_exit_whose_code_was_lost_is_no_pass() -> None:
    assert judge(LaunchResult(end=LaunchEnd.EXITED, exit_code=None)) is ProcessOutcome.SANDBOX_FAILURE


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("code", [None, 0, 1])
def test_what_did_not_exit_is_not_judged_by_an_exit_code(end: LaunchEnd, code: int | None) -> None:
    assert judge(LaunchResult(end=end, exit_code=code, signal=15)) is ENDS[end]


def test_every_end_is_judged() -> None:
    assert set(LaunchEnd) == {*ENDS, LaunchEnd.EXITED}


@pytest.mark.parametrize("outcome", ProcessOutcome)
def test_only_what_the_attempt_did_itself_is_repairable(outcome: ProcessOutcome) -> None:
    assert outcome.repairable is (outcome in REPAIRABLE)
