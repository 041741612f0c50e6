"""How much wall clock a run has spent: not while it waits for people, not while no daemon runs."""

import pytest

from fusiond.domain.decide import ceiling, wall_clock_left_us
from fusiond.domain.steps.after import KnowledgeRecorded
from fusiond.domain.steps.attempt import StageOutcome
from fusiond.domain.steps.run import ParkReason, ResumeCause, RunCancelled, RunOutcome, RunParked
from fusiond.domain.steps.turn import Amounts, BudgetReserved
from tests.fakes.chains import START_US, Chain
from tests.fakes.payloads import (
    attempt_started,
    digest,
    limits,
    plan,
    run_finished,
    run_resumed,
    stage_finished,
    turn_started,
)

SECOND_US = 1_000_000
PARKED = RunParked(reason=ParkReason.COST, detail="")
CANCELLED = RunCancelled(by="someone", reason="")


def at(seconds: int) -> int:
    return START_US + seconds * SECOND_US


def spent(chain: Chain, seconds: int) -> float:
    return chain.state.wall_clock_us(at(seconds)) / SECOND_US


def test_it_runs_from_the_start() -> None:
    chain = Chain(plan())
    assert [spent(chain, seconds) for seconds in (0, 7, 100)] == [0, 7, 100]


def test_it_stands_still_while_parked() -> None:
    chain = Chain(plan())
    chain.of_run(PARKED, at_us=at(10))
    assert [spent(chain, seconds) for seconds in (10, 1_000)] == [10, 10]
    chain.of_run(run_resumed(idle_us=990 * SECOND_US), at_us=at(1_000))
    assert [spent(chain, seconds) for seconds in (1_000, 1_005)] == [10, 15]


def test_time_without_a_daemon_does_not_count() -> None:
    chain = Chain(plan())
    chain.of_run(run_resumed(ResumeCause.RESTART, idle_us=90 * SECOND_US), at_us=at(100))
    assert spent(chain, 100) == 10


def test_a_run_that_is_cancelled_while_parked_did_not_work_meanwhile() -> None:
    chain = Chain(plan())
    chain.of_run(PARKED, at_us=at(10))
    chain.of_run(CANCELLED, at_us=at(1_000))
    assert spent(chain, 1_002) == 12


def test_it_ends_with_the_run() -> None:
    chain = Chain(plan())
    chain.of_stage("build", None, stage_finished(StageOutcome.FAILED), at_us=at(8))
    chain.of_run(run_finished(RunOutcome.FAILED), at_us=at(9))
    assert spent(chain, 1_000) == 9


def test_what_is_recorded_after_the_end_is_no_time_that_was_worked() -> None:
    chain = Chain(plan())
    chain.of_stage("build", None, stage_finished(StageOutcome.FAILED), at_us=at(8))
    chain.of_run(run_finished(RunOutcome.FAILED), at_us=at(9))
    chain.of_run(KnowledgeRecorded(increment=digest("increment")), at_us=at(500))
    assert spent(chain, 1_000) == 9


def test_a_clock_that_was_set_back_is_no_negative_time() -> None:
    chain = Chain(plan())
    assert spent(chain, -5) == 0
    chain.of_run(PARKED, at_us=at(-5))
    assert spent(chain, 0) == 0
    chain.of_run(CANCELLED, at_us=at(-9))
    assert spent(chain, 3) == 3
    chain = Chain(plan())
    chain.of_run(run_resumed(ResumeCause.RESTART, idle_us=-SECOND_US), at_us=at(10))
    assert spent(chain, 10) == 10


@pytest.mark.parametrize(
    "seconds,reached,left",
    [(0, None, 60), (59, None, 1), (60, ParkReason.WALL_CLOCK, 0), (99, "wall_clock", 0)],
)
def test_the_ceiling(seconds: int, reached: ParkReason | None, left: int) -> None:
    state = Chain(plan(), within=limits(wall_clock_us=60 * SECOND_US)).state
    assert ceiling(state, at(seconds)) == reached
    assert wall_clock_left_us(state, at(seconds)) == left * SECOND_US


def test_the_wall_clock_is_named_before_other_ceilings() -> None:
    chain = Chain(plan(), within=limits(wall_clock_us=60 * SECOND_US, tokens=5))
    chain.of_stage("build", 1, attempt_started(), turn_started(1))
    chain.of_stage("build", 1, BudgetReserved(reservation=1, amounts=Amounts(tokens=5)))
    assert ceiling(chain.state, at(1)) is ParkReason.TOKENS
    assert ceiling(chain.state, at(60)) is ParkReason.WALL_CLOCK


def test_nothing_is_left_to_wait_for_before_the_start_or_while_parked() -> None:
    chain = Chain()
    assert ceiling(chain.state, at(0)) is None
    assert wall_clock_left_us(chain.state, at(0)) is None
    chain = Chain(plan())
    chain.of_run(PARKED, at_us=at(1))
    assert wall_clock_left_us(chain.state, at(2)) is None
