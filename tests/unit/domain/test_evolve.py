"""The fast `replace` does what the standard library's does."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import pytest

from fusiond.domain.evolve import replace
from fusiond.domain.state import AttemptState, RunState, StageState
from fusiond.domain.transitions import AttemptPhase, RunPhase, StagePhase
from tests.fakes.chains import RUN
from tests.fakes.payloads import commit, plan, tree

ATTEMPT = AttemptState(
    number=1,  # type: ignore[arg-type]
    phase=AttemptPhase.READY,
    start_tree=tree("a"),
    start_commit=commit("a"),
)
STAGE = StageState(plan=plan(), attempts=(ATTEMPT,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A record that refuses to be wrong."""

    one: int
    two: int = 2

    def __post_init__(self) -> None:
        if self.one == self.two:
            raise ValueError("equal")


@pytest.mark.parametrize(
    "record, changes",
    [
        (ATTEMPT, {"turn": 3, "phase": AttemptPhase.TURN}),
        (ATTEMPT, {}),
        (STAGE, {"phase": StagePhase.ACTIVE, "attempts": ()}),
        (RunState(run=RUN), {"phase": RunPhase.RUNNING, "idle_us": 5}),
    ],
)
def test_copy_equals_the_slow_one_and_leaves_the_record_alone(record: Any, changes: dict[str, Any]) -> None:
    before = values(record)
    copy = replace(record, **changes)
    assert copy == dataclasses.replace(record, **changes)
    assert type(copy) is type(record)
    assert values(record) == before
    with pytest.raises(dataclasses.FrozenInstanceError):
        copy.phase = None


def values(record: Any) -> list[object]:
    return [getattr(record, each.name) for each in dataclasses.fields(record)]


def test_what_is_no_field_is_refused() -> None:
    with pytest.raises(TypeError, match="AttemptState has no field turns"):
        replace(ATTEMPT, turns=1)  # type: ignore[call-arg]


def test_record_that_checks_itself_is_not_copied_past_its_check() -> None:
    with pytest.raises(TypeError, match="Checked checks itself"):
        replace(Checked(one=1), one=2)
