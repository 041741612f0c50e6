"""For a state and a kind of step: the step of that kind which fits best.

Numbers, rounds, gates and digests are those that the state expects, so that
whether the step is legal depends on nothing but its kind and the phases.
"""

from collections.abc import Callable
from dataclasses import dataclass

from fusiond.domain.artifacts import ProblemCode
from fusiond.domain.gates import ProcessOutcome
from fusiond.domain.ids import AttemptNumber, GateName, NodeId
from fusiond.domain.labels import Label
from fusiond.domain.replay_policy import EntropySource, Magnitude
from fusiond.domain.state import AttemptState, RunState, StageState
from fusiond.domain.steps.after import Archived, Compensated, ContentErased, KnowledgeRecorded
from fusiond.domain.steps.attempt import AttemptFailed, AttemptFailure, StageFinished, StageOutcome
from fusiond.domain.steps.judgement import (
    GateVerdict,
    ProtectedGateJudged,
    ProtectedGateStarted,
    RerunCause,
)
from fusiond.domain.steps.kinds import StepKind
from fusiond.domain.steps.people import (
    ApprovalDecided,
    ApprovalDecision,
    ApprovalExpired,
    ApprovalRequested,
    ApprovalWithdrawn,
    Assurance,
)
from fusiond.domain.steps.record import NewStep, Payload
from fusiond.domain.steps.run import ParkReason, ResumeCause, RunCancelled, RunOutcome, RunParked
from fusiond.domain.steps.turn import (
    Amounts,
    BudgetReconciled,
    BudgetReserved,
    EffectUnknown,
    EntropyUsed,
    LabelsAdded,
    Locality,
    Planned,
    ToolGateDecided,
    Verdict,
    ViolationRecorded,
)
from fusiond.domain.transitions import AttemptPhase, RunPhase
from fusiond.domain.verification import VerificationStatus
from tests.fakes import payloads
from tests.fakes.chains import new_step
from tests.fakes.payloads import content, digest, plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the step shall say where the state leaves it open.

    Args:
        ended: how a command or gate ended.
        problems: what validation found.
        code: which code the next revision is of, or is found by the next validation.
        decision: what arbitration says.
        failure: why the attempt is over.
        cause: why a rerun is asked for.
    """

    ended: ProcessOutcome = ProcessOutcome.PASSED
    problems: tuple[ProblemCode, ...] = ()
    code: str = "code"
    decision: VerificationStatus = VerificationStatus.PASS
    failure: AttemptFailure = AttemptFailure.COMMAND_FAILED
    cause: RerunCause = RerunCause.GATE


_NOTHING_SPECIAL = Wish()


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """Where a step is to fit; without an attempt, as if a first one had just started."""

    state: RunState
    stage: StageState
    attempt: AttemptState
    wish: Wish

    @property
    def gate(self) -> GateName:
        """Return the gate that is due."""
        due = self.stage.plan.gates[len(self.attempt.passed) :]
        return due[0] if due else GateName("none")

    @property
    def question(self) -> int:
        """Return the oldest question that waits for a person."""
        return next(iter(self.state.pending_approvals), self.state.requests)

    @property
    def reservation(self) -> int:
        """Return the oldest reservation that is not settled."""
        return next((number for number, _ in self.state.spending.open), 0)

    @property
    def accepted(self) -> bool:
        """Say whether the stage may succeed."""
        frozen = self.attempt.phase is AttemptPhase.FROZEN
        return frozen and self.stage.arbitration is VerificationStatus.PASS


def fitting(kind: StepKind, state: RunState, node: str | None, wish: Wish = _NOTHING_SPECIAL) -> NewStep:
    """Return the step of `kind` that fits `state` best, for the run itself or for a stage."""
    stage = StageState(plan=plan()) if node is None else state.stages[NodeId(node)]
    here = Here(state=state, stage=stage, attempt=stage.latest or _first_attempt(), wish=wish)
    payload = _PAYLOADS[kind](here)
    if node is None:
        return new_step(payload, at_us=state.last_us)
    following = kind is StepKind.ATTEMPT_STARTED and stage.latest is not None
    return new_step(payload, node, here.attempt.number + following, state.last_us)


def _first_attempt() -> AttemptState:
    return AttemptState(
        number=AttemptNumber(1),
        phase=AttemptPhase.READY,
        start_tree=payloads.tree("base"),
        start_commit=payloads.commit("base"),
    )


def _run_finished(here: Here) -> Payload:
    if here.state.phase is RunPhase.CANCELLING:
        return payloads.run_finished(RunOutcome.CANCELLED)
    succeeded = all(each.outcome is StageOutcome.SUCCEEDED for each in here.state.stages.values())
    return payloads.run_finished(RunOutcome.SUCCEEDED if succeeded else RunOutcome.FAILED)


def _stage_finished(here: Here) -> Payload:
    outcome = StageOutcome.SUCCEEDED if here.accepted else StageOutcome.FAILED
    return StageFinished(outcome=outcome, attempt=None if here.stage.latest is None else here.attempt.number)


def _approval_requested(here: Here) -> Payload:
    return ApprovalRequested(
        request=here.state.requests + 1,
        subject="write",
        rule="policy.yaml:3",
        shown=digest("shown"),
        content=content("shown"),
    )


def _approval_decided(here: Here) -> Payload:
    return ApprovalDecided(
        request=here.question,
        shown=digest("shown"),
        decision=ApprovalDecision.APPROVED_ONCE,
        assurance=Assurance.ADVISORY,
        by="someone",
        nonce="nonce",
    )


def _tool_gate_decided(here: Here) -> Payload:
    return ToolGateDecided(
        call=here.attempt.calls + 1,
        tool="write",
        arguments=digest("arguments"),
        verdict=Verdict.ALLOW,
        rule="default",
        policy=digest("policy"),
        labels=frozenset(),
    )


def _protected_gate_judged(here: Here) -> Payload:
    return ProtectedGateJudged(
        gate="acceptance",
        packet=digest("packet"),
        verdict=GateVerdict.PASSED,
        reason="",
        level="evidenced",
        receipt=digest("receipt"),
    )


_PAYLOADS: dict[StepKind, Callable[[Here], Payload]] = {
    StepKind.RUN_STARTED: lambda here: payloads.run_started(plan()),
    StepKind.RUN_PARKED: lambda here: RunParked(reason=ParkReason.TOKENS, detail=""),
    StepKind.RUN_RESUMED: lambda here: payloads.run_resumed(ResumeCause.PERSON),
    StepKind.RUN_CANCELLED: lambda here: RunCancelled(by="someone", reason=""),
    StepKind.RUN_FINISHED: _run_finished,
    StepKind.ATTEMPT_STARTED: lambda here: payloads.attempt_started(),
    StepKind.REVISION_RECORDED: lambda here: payloads.revision_recorded(
        here.attempt.round + 1, here.wish.code
    ),
    StepKind.ATTEMPT_FAILED: lambda here: AttemptFailed(reason=here.wish.failure, detail=""),
    StepKind.ATTEMPT_FROZEN: lambda here: payloads.attempt_frozen(here.wish.code),
    StepKind.STAGE_FINISHED: _stage_finished,
    StepKind.TURN_STARTED: lambda here: payloads.turn_started(here.attempt.turn + 1),
    StepKind.BUDGET_RESERVED: lambda here: BudgetReserved(
        reservation=here.state.head.seq, amounts=Amounts(tokens=1)
    ),
    StepKind.PLANNED: lambda here: Planned(
        turn=here.attempt.turn, reply=content("reply"), model="model", stop="end"
    ),
    StepKind.BUDGET_RECONCILED: lambda here: BudgetReconciled(
        reservation=here.reservation, amounts=Amounts(tokens=1), estimated=False
    ),
    StepKind.TOOL_GATE_DECIDED: _tool_gate_decided,
    StepKind.TOOL_CALLED: lambda here: payloads.tool_called(here.attempt.calls + 1),
    StepKind.TOOL_RETURNED: lambda here: payloads.tool_returned(here.attempt.calls, here.wish.ended),
    StepKind.EFFECT_UNKNOWN: lambda here: EffectUnknown(call=here.attempt.calls, locality=Locality.LOCAL),
    StepKind.ENTROPY_USED: lambda here: EntropyUsed(
        source=EntropySource.EXTERNAL_ORACLE, magnitude=Magnitude.LOW, who="agent", why="a model replied"
    ),
    StepKind.LABELS_ADDED: lambda here: LabelsAdded(labels=frozenset({Label.UNTRUSTED}), origin="web"),
    StepKind.VIOLATION_RECORDED: lambda here: ViolationRecorded(rule="coverage", detail=""),
    StepKind.APPROVAL_REQUESTED: _approval_requested,
    StepKind.APPROVAL_DECIDED: _approval_decided,
    StepKind.APPROVAL_EXPIRED: lambda here: ApprovalExpired(request=here.question),
    StepKind.APPROVAL_WITHDRAWN: lambda here: ApprovalWithdrawn(request=here.question, reason=""),
    StepKind.UNIT_GATE_STARTED: lambda here: payloads.gate_started(here.gate, here.attempt.round),
    StepKind.UNIT_GATE_FINISHED: lambda here: payloads.gate_finished(
        here.gate, here.attempt.round, here.wish.ended
    ),
    StepKind.RERUN_REQUESTED: lambda here: payloads.rerun_requested(here.attempt.reruns + 1, here.wish.cause),
    StepKind.ARTIFACTS_VALIDATED: lambda here: payloads.artifacts_validated(
        here.attempt.round, here.wish.code, here.wish.problems
    ),
    StepKind.PROTECTED_GATE_STARTED: lambda here: ProtectedGateStarted(
        gate="acceptance", packet=digest("packet"), candidate=payloads.commit("candidate")
    ),
    StepKind.PROTECTED_GATE_JUDGED: _protected_gate_judged,
    StepKind.VERIFICATION_RECORDED: lambda here: payloads.verification_recorded(here.wish.decision),
    StepKind.ARBITRATION_DECIDED: lambda here: payloads.arbitration_decided(here.wish.decision),
    StepKind.COMPENSATED: lambda here: Compensated(call=1, tool="write", by="someone"),
    StepKind.CONTENT_ERASED: lambda here: ContentErased(digests=(digest("erased"),), by="someone", reason=""),
    StepKind.ARCHIVED: lambda here: Archived(manifest=digest("manifest"), workspace="intact"),
    StepKind.KNOWLEDGE_RECORDED: lambda here: KnowledgeRecorded(increment=digest("increment")),
}
