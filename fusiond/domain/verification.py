"""Results of verification engines and the arbitration over them, as records.

An engine reports what it saw; arbitration decides. A policy can never rewrite
what an engine reported (`spec/artifact-contracts.txt`, Verification Evidence).
"""

from enum import StrEnum

from fusiond.domain.digest import Digest
from fusiond.domain.records import dataclass


class Engine(StrEnum):
    """The engines; each reports on its own."""

    ARTIFACT_CONTRACT = "artifact_contract"
    UNIT_GATES = "unit_gates"
    PROTECTED_GATES = "protected_gates"
    CLAIM_RULES = "claim_rules"
    CONTRADICTION = "contradiction"


class VerificationPhase(StrEnum):
    """Whether an engine looked before or after execution."""

    PRE = "pre"
    POST = "post"


class VerificationStatus(StrEnum):
    """What one engine, or the arbitration, says."""

    PASS = "PASS"
    FAIL = "FAIL"
    ESCALATE = "ESCALATE"


class ArbitrationRule(StrEnum):
    """How engine results become one decision."""

    STRICT_FIRST_FAILURE = "strict_first_failure"
    UNANIMOUS = "unanimous"
    QUORUM = "quorum"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationPolicy:
    """The flow's `verification:` section. `quorum` is a threshold, 0 means n // 2 + 1."""

    arbitration: ArbitrationRule = ArbitrationRule.STRICT_FIRST_FAILURE
    quorum: int = 0
    fail_on: tuple[str, ...] = ()
    escalate_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationResult:
    """What one engine observed about one attempt."""

    engine: Engine
    deterministic: bool
    phase: VerificationPhase
    rules_applied: tuple[str, ...]
    rules_violated: tuple[str, ...]
    artifacts_checked: tuple[Digest, ...]
    status: VerificationStatus
    reason: str
    decision: VerificationStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Arbitration:
    """The policy's decision over engine results."""

    policy_fingerprint: Digest
    rule: ArbitrationRule
    engines: tuple[Engine, ...]
    statuses: tuple[VerificationStatus, ...]
    targets: tuple[Digest, ...]
    decision: VerificationStatus


def arbitrate(
    policy: VerificationPolicy, fingerprint: Digest, results: tuple[VerificationResult, ...]
) -> Arbitration:
    """Decide over engine results under a policy (`evidence.md`, Verification).

    Args:
        policy: the frozen policy of the run.
        fingerprint: digest of that policy.
        results: the engines' results in the order they reported.
    """
    return Arbitration(
        policy_fingerprint=fingerprint,
        rule=policy.arbitration,
        engines=tuple(result.engine for result in results),
        statuses=tuple(result.status for result in results),
        targets=tuple(dict.fromkeys(d for result in results for d in result.artifacts_checked)),
        decision=_decision(policy, results),
    )


def _decision(policy: VerificationPolicy, results: tuple[VerificationResult, ...]) -> VerificationStatus:
    violated = {rule for result in results for rule in result.rules_violated}
    if violated & set(policy.fail_on):
        return VerificationStatus.FAIL
    statuses = [result.status for result in results]
    ruled = _ruled(policy, statuses)
    if ruled is VerificationStatus.PASS and violated & set(policy.escalate_on):
        return VerificationStatus.ESCALATE
    return ruled


def _ruled(policy: VerificationPolicy, statuses: list[VerificationStatus]) -> VerificationStatus:
    match policy.arbitration:
        case ArbitrationRule.STRICT_FIRST_FAILURE:
            not_passed = [status for status in statuses if status is not VerificationStatus.PASS]
            return not_passed[0] if not_passed else VerificationStatus.PASS
        case ArbitrationRule.UNANIMOUS:
            if VerificationStatus.FAIL in statuses:
                return VerificationStatus.FAIL
            if all(status is VerificationStatus.PASS for status in statuses):
                return VerificationStatus.PASS
            return VerificationStatus.ESCALATE
        case ArbitrationRule.QUORUM:
            needed = policy.quorum or len(statuses) // 2 + 1
            passed = statuses.count(VerificationStatus.PASS)
            return VerificationStatus.PASS if passed >= needed else VerificationStatus.FAIL
