"""Payloads of the steps of a turn: reservations, plans, calls and what came back.

A `run:` node's command is a call too: local, undone with its worktree.
"""

from dataclasses import field
from enum import StrEnum
from typing import ClassVar

from fusiond.domain.digest import ContentRef, Digest
from fusiond.domain.gates import ProcessOutcome
from fusiond.domain.labels import Labels
from fusiond.domain.records import dataclass
from fusiond.domain.replay_policy import EntropySource, Magnitude
from fusiond.domain.steps.kinds import Compared, Observed, StepKind


class EffectClass(StrEnum):
    """What a tool does to the world."""

    READ = "read"
    WRITE = "write"
    DESTRUCTIVE = "destructive"
    FINANCIAL = "financial"


class Locality(StrEnum):
    """Local calls are undone with the worktree, external ones are not."""

    LOCAL = "local"
    EXTERNAL = "external"


class Verdict(StrEnum):
    """The tool gate's verdicts, weakest first."""

    ALLOW = "allow"
    CONSTRAIN = "constrain"
    REQUIRE_APPROVAL = "require_approval"
    BLOCK = "block"


class CallOutcome(StrEnum):
    """How a tool call ended."""

    OK = "ok"
    FAILED = "failed"
    CANCELLED = "cancelled"


COMMAND_TOOL = "command"
"""The tool name under which a `run:` node's command is recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRef:
    """Captured output.

    Args:
        content: the kept bytes (head and tail without the hole), by digest.
        total_bytes: everything that was written.
        hole: offset and length of what was not kept, None when all was.
    """

    content: ContentRef
    total_bytes: int
    hole: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Quantities that budgets count; 0 where a kind does not apply."""

    tokens: int = 0
    cost_uusd: int = 0
    tool_calls: int = 0
    turns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted:
    """A pass of the session began: the first, or a rerun with feedback."""

    kind: ClassVar[StepKind] = StepKind.TURN_STARTED
    v: ClassVar[int] = 1

    turn: Compared[int]
    feedback: Observed[ContentRef | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReserved:
    """Amounts set aside before a model or tool call."""

    kind: ClassVar[StepKind] = StepKind.BUDGET_RESERVED
    v: ClassVar[int] = 1

    reservation: Compared[int]
    amounts: Observed[Amounts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A model reply or an agent's turn, by reference."""

    kind: ClassVar[StepKind] = StepKind.PLANNED
    v: ClassVar[int] = 1

    turn: Compared[int]
    reply: Observed[ContentRef]
    model: Observed[str]
    stop: Compared[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReconciled:
    """What a reservation really cost."""

    kind: ClassVar[StepKind] = StepKind.BUDGET_RECONCILED
    v: ClassVar[int] = 1

    reservation: Compared[int]
    amounts: Observed[Amounts]
    estimated: Observed[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolGateDecided:
    """The deterministic decision on one proposed call."""

    kind: ClassVar[StepKind] = StepKind.TOOL_GATE_DECIDED
    v: ClassVar[int] = 1

    call: Compared[int]
    tool: Compared[str]
    arguments: Compared[Digest]
    verdict: Compared[Verdict]
    rule: Compared[str]
    policy: Compared[Digest]
    labels: Compared[Labels]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled:
    """A call is about to be made; from here on its outcome may be unknown."""

    kind: ClassVar[StepKind] = StepKind.TOOL_CALLED
    v: ClassVar[int] = 1

    call: Compared[int]
    tool: Compared[str]
    effect: Compared[EffectClass]
    locality: Compared[Locality]
    arguments: Compared[Digest]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReturned:
    """The call's result. For a command `process`, `exit_code` and `signal` are set.

    `detail` says what went wrong where the walls, not the command, ended it.
    """

    kind: ClassVar[StepKind] = StepKind.TOOL_RETURNED
    v: ClassVar[int] = 1

    call: Compared[int]
    outcome: Compared[CallOutcome]
    process: Compared[ProcessOutcome | None] = field(default=None)
    exit_code: Compared[int | None] = field(default=None)
    signal: Compared[int | None] = field(default=None)
    result: Observed[ContentRef | None] = field(default=None)
    output: Observed[OutputRef | None] = field(default=None)
    duration_us: Observed[int] = field(default=0)
    survivors: Observed[int] = field(default=0)
    detail: Observed[str] = field(default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectUnknown:
    """A recorded call has no recorded result and never will."""

    kind: ClassVar[StepKind] = StepKind.EFFECT_UNKNOWN
    v: ClassVar[int] = 1

    call: Compared[int]
    locality: Compared[Locality]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntropyUsed:
    """A non-deterministic source was drawn on."""

    kind: ClassVar[StepKind] = StepKind.ENTROPY_USED
    v: ClassVar[int] = 1

    source: Compared[EntropySource]
    magnitude: Compared[Magnitude]
    who: Compared[str]
    why: Compared[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsAdded:
    """Content of this stage now carries these labels too."""

    kind: ClassVar[StepKind] = StepKind.LABELS_ADDED
    v: ClassVar[int] = 1

    labels: Compared[Labels]
    origin: Compared[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ViolationRecorded:
    """Something was done that no decision allowed, or outside the walls."""

    kind: ClassVar[StepKind] = StepKind.VIOLATION_RECORDED
    v: ClassVar[int] = 1

    rule: Compared[str]
    detail: Observed[str]
