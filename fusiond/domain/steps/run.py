"""Payloads of the steps of a whole run."""

from dataclasses import field
from enum import StrEnum
from typing import ClassVar

from fusiond.domain.digest import ContentRef, Digest
from fusiond.domain.flow import CodeAccess, FlowState, Limits, NodeKind, RunMode
from fusiond.domain.ids import CommitId, GateName, NodeId, RunId, TenantId, TreeId
from fusiond.domain.records import dataclass
from fusiond.domain.replay_policy import Determinism, EntropyBudget, ReplayContract
from fusiond.domain.steps.kinds import Compared, Observed, StepKind


class RunOutcome(StrEnum):
    """How a run ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"


class ParkReason(StrEnum):
    """What a parked run waits for."""

    WALL_CLOCK = "wall_clock"
    TOKENS = "tokens"
    COST = "cost"
    TOOL_CALLS = "tool_calls"
    APPROVAL_AGE = "approval_age"
    CONTENT_MISSING = "content_missing"
    UNKNOWN_OUTCOME = "unknown_outcome"
    STORAGE = "storage"
    INTERNAL_ERROR = "internal_error"


class ResumeCause(StrEnum):
    """Why a run goes on."""

    PERSON = "person"
    RESTART = "restart"


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """What `decide` must know of a stage; the full node is in the resolved flow."""

    node: NodeId
    kind: NodeKind
    needs: tuple[NodeId, ...]
    gates: tuple[GateName, ...]
    code: CodeAccess
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """A run began; everything that must not move later is pinned here.

    `search_path` is the PATH of whoever submitted, so that commands find the
    tools that person sees, also after a restart of the daemon. `cores` is how many
    stages run at once where the limits leave that to the machine.
    """

    kind: ClassVar[StepKind] = StepKind.RUN_STARTED
    v: ClassVar[int] = 1

    tenant: Compared[TenantId]
    flow: Compared[str]
    flow_state: Compared[FlowState]
    mode: Compared[RunMode]
    determinism: Compared[Determinism]
    resolver: Compared[str]
    plan_hash: Compared[Digest]
    plan: Observed[ContentRef]
    stages: Compared[tuple[StagePlan, ...]]
    base_commit: Compared[CommitId]
    base_tree: Compared[TreeId]
    agent_definitions: Compared[tuple[tuple[str, Digest], ...]]
    policy_hash: Compared[Digest]
    verification_policy_hash: Compared[Digest]
    environment: Compared[tuple[tuple[str, str], ...]]
    missing_toolchains: Compared[tuple[str, ...]]
    datasets: Compared[tuple[tuple[str, Digest], ...]]
    inputs: Compared[tuple[tuple[str, Digest], ...]]
    limits: Compared[Limits]
    replay: Compared[ReplayContract]
    entropy: Compared[EntropyBudget]
    input_refs: Observed[tuple[tuple[str, ContentRef], ...]]
    flow_path: Observed[str]
    submitted_by: Observed[str]
    search_path: Observed[str]
    cores: Observed[int] = field(default=1)
    parent: Observed[RunId | None] = field(default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParked:
    """The run waits for a person or a resource and keeps everything."""

    kind: ClassVar[StepKind] = StepKind.RUN_PARKED
    v: ClassVar[int] = 1

    reason: Compared[ParkReason]
    detail: Observed[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResumed:
    """The run goes on: after a restart, or because a person said so.

    `idle_us` is the time to leave out of the wall clock; the `added_*` fields
    are a person's recorded widening of a limit.
    """

    kind: ClassVar[StepKind] = StepKind.RUN_RESUMED
    v: ClassVar[int] = 1

    cause: Compared[ResumeCause]
    idle_us: Observed[int]
    by: Observed[str]
    added_wall_clock_us: Compared[int] = field(default=0)
    added_tokens: Compared[int] = field(default=0)
    added_cost_uusd: Compared[int] = field(default=0)
    added_tool_calls: Compared[int] = field(default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCancelled:
    """A person asked for the end of the run."""

    kind: ClassVar[StepKind] = StepKind.RUN_CANCELLED
    v: ClassVar[int] = 1

    by: Observed[str]
    reason: Observed[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished:
    """The run is over; the trace ends here.

    `conflict_paths` are set where the stages' code could not be merged.
    """

    kind: ClassVar[StepKind] = StepKind.RUN_FINISHED
    v: ClassVar[int] = 1

    outcome: Compared[RunOutcome]
    result_tree: Compared[TreeId | None]
    result_commit: Observed[CommitId | None]
    conflict_paths: Compared[tuple[str, ...]] = field(default=())
