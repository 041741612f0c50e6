"""Ledgers without storage: steps placed in a chain and folded by the real `fold`.

The hashes are not those of the codec, only as unique.
"""

from collections.abc import Sequence

from fusiond.domain.digest import digest_fields
from fusiond.domain.flow import Limits
from fusiond.domain.fold import apply
from fusiond.domain.ids import AttemptNumber, NodeId, RunId
from fusiond.domain.state import RunState
from fusiond.domain.steps.record import NewStep, Payload, Step
from fusiond.domain.steps.run import StagePlan
from tests.fakes.payloads import run_started

RUN = RunId("01hzy3v8k00ab")
START_US = 1_900_000_000_000_000


def new_step(
    payload: Payload, node: str | None = None, attempt: int | None = None, at_us: int = START_US
) -> NewStep:
    """Return a fact to append."""
    return NewStep(
        node=None if node is None else NodeId(node),
        attempt=None if attempt is None else AttemptNumber(attempt),
        payload=payload,
        at_us=at_us,
    )


def place(state: RunState, step: NewStep) -> Step:
    """Return the step that `step` becomes when it is appended to the ledger that folds to `state`."""
    head = state.head
    fields = (head.hash, str(head.seq), step.payload.kind, str(step.node), str(step.attempt), str(step.at_us))
    return Step(
        run=state.run,
        seq=head.seq + 1,
        node=step.node,
        attempt=step.attempt,
        payload=step.payload,
        at_us=step.at_us,
        refs=step.refs,
        labels=step.labels,
        cost_uusd=step.cost_uusd,
        idempotency_key=step.idempotency_key,
        prev_hash=head.hash,
        hash=digest_fields("test.step", [each.encode() for each in fields]),
    )


class Chain:
    """One run's ledger and the state it folds to, for tests that write steps by hand."""

    def __init__(self, *stages: StagePlan, within: Limits | None = None) -> None:
        self.state = RunState(run=RUN)
        self.steps: list[Step] = []
        if stages:
            self.of_run(run_started(*stages, within=within))

    def of_run(self, *payloads: Payload, at_us: int = START_US) -> RunState:
        """Append facts of the run itself."""
        return self.append([new_step(each, at_us=at_us) for each in payloads])

    def of_stage(self, node: str, attempt: int | None, *payloads: Payload, at_us: int = START_US) -> RunState:
        """Append facts of a stage or, when numbered, of an attempt."""
        return self.append([new_step(each, node, attempt, at_us) for each in payloads])

    def append(self, steps: Sequence[NewStep]) -> RunState:
        """Append all or nothing; IllegalStepError when the core refuses one."""
        state, placed = self.state, list[Step]()
        for step in steps:
            placed.append(place(state, step))
            state = apply(state, placed[-1])
        self.state = state
        self.steps += placed
        return state
