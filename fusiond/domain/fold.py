"""`fold`: an ordered prefix of a run's ledger becomes its state. Pure and total.

Any prefix of any legal ledger folds. An illegal step raises IllegalStepError
and changes nothing, since states are immutable. Legality by phase is decided in
`transitions` alone; this module checks chain position and dispatches to the
modules that know the payloads of one scope.
"""

from collections.abc import Iterable

from fusiond.domain.digest import ZERO
from fusiond.domain.errors import IllegalStepError
from fusiond.domain.evolve import replace
from fusiond.domain.fold_run import apply_to_run
from fusiond.domain.fold_stage import apply_to_stage
from fusiond.domain.ids import RunId
from fusiond.domain.state import RunState
from fusiond.domain.steps.record import Head, NewStep, Step


def fold(run: RunId, steps: Iterable[Step]) -> RunState:
    """Fold a prefix of a ledger.

    Args:
        run: whose ledger it is.
        steps: the steps from seq 1 on, in order.

    Raises:
        IllegalStepError: a step is out of place or not allowed where it stands.
    """
    state = RunState(run=run)
    for step in steps:
        state = apply(state, step)
    return state


def apply(state: RunState, step: Step) -> RunState:
    """Fold one more step, or raise IllegalStepError and change nothing."""
    _check_position(state, step)
    after = apply_to_run(state, step) if step.node is None else apply_to_stage(state, step, step.node)
    return replace(after, head=Head(seq=step.seq, hash=step.hash), last_us=max(state.last_us, step.at_us))


def admit(state: RunState, steps: Iterable[NewStep]) -> RunState:
    """Fold steps that are not in the ledger yet, to learn whether they may be.

    The returned state is right but for the hash of its head, which only sealing
    gives; the caller replaces the head after the append.
    """
    head = state.head
    for step in steps:
        placed = Step(
            run=state.run,
            seq=state.head.seq + 1,
            node=step.node,
            attempt=step.attempt,
            payload=step.payload,
            at_us=step.at_us,
            refs=step.refs,
            labels=step.labels,
            cost_uusd=step.cost_uusd,
            idempotency_key=step.idempotency_key,
            prev_hash=state.head.hash,
            hash=ZERO,
        )
        state = apply(state, placed)
    return replace(state, head=Head(seq=state.head.seq, hash=head.hash))


def _check_position(state: RunState, step: Step) -> None:
    if step.run != state.run:
        raise IllegalStepError(f"a step of run {step.run}", expected=f"run {state.run}")
    if step.seq != state.head.seq + 1:
        raise IllegalStepError(
            f"step {step.seq} after step {state.head.seq}", expected=f"step {state.head.seq + 1}"
        )
    if step.prev_hash != state.head.hash:
        raise IllegalStepError(
            f"step {step.seq} follows {step.prev_hash[:12]}",
            expected=state.head.hash[:12],
            state=f"step {state.head.seq}",
        )
