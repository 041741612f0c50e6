"""From differences to a verdict: what blocks, what a declared acceptability permits, what stays non-certifiable.

Owns the closed vocabulary of differences and the one table that judges them
(`evidence.md`, Differences and the verdict table). Finding differences is
`replay.compare`; exit codes are the CLI's.
"""

from collections.abc import Collection, Mapping
from enum import StrEnum

from fusiond.domain.errors import RefusedError
from fusiond.domain.ids import NodeId
from fusiond.domain.records import dataclass
from fusiond.domain.replay_policy import Acceptability, ReplayMode


class DifferenceKind(StrEnum):
    """In what two traces can differ."""

    PLAN = "plan"
    INPUTS = "inputs"
    LIMITS = "limits"
    DETERMINISM = "determinism"
    ACCEPTABILITY = "acceptability"
    TENANT = "tenant"
    FLOW_STATE = "flow_state"
    ENVELOPE = "envelope"
    ENVIRONMENT = "environment"
    DATASET = "dataset"
    DATASET_DEPRECATED = "dataset_deprecated"
    POLICY = "policy"
    VERIFICATION_POLICY = "verification_policy"
    BASE_REVISION = "base_revision"
    GATE_PACKET = "gate_packet"
    STAGE_END_MISSING = "stage_end_missing"
    STAGE_FAILED = "stage_failed"
    HUMAN_INTERVENTION = "human_intervention"
    ARBITRATION = "arbitration"
    CLAIM_OVERLAP = "claim_overlap"
    CONTRADICTIONS = "contradictions"
    GATE_VERDICT = "gate_verdict"
    PROTECTED_VERDICT = "protected_verdict"
    TOOL_DECISION = "tool_decision"
    LASTING_EFFECT = "lasting_effect"

    EVENT_PAYLOAD = "event_payload"
    EVENT_ORDER = "event_order"
    EVENT_SET = "event_set"
    ARTIFACT_CONTENT = "artifact_content"
    ARTIFACT_SET = "artifact_set"
    EVIDENCE_CONTENT = "evidence_content"
    EVIDENCE_SET = "evidence_set"
    CODE_REVISION = "code_revision"


_CONTENT = frozenset(
    {
        DifferenceKind.ARTIFACT_CONTENT,
        DifferenceKind.EVIDENCE_CONTENT,
        DifferenceKind.CODE_REVISION,
        DifferenceKind.EVENT_PAYLOAD,
    }
)
_SETS = frozenset(
    {
        DifferenceKind.ARTIFACT_SET,
        DifferenceKind.EVIDENCE_SET,
        DifferenceKind.EVENT_ORDER,
        DifferenceKind.EVENT_SET,
    }
)

PERMITTED: Mapping[Acceptability, frozenset[DifferenceKind]] = {
    Acceptability.EXACT_MATCH: frozenset(),
    Acceptability.INVARIANT_PRESERVING: _CONTENT,
    Acceptability.STATISTICALLY_BOUNDED: _CONTENT | _SETS,
}
"""What bounded and observational mode forgive. Whatever is in none of these sets always blocks.

Past the envelope there are kinds of their own (`claim_overlap`, `contradictions`), so that a
set that differs is forgiven exactly as long as none of those was found.
"""


class DifferenceClass(StrEnum):
    """How a difference is shown to people."""

    EQUAL = "equal"
    TIMING_ONLY = "timing_only"
    DECLARED = "declared"
    DIVERGED = "diverged"
    DOWNSTREAM = "downstream"
    MISSING = "missing"
    EXTRA = "extra"


class ReplayVerdict(StrEnum):
    """What a comparison comes to."""

    ACCEPTABLE = "acceptable"
    ACCEPTABLE_WITH_WARNINGS = "acceptable_with_warnings"
    UNACCEPTABLE = "unacceptable"
    NON_CERTIFIABLE = "non_certifiable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing in which the observed trace is not the expected one.

    Args:
        kind: in what.
        found: how it is shown.
        node: whose, None for the run's own.
        attempt: comparable number, 0 where it is the stage's or the run's.
        name: artifact path, gate, dataset, or position of an event within its attempt.
        expected: short text of that side, "" for what is not there.
        observed: as well.
        cause: the node upstream whose difference explains this one.
    """

    kind: DifferenceKind
    found: DifferenceClass
    node: NodeId | None = None
    attempt: int = 0
    name: str = ""
    expected: str = ""
    observed: str = ""
    cause: NodeId | None = None


def blocks(kind: DifferenceKind, mode: ReplayMode, acceptability: Acceptability) -> bool:
    """Say whether one difference of this kind makes the observed trace unacceptable."""
    return mode is ReplayMode.STRICT or kind not in PERMITTED[acceptability]


def judge(
    mode: ReplayMode,
    acceptability: Acceptability,
    differences: Collection[DifferenceKind],
    *,
    certifiable: bool,
) -> ReplayVerdict:
    """Return the verdict; total over its arguments.

    Args:
        mode: declared by the flow, or tightened.
        acceptability: as well.
        differences: the kinds that were found.
        certifiable: False when either trace is not; nothing overrides that.
    """
    if not certifiable:
        return ReplayVerdict.NON_CERTIFIABLE
    if not differences:
        return ReplayVerdict.ACCEPTABLE
    if any(blocks(kind, mode, acceptability) for kind in differences):
        return ReplayVerdict.UNACCEPTABLE
    return ReplayVerdict.ACCEPTABLE_WITH_WARNINGS


_MODES = (ReplayMode.OBSERVATIONAL, ReplayMode.BOUNDED, ReplayMode.STRICT)
_ACCEPTABILITIES = (
    Acceptability.STATISTICALLY_BOUNDED,
    Acceptability.INVARIANT_PRESERVING,
    Acceptability.EXACT_MATCH,
)


def tightened_mode(declared: ReplayMode, asked: ReplayMode | None) -> ReplayMode:
    """Return the mode to judge by; RefusedError when `asked` is looser than what the flow declared."""
    if asked is None:
        return declared
    if _MODES.index(asked) < _MODES.index(declared):
        raise _looser("mode", asked, declared)
    return asked


def tightened_acceptability(declared: Acceptability, asked: Acceptability | None) -> Acceptability:
    """Return the acceptability to judge by; RefusedError when `asked` permits more than was declared."""
    if asked is None:
        return declared
    if _ACCEPTABILITIES.index(asked) < _ACCEPTABILITIES.index(declared):
        raise _looser("acceptability", asked, declared)
    return asked


def _looser(what: str, asked: str, declared: str) -> RefusedError:
    return RefusedError(
        f"{what} {asked} is looser than the flow's",
        expected=f"{declared} or stricter",
        cure=f"leave --{what} out, or declare it in the flow and run again",
    )
