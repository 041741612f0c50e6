"""Which steps of an attempt a restart or a drain made the engine record twice: only the last of them counts.

The same flow, stopped and started again within an attempt, is the same flow
(`fusiond/design/0002`, point 4). What was begun anew is left out; what really happened twice,
such as a rerun after a red gate, is not.
"""

from collections.abc import Iterable

from fusiond.domain.evolve import replace
from fusiond.domain.gates import ProcessOutcome
from fusiond.domain.ids import AttemptNumber, NodeId
from fusiond.domain.records import dataclass
from fusiond.domain.steps.judgement import ArtifactsValidated, UnitGateFinished, UnitGateStarted
from fusiond.domain.steps.record import Step
from fusiond.domain.steps.turn import CallOutcome, Locality, ToolCalled, ToolReturned, TurnStarted

Place = tuple[NodeId | None, AttemptNumber | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """What an attempt has begun and may begin again.

    Args:
        turn: steps of the newest turn while it is a single command's.
        cancelled: whether that command was ended by us.
        gate: name and round of the newest gate, with its steps, while it may be repeated.
        validated: the newest validation, while nothing came after it.
    """

    turn: tuple[int, ...] = ()
    cancelled: bool = False
    gate: tuple[str, int, tuple[int, ...]] | None = None
    validated: Step | None = None


def repeated(steps: Iterable[Step]) -> frozenset[int]:
    """Return the positions of steps that were recorded again by a later one of the same attempt."""
    begun: dict[Place, _Begun] = {}
    dropped: set[int] = set()
    for step in steps:
        if step.attempt is not None:
            place = (step.node, step.attempt)
            begun[place] = _after(begun.get(place, _Begun()), step, dropped)
    return frozenset(dropped)


def _after(begun: _Begun, step: Step, dropped: set[int]) -> _Begun:
    match step.payload:
        case TurnStarted():
            if begun.cancelled:
                dropped.update(begun.turn)
            return _Begun(turn=(step.seq,))
        case ToolCalled(locality=Locality.LOCAL):
            # Of a turn of many calls the earlier ones were no command's: it is kept whole, and so is
            # one that reached outside: a restart does not take that back.
            return _Begun(turn=_longer(begun, step, 1))
        case ToolReturned(outcome=outcome):
            turn = _longer(begun, step, 2)
            return _Begun(turn=turn, cancelled=bool(turn) and outcome is CallOutcome.CANCELLED)
        case UnitGateStarted() as started:
            if begun.gate is not None and begun.gate[:2] == (started.gate, started.round):
                dropped.update(begun.gate[2])
            return _Begun(gate=(started.gate, started.round, (step.seq,)))
        case UnitGateFinished(outcome=ProcessOutcome.CANCELLED) if begun.gate is not None:
            gate, number, positions = begun.gate
            return _Begun(gate=(gate, number, (*positions, step.seq)))
        case ArtifactsValidated() as validated:
            earlier = begun.validated
            if earlier is not None and _unreported(earlier.payload) == _unreported(validated):
                dropped.add(earlier.seq)
            return _Begun(validated=step)
        case _:
            return _Begun()


def _longer(begun: _Begun, step: Step, length: int) -> tuple[int, ...]:
    return (*begun.turn, step.seq) if len(begun.turn) == length else ()


def _unreported(payload: object) -> object:
    return replace(payload, report=None) if isinstance(payload, ArtifactsValidated) else payload
