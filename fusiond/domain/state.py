"""The state that a ledger folds to: records only.

`fold` makes it, `decide` reads it. It grows with the flow's stages and their
attempts, never with the number of turns, so that a turn costs the same however
long a run gets.
"""

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType

from fusiond.domain.artifacts import FrozenArtifact, ProblemCode
from fusiond.domain.budgets import Spending
from fusiond.domain.digest import ContentRef, Digest
from fusiond.domain.flow import Limits
from fusiond.domain.gates import ProcessOutcome
from fusiond.domain.ids import AttemptNumber, CommitId, GateName, NodeId, RunId, TreeId
from fusiond.domain.labels import NONE, Labels
from fusiond.domain.launch import Isolation
from fusiond.domain.records import dataclass
from fusiond.domain.steps.attempt import AttemptFailure, BlockReason, LaidInput, StageOutcome
from fusiond.domain.steps.judgement import RerunCause
from fusiond.domain.steps.record import Head
from fusiond.domain.steps.run import ParkReason, RunOutcome, RunStarted, StagePlan
from fusiond.domain.steps.turn import Locality, OutputRef
from fusiond.domain.transitions import AttemptPhase, RunPhase, StagePhase
from fusiond.domain.verification import VerificationStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCall:
    """A recorded call without a recorded result."""

    call: int
    tool: str
    locality: Locality


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command or a gate ended, with where its output is and, for broken walls, what broke."""

    outcome: ProcessOutcome
    exit_code: int | None
    signal: int | None
    output: OutputRef | None
    duration_us: int
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRun:
    """The outcome of one gate in one round."""

    gate: GateName
    round: int
    ended: Ended


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptState:
    """One attempt.

    Args:
        turn: number of the newest turn, 0 before the first.
        reruns: how many of the flow's repair reruns it has spent.
        calls: how many calls were made; the next call's number less one.
        command: how the newest turn's command ended, None while it is due or under way.
        round: number of the newest gate round, 0 before the first.
        tree, outputs: what was recorded before that round.
        passed: gates that passed in that round, in order.
        failed_gate: the gate that stopped that round.
        last_gates: the newest run of every gate, for people.
        problems: contract problems of the newest validation, None before one.
        validated, validated_tree: what was recorded when they were validated.
        rerun_cause: why the newest rerun was asked for.
        violations: what was done outside the walls or without a decision, the newest 20.
    """

    number: AttemptNumber
    phase: AttemptPhase
    start_tree: TreeId
    start_commit: CommitId
    inputs: tuple[LaidInput, ...] = ()
    setup_key: Digest | None = None
    isolation: Isolation = Isolation.SUBREAPER
    started_us: int = 0
    ended_us: int | None = None
    turn: int = 0
    reruns: int = 0
    calls: int = 0
    open_call: OpenCall | None = None
    command: Ended | None = None
    feedback: ContentRef | None = None
    round: int = 0
    tree: TreeId | None = None
    outputs: Digest | None = None
    passed: tuple[GateName, ...] = ()
    open_gate: GateName | None = None
    failed_gate: GateRun | None = None
    last_gates: tuple[GateRun, ...] = ()
    problems: tuple[ProblemCode, ...] | None = None
    validated: Digest | None = None
    validated_tree: TreeId | None = None
    rerun_cause: RerunCause | None = None
    report: ContentRef | None = None
    failure: AttemptFailure | None = None
    detail: str = ""
    failure_output: OutputRef | None = None
    artifacts: tuple[FrozenArtifact, ...] = ()
    manifest: Digest | None = None
    summary: Digest | None = None
    commit: CommitId | None = None
    violations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StageState:
    """One stage and its attempts, oldest first."""

    plan: StagePlan
    phase: StagePhase = StagePhase.WAITING
    attempts: tuple[AttemptState, ...] = ()
    outcome: StageOutcome | None = None
    block: BlockReason | None = None
    dependency: NodeId | None = None
    conflict_paths: tuple[str, ...] = ()
    detail: str = ""
    arbitration: VerificationStatus | None = None
    labels: Labels = NONE
    finished_us: int | None = None

    @property
    def latest(self) -> AttemptState | None:
        """Return the newest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def frozen(self) -> AttemptState | None:
        """Return the attempt whose version downstream reads, once the stage succeeded."""
        if self.outcome is not StageOutcome.SUCCEEDED:
            return None
        return next((a for a in reversed(self.attempts) if a.phase is AttemptPhase.FROZEN), None)


def _no_stages() -> Mapping[NodeId, StageState]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """A whole run.

    Args:
        head: position and hash of the newest folded step.
        started: the payload that pins everything, None before it.
        limits: the frozen limits plus what people added on resuming.
        started_us, last_us: wall clock of the first and the newest step.
        idle_us: time that does not count as wall clock: parked, or no daemon.
        waiting_since_us: set while the run is parked.
        ended_us: wall clock of `run_finished`; later steps do not move it.
        pending_approvals: requests without a decision, oldest first.
        requests: how many approvals were ever asked for.
    """

    run: RunId
    head: Head = Head()
    phase: RunPhase = RunPhase.CREATED
    started: RunStarted | None = None
    limits: Limits | None = None
    stages: Mapping[NodeId, StageState] = field(default_factory=_no_stages)
    started_us: int = 0
    last_us: int = 0
    idle_us: int = 0
    waiting_since_us: int | None = None
    ended_us: int | None = None
    park_reason: ParkReason | None = None
    park_detail: str = ""
    pending_approvals: tuple[int, ...] = ()
    requests: int = 0
    spending: Spending = Spending()
    outcome: RunOutcome | None = None
    result_commit: CommitId | None = None
    result_tree: TreeId | None = None
    conflict_paths: tuple[str, ...] = ()
    erased: frozenset[Digest] = frozenset()
    archived: bool = False

    def wall_clock_us(self, now_us: int) -> int:
        """Return the wall clock spent so far: not while parked, not while no daemon ran."""
        until = self.waiting_since_us if self.waiting_since_us is not None else now_us
        if self.ended_us is not None:
            until = self.ended_us
        return max(0, until - self.started_us - self.idle_us)
