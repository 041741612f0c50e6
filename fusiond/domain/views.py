"""What people and clients are shown of a run: records derived from its state.

Messages embed these records, so that every client shows the same facts. Owns
no wording beyond what is in the state; untrusted text is made safe where it is
displayed.
"""

from fusiond.domain.artifacts import FrozenArtifact
from fusiond.domain.gates import ProcessOutcome
from fusiond.domain.ids import AttemptNumber, CommitId, NodeId, RunId, TenantId, TreeId
from fusiond.domain.records import dataclass
from fusiond.domain.state import AttemptState, Ended, RunState, StageState
from fusiond.domain.steps.attempt import StageOutcome
from fusiond.domain.steps.run import RunOutcome
from fusiond.domain.steps.turn import OutputRef
from fusiond.domain.transitions import AttemptPhase, RunPhase


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One line of a list of runs.

    `status` is the outcome once there is one, else the phase; `stages_done` succeeded.
    "unreadable" is said of a run
    that this version cannot read, with the reason in `unreadable` and no phase.
    """

    run: RunId
    tenant: TenantId
    flow: str
    phase: RunPhase | None
    outcome: RunOutcome | None
    status: str
    stages_done: int
    stages: int
    started_us: int
    updated_us: int
    head_seq: int
    unreadable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedView:
    """How a command or gate ended."""

    name: str
    turn_or_round: int
    outcome: ProcessOutcome
    exit_code: int | None
    signal: int | None
    output: OutputRef | None
    duration_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """One attempt as shown."""

    number: AttemptNumber
    phase: AttemptPhase
    doing: str
    reruns: int
    turn: int
    round: int
    failure: str
    detail: str
    command: EndedView | None
    gates: tuple[EndedView, ...]
    problems: tuple[str, ...]
    setup_output: OutputRef | None
    artifacts: tuple[FrozenArtifact, ...]
    commit: CommitId | None
    tree: TreeId | None
    isolation: str
    started_us: int
    ended_us: int | None
    violations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StageView:
    """One stage as shown. `status` is the outcome once there is one, else the phase."""

    node: NodeId
    kind: str
    needs: tuple[NodeId, ...]
    status: str
    block: str
    dependency: NodeId | None
    conflict_paths: tuple[str, ...]
    detail: str
    attempts: tuple[AttemptView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetail:
    """A whole run as shown."""

    summary: RunSummary
    plan_hash: str
    base_commit: CommitId | None
    result_commit: CommitId | None
    conflict_paths: tuple[str, ...]
    park_reason: str
    park_detail: str
    wall_clock_us: int
    repair_reruns: int
    stages: tuple[StageView, ...]


def summary_of(state: RunState) -> RunSummary:
    """Return the list line of a run."""
    stages = state.stages.values()
    started = state.started
    return RunSummary(
        run=state.run,
        tenant=TenantId("") if started is None else started.tenant,
        flow="" if started is None else started.flow,
        phase=state.phase,
        outcome=state.outcome,
        status=str(state.outcome or state.phase),
        stages_done=sum(1 for stage in stages if stage.outcome is StageOutcome.SUCCEEDED),
        stages=len(stages),
        started_us=state.started_us,
        updated_us=state.last_us,
        head_seq=state.head.seq,
    )


def detail_of(state: RunState, now_us: int) -> RunDetail:
    """Return everything a run's screen shows."""
    started = state.started
    return RunDetail(
        summary=summary_of(state),
        plan_hash="" if started is None else started.plan_hash,
        base_commit=None if started is None else started.base_commit,
        result_commit=state.result_commit,
        conflict_paths=state.conflict_paths,
        park_reason=state.park_reason or "",
        park_detail=state.park_detail,
        wall_clock_us=state.wall_clock_us(now_us),
        repair_reruns=0 if state.limits is None else state.limits.repair_reruns,
        stages=tuple(_stage_view(stage) for stage in state.stages.values()),
    )


def _stage_view(stage: StageState) -> StageView:
    return StageView(
        node=stage.plan.node,
        kind=stage.plan.kind,
        needs=stage.plan.needs,
        status=str(stage.outcome or stage.phase),
        block=stage.block or "",
        dependency=stage.dependency,
        conflict_paths=stage.conflict_paths,
        detail=stage.detail,
        attempts=tuple(_attempt_view(stage, attempt) for attempt in stage.attempts),
    )


def _attempt_view(stage: StageState, attempt: AttemptState) -> AttemptView:
    return AttemptView(
        number=attempt.number,
        phase=attempt.phase,
        doing=_doing(stage, attempt),
        reruns=attempt.reruns,
        turn=attempt.turn,
        round=attempt.round,
        failure=attempt.failure or "",
        detail=attempt.detail,
        command=None if attempt.command is None else _ended("command", attempt.turn, attempt.command),
        gates=tuple(_ended(run.gate, run.round, run.ended) for run in attempt.last_gates),
        problems=tuple(attempt.problems or ()),
        setup_output=attempt.failure_output,
        artifacts=attempt.artifacts,
        commit=attempt.commit,
        tree=attempt.tree,
        isolation=attempt.isolation,
        started_us=attempt.started_us,
        ended_us=attempt.ended_us,
        violations=attempt.violations,
    )


def _doing(stage: StageState, attempt: AttemptState) -> str:
    if attempt.phase.over:
        return ""
    if attempt.phase is AttemptPhase.JUDGING:
        due = attempt.open_gate or next(iter(stage.plan.gates[len(attempt.passed) :]), None)
        return f"gate {due}" if due else "validating"
    return _DOING[attempt.phase]


_DOING = {
    AttemptPhase.READY: "starting",
    AttemptPhase.TURN: "between steps",
    AttemptPhase.CALLING: "command",
    AttemptPhase.UNKNOWN: "outcome unknown",
    AttemptPhase.VALIDATED: "freezing",
}


def _ended(name: str, number: int, ended: Ended) -> EndedView:
    return EndedView(
        name=name,
        turn_or_round=number,
        outcome=ended.outcome,
        exit_code=ended.exit_code,
        signal=ended.signal,
        output=ended.output,
        duration_us=ended.duration_us,
    )
