"""Payloads of the steps in which people take part."""

from dataclasses import field
from enum import StrEnum
from typing import ClassVar

from fusiond.domain.digest import ContentRef, Digest
from fusiond.domain.records import dataclass
from fusiond.domain.steps.kinds import Compared, Observed, StepKind


class ApprovalDecision(StrEnum):
    """What a person can decide (`governance.md`, Approvals)."""

    APPROVED_ONCE = "approved_once"
    APPROVED_FOR_RUN = "approved_for_run"
    EDITED = "edited"
    REJECTED = "rejected"
    RESOLVED_DONE = "resolved_done"
    RESOLVED_NOT_DONE = "resolved_not_done"


class Assurance(StrEnum):
    """How sure it is that a person decided."""

    ADVISORY = "advisory"
    SEPARATED = "separated"
    SIGNED = "signed"
    PRESENCE = "presence"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested:
    """A question waits for a person; `request` numbers them within the run."""

    kind: ClassVar[StepKind] = StepKind.APPROVAL_REQUESTED
    v: ClassVar[int] = 1

    request: Compared[int]
    subject: Compared[str]
    rule: Compared[str]
    shown: Compared[Digest]
    content: Observed[ContentRef]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDecided:
    """A person decided, once, over exactly what was shown."""

    kind: ClassVar[StepKind] = StepKind.APPROVAL_DECIDED
    v: ClassVar[int] = 1

    request: Compared[int]
    shown: Compared[Digest]
    decision: Compared[ApprovalDecision]
    assurance: Compared[Assurance]
    by: Observed[str]
    nonce: Observed[str]
    reason: Observed[str] = field(default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalExpired:
    """The question got old; the run parks, nothing is decided."""

    kind: ClassVar[StepKind] = StepKind.APPROVAL_EXPIRED
    v: ClassVar[int] = 1

    request: Compared[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalWithdrawn:
    """The question no longer makes sense, such as after its attempt ended."""

    kind: ClassVar[StepKind] = StepKind.APPROVAL_WITHDRAWN
    v: ClassVar[int] = 1

    request: Compared[int]
    reason: Observed[str]
