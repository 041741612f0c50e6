"""What a performance of an effect ends in, under a script that stands for the outside.

Follows the docstrings of `domain.effects`. Knows no rule of the core; who
performs what, and when, is `simulation`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, assert_never

from fusiond.domain.artifacts import ProblemCode
from fusiond.domain.effects import (
    CloseUnknown,
    FailAttempt,
    FinishStage,
    FreezeAttempt,
    PrepareAttempt,
    RecordRevision,
    RequestRerun,
    RunGate,
    RunTurn,
    StageEffect,
)
from fusiond.domain.gates import ProcessOutcome
from fusiond.domain.ids import AttemptNumber, GateName, NodeId
from fusiond.domain.state import AttemptState, StageState
from fusiond.domain.steps.attempt import (
    AttemptFailed,
    AttemptFailure,
    StageFinished,
    StageOutcome,
)
from fusiond.domain.steps.judgement import RerunCause
from fusiond.domain.steps.record import Payload
from fusiond.domain.steps.turn import Amounts, BudgetReconciled, BudgetReserved, EffectUnknown, Locality
from fusiond.domain.transitions import AttemptPhase
from fusiond.domain.verification import VerificationStatus
from tests.fakes import payloads

UNCOUNTED = (AttemptFailure.INTERRUPTED, AttemptFailure.WORKSPACE_LOST)
"""Ends of attempts that are nobody's failure; the attempt after one repeats it."""


