"""What `decide` asks the shell to do, in the imperative. Records only.

Each effect names the stage it belongs to, so that the shell can keep one
performer per stage. `execution` performs; every performance ends in steps.
"""

from fusiond.domain.artifacts import ProblemCode
from fusiond.domain.digest import ContentRef
from fusiond.domain.ids import AttemptNumber, GateName, NodeId
from fusiond.domain.records import dataclass
from fusiond.domain.steps.attempt import AttemptFailure, BlockReason, StageOutcome
from fusiond.domain.steps.judgement import RerunCause
from fusiond.domain.steps.run import ParkReason, RunOutcome
from fusiond.domain.steps.turn import Locality


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareAttempt:
    """Merge the base, make the tree, run setup, lay inputs; ends in `attempt_started`."""

    node: NodeId
    attempt: AttemptNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTurn:
    """Run the command (or drive the agent) once; `feedback` is set on a rerun."""

    node: NodeId
    attempt: AttemptNumber
    turn: int
    call: int
    feedback: ContentRef | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseUnknown:
    """Record that an open call will never have a result."""

    node: NodeId
    attempt: AttemptNumber
    call: int
    locality: Locality


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRevision:
    """Record tree and outputs before a gate round."""

    node: NodeId
    attempt: AttemptNumber
    round: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGate:
    """Run one unit gate in the attempt's worktree."""

    node: NodeId
    attempt: AttemptNumber
    round: int
    gate: GateName


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRerun:
    """Write the feedback and record that a rerun is spent."""

    node: NodeId
    attempt: AttemptNumber
    number: int
    cause: RerunCause
    gate: GateName | None
    problems: tuple[ProblemCode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeAttempt:
    """Copy, hash, judge the copies, and publish them when nothing is wrong."""

    node: NodeId
    attempt: AttemptNumber
    round: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailAttempt:
    """Record that an attempt is over without success."""

    node: NodeId
    attempt: AttemptNumber
    reason: AttemptFailure
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishStage:
    """Record how a stage ended."""

    node: NodeId
    outcome: StageOutcome
    attempt: AttemptNumber | None
    block: BlockReason | None = None
    dependency: NodeId | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkRun:
    """Record that the run waits; its processes are ended first."""

    reason: ParkReason
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishRun:
    """Merge the result and record how the run ended."""

    outcome: RunOutcome


StageEffect = (
    PrepareAttempt
    | RunTurn
    | CloseUnknown
    | RecordRevision
    | RunGate
    | RequestRerun
    | FreezeAttempt
    | FailAttempt
    | FinishStage
)
RunEffect = ParkRun | FinishRun
Effect = StageEffect | RunEffect
