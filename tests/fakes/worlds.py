"""Hypothesis strategies for everything that can happen to a run: plans, limits, scripts, schedules, events."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from hypothesis import strategies as st

from fusiond.domain.artifacts import ProblemCode
from fusiond.domain.flow import Limits
from fusiond.domain.gates import ProcessOutcome
from fusiond.domain.ids import GateName, NodeId
from fusiond.domain.steps.attempt import AttemptFailure
from fusiond.domain.steps.run import StagePlan
from fusiond.domain.steps.turn import Amounts
from fusiond.domain.verification import VerificationStatus
from tests.fakes.payloads import limits, plan
from tests.fakes.performances import Place, Script
from tests.fakes.simulation import PACE_US, Event, Playbook

MAX_STAGES = 4
MAX_ATTEMPTS = 2
MAX_RERUNS = 2

T = TypeVar("T")
Events = Mapping[int, Event]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One plan with everything that the outside will do to it."""

    stages: tuple[StagePlan, ...]
    within: Limits
    script: Script
    schedule: tuple[int, ...]

    def book(self, watch: Callable[[Playbook], None] = lambda book: None) -> Playbook:
        """Return a run of this world, just started."""
        return Playbook(*self.stages, within=self.within, script=self.script, watch=watch)

    def bound(self, events: Events | None = None) -> int:
        """Return a number of ticks within which the run must be over.

        Each interruption makes each stage repeat one try at most; each park ends
        processes that begin again, and a resume at least doubles what the park ran out of.
        """
        passes = self.within.repair_reruns + 1
        tries = sum(passes * (2 * len(each.gates) + 5) + 8 for each in self.stages)
        parks = 3 * (8 * len(self.stages) + 8)
        return (MAX_ATTEMPTS + len(events or {}) + 8) * tries + parks + len(events or {})


NODES = tuple(NodeId(f"n{number}") for number in range(MAX_STAGES))
GATES = (GateName("lint"), GateName("unit"))

# Strategies are made once: making them costs more than drawing from them. Places outside the plan
# that is drawn with them are never reached.
_PLACES = st.builds(
    Place,
    node=st.sampled_from(NODES),
    attempt=st.integers(1, MAX_ATTEMPTS),
    number=st.integers(1, MAX_RERUNS + 1),
)
# What a command or gate can come to by itself. CANCELLED is what the shell does to it.
_ENDS = st.sampled_from([each for each in ProcessOutcome if each is not ProcessOutcome.CANCELLED])
_REPAIRABLE = st.sampled_from([each for each in ProcessOutcome if each.repairable])
_UNPREPARED = st.sampled_from(
    [
        AttemptFailure.SETUP_FAILED,
        AttemptFailure.ISOLATION_FAILED,
        AttemptFailure.INPUT_CORRUPT,
        AttemptFailure.STORAGE,
    ]
)
_PROBLEMS = st.lists(st.sampled_from(ProblemCode), min_size=1, max_size=2).map(tuple)


def _rarely(usual: T, rare: st.SearchStrategy[T]) -> st.SearchStrategy[T]:
    return st.integers(0, 7).flatmap(lambda number: rare if number == 7 else st.just(usual))


# Most goes well, and most of what does not can be repaired, so that runs get far.
_SCRIPTS = st.builds(
    Script,
    preparing=_rarely(
        {}, st.dictionaries(st.tuples(st.sampled_from(NODES), st.integers(1, 2)), _UNPREPARED, max_size=2)
    ),
    commands=st.dictionaries(_PLACES, _ENDS, max_size=2),
    gates=st.dictionaries(
        st.tuples(_PLACES, st.sampled_from(GATES)), st.one_of(_REPAIRABLE, _ENDS), max_size=4
    ),
    problems=st.dictionaries(_PLACES, _PROBLEMS, max_size=3),
    changing=st.frozensets(_PLACES, max_size=3),
    unrecordable=st.frozensets(_PLACES, max_size=1),
    verdicts=_rarely({}, st.dictionaries(st.sampled_from(NODES), st.sampled_from(VerificationStatus))),
    conflicts=_rarely(frozenset(), st.frozensets(st.sampled_from(NODES), max_size=2)),
    result_conflicts=_rarely(usual=False, rare=st.just(value=True)),
    missing_toolchains=_rarely((), st.just(("go >=1.22",))),
    spent=st.sampled_from([Amounts(), Amounts(tokens=100, cost_uusd=7, tool_calls=1)]),
)


def _plan_of(shape: list[tuple[frozenset[int], int, int]]) -> tuple[StagePlan, ...]:
    return tuple(
        plan(
            NODES[position],
            needs=[NODES[each] for each in sorted(needs) if each < position],
            gates=GATES[:gates],
            attempts=attempts,
        )
        for position, (needs, gates, attempts) in enumerate(shape)
    )


_PLANS = st.lists(
    st.tuples(st.frozensets(st.integers(0, MAX_STAGES - 2)), st.integers(0, 2), st.integers(1, MAX_ATTEMPTS)),
    min_size=1,
    max_size=MAX_STAGES,
).map(_plan_of)
"""Random graphs: each stage may need any of those before it."""

_UNBOUNDED = st.builds(limits, repair_reruns=st.integers(0, MAX_RERUNS), parallel=st.integers(1, 3))
_BOUNDED = st.builds(
    limits,
    repair_reruns=st.integers(0, MAX_RERUNS),
    parallel=st.integers(1, 3),
    wall_clock_us=st.integers(8, 60).map(lambda ticks: ticks * PACE_US),
    tokens=st.one_of(st.none(), st.integers(1, 1_000)),
    cost_uusd=st.one_of(st.none(), st.integers(1, 70)),
    tool_calls=st.one_of(st.none(), st.integers(1, 10)),
)
_SCHEDULES = st.lists(st.integers(0, MAX_STAGES), min_size=1, max_size=6).map(tuple)

worlds = st.builds(World, stages=_PLANS, within=_UNBOUNDED, script=_SCRIPTS, schedule=_SCHEDULES)
"""Worlds in which nothing parks a run."""

bounded_worlds = st.builds(World, stages=_PLANS, within=_BOUNDED, script=_SCRIPTS, schedule=_SCHEDULES)
"""Worlds with ceilings that a run may reach, so that it parks and is resumed."""


def events(*kinds: Event, max_size: int = 4) -> st.SearchStrategy[Events]:
    """What happens to the daemon, by tick; every kind of event unless some are named."""
    return st.dictionaries(st.integers(0, 60), st.sampled_from(kinds or tuple(Event)), max_size=max_size)