class Place(NamedTuple):
    """Where in a stage something happens: which counted try, and which pass within it, both from 1.

    An attempt that was interrupted and the one that repeats it are the same try.
    """

    node: NodeId
    attempt: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What the outside does.

    Args:
        preparing: stages and counted tries that fail before anything has run, and why.
        commands: how commands end.
        gates: which gate does not pass, and how it ends.
        unrecordable: passes after which the worktree is no revision.
        problems: what validation finds wrong.
        changing: passes in which a gate changes the code that it judges.
        verdicts: what arbitration decides over a stage's frozen attempt.
        conflicts: stages whose bases cannot be merged.
        result_conflicts: the stages' code cannot be merged at the end.
        spent: what every command costs.
        missing_toolchains: what the probe before the first stage misses.
    """

    preparing: Mapping[tuple[NodeId, int], AttemptFailure] = field(default_factory=dict)
    commands: Mapping[Place, ProcessOutcome] = field(default_factory=dict)
    gates: Mapping[tuple[Place, GateName], ProcessOutcome] = field(default_factory=dict)
    unrecordable: frozenset[Place] = frozenset()
    problems: Mapping[Place, tuple[ProblemCode, ...]] = field(default_factory=dict)
    changing: frozenset[Place] = frozenset()
    verdicts: Mapping[NodeId, VerificationStatus] = field(default_factory=dict)
    conflicts: frozenset[NodeId] = frozenset()
    result_conflicts: bool = False
    spent: Amounts = Amounts()
    missing_toolchains: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Performance:
    """One effect under way: the commits it still ends in, and what an early end of its process records."""

    attempt: AttemptNumber | None
    commits: list[tuple[Payload, ...]]
    last_words: tuple[Payload, ...] = ()
    began: bool = False


def performance_of(
    effect: StageEffect,
    stage: StageState,
    script: Script,
    *,
    repair_reruns: int,
    reservation: int,
    lost: bool,
) -> Performance:
    """Begin to perform an effect.

    Args:
        effect: what `decide` asked for.
        stage: the state of its stage now.
        script: how it goes.
        repair_reruns: the flow's limit for each attempt.
        reservation: a number that no reservation of the run has.
        lost: whether the attempt's worktree is gone.
    """
    if lost and isinstance(effect, RunTurn | RecordRevision | RunGate | RequestRerun | FreezeAttempt):
        gone = AttemptFailed(reason=AttemptFailure.WORKSPACE_LOST, detail="the worktree is gone")
        return Performance(attempt=effect.attempt, commits=[(gone,)])
    match effect:
        case PrepareAttempt():
            return _prepare(script, effect, stage)
        case RunTurn():
            return _run_turn(script, effect, _place(stage), reservation)
        case CloseUnknown():
            return _close_unknown(effect)
        case RecordRevision():
            return _record_revision(script, effect, stage, repair_reruns)
        case RunGate():
            return _run_gate(script, effect, _place(stage))
        case RequestRerun():
            rerun = payloads.rerun_requested(effect.number, effect.cause)
            return Performance(attempt=effect.attempt, commits=[(rerun,)])
        case FreezeAttempt():
            return _freeze(script, effect, stage)
        case FailAttempt():
            failed = AttemptFailed(reason=effect.reason, detail=effect.detail)
            return Performance(attempt=effect.attempt, commits=[(failed,)])
        case FinishStage():
            return Performance(attempt=None, commits=[(_stage_finished(effect),)])
        case _:
            assert_never(effect)


def _place(stage: StageState) -> Place:
    latest = stage.latest
    assert latest is not None, "only a stage with an attempt has a place"
    return Place(stage.plan.node, _tries(stage.attempts[:-1]) + 1, latest.reruns + 1)


def _tries(attempts: Sequence[AttemptState]) -> int:
    return sum(1 for each in attempts if each.failure not in UNCOUNTED)


def _code(place: Place) -> str:
    return f"code of {place.node} {place.attempt} {place.number}"


def _prepare(script: Script, effect: PrepareAttempt, stage: StageState) -> Performance:
    if effect.node in script.conflicts:
        conflict = StageFinished(
            outcome=StageOutcome.CODE_CONFLICT, attempt=None, conflict_paths=("shared.txt",)
        )
        return Performance(attempt=None, commits=[(conflict,)])
    begun: tuple[Payload, ...] = (payloads.attempt_started(),)
    if reason := script.preparing.get((effect.node, _tries(stage.attempts) + 1)):
        begun += (AttemptFailed(reason=reason, detail="could not be prepared"),)
    return Performance(attempt=effect.attempt, commits=[begun])


def _run_turn(script: Script, effect: RunTurn, place: Place, reservation: int) -> Performance:
    outcome = script.commands.get(place, ProcessOutcome.PASSED)
    begun: tuple[Payload, ...] = (payloads.turn_started(effect.turn, effect.feedback),)
    settled: tuple[Payload, ...] = ()
    if script.spent != Amounts():
        begun += (BudgetReserved(reservation=reservation, amounts=script.spent),)
        settled = (BudgetReconciled(reservation=reservation, amounts=script.spent, estimated=False),)
    return Performance(
        attempt=effect.attempt,
        commits=[
            (*begun, payloads.tool_called(effect.call)),
            (payloads.tool_returned(effect.call, outcome), *settled),
        ],
        last_words=(payloads.tool_returned(effect.call, ProcessOutcome.CANCELLED), *settled),
    )


def _close_unknown(effect: CloseUnknown) -> Performance:
    unknown = EffectUnknown(call=effect.call, locality=effect.locality)
    failed = AttemptFailed(reason=AttemptFailure.INTERRUPTED, detail="outcome unknown")
    local = effect.locality is Locality.LOCAL
    return Performance(attempt=effect.attempt, commits=[(unknown,), (failed,)] if local else [(unknown,)])


def _record_revision(
    script: Script, effect: RecordRevision, stage: StageState, repair_reruns: int
) -> Performance:
    place, latest = _place(stage), stage.latest
    assert latest is not None
    recorded: Payload = payloads.revision_recorded(effect.round, _code(place))
    # When only the gates are to run again, nothing has written since the last revision.
    if place in script.unrecordable and latest.phase is AttemptPhase.TURN:
        recorded = AttemptFailed(reason=AttemptFailure.CONTRACT_UNMET, detail="no revision")
        if latest.reruns < repair_reruns:
            recorded = payloads.rerun_requested(latest.reruns + 1, RerunCause.CONTRACT)
    return Performance(attempt=effect.attempt, commits=[(recorded,)])


def _run_gate(script: Script, effect: RunGate, place: Place) -> Performance:
    outcome = script.gates.get((place, effect.gate), ProcessOutcome.PASSED)
    return Performance(
        attempt=effect.attempt,
        commits=[
            (payloads.gate_started(effect.gate, effect.round),),
            (payloads.gate_finished(effect.gate, effect.round, outcome),),
        ],
    )


def _freeze(script: Script, effect: FreezeAttempt, stage: StageState) -> Performance:
    place, latest = _place(stage), stage.latest
    assert latest is not None
    assert latest.tree is not None
    assert latest.outputs is not None
    problems = script.problems.get(place, ())
    found = payloads.artifacts_validated(effect.round, f"changed {_code(place)}", problems)
    if place not in script.changing:
        found = replace(found, tree=latest.tree, outputs=latest.outputs)
    performance = Performance(attempt=effect.attempt, commits=[(found,)])
    if not problems and place not in script.changing:
        frozen = replace(payloads.attempt_frozen(), tree=latest.tree)
        status = script.verdicts.get(place.node, VerificationStatus.PASS)
        judged = (payloads.verification_recorded(status), payloads.arbitration_decided(status))
        performance.commits.append((frozen, *judged))
    return performance


def _stage_finished(effect: FinishStage) -> StageFinished:
    return StageFinished(
        outcome=effect.outcome,
        attempt=effect.attempt,
        block=effect.block,
        dependency=effect.dependency,
        detail=effect.detail,
    )
