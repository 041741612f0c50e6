"""Arbitration: the whole table of rules over what engines report; results are never rewritten."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusiond.domain.digest import Digest
from fusiond.domain.verification import (
    ArbitrationRule,
    Engine,
    VerificationPolicy,
    VerificationResult,
    VerificationStatus,
    arbitrate,
)
from tests.fakes.payloads import digest, verification_result

few = settings(max_examples=50)

STRICT = VerificationPolicy(arbitration=ArbitrationRule.STRICT_FIRST_FAILURE)
UNANIMOUS = VerificationPolicy(arbitration=ArbitrationRule.UNANIMOUS)
FINGERPRINT = digest("policy")
WORDS = {"p": VerificationStatus.PASS, "f": VerificationStatus.FAIL, "e": VerificationStatus.ESCALATE}

# What three engines report, in their order, and what each rule makes of it.
#        reported  strict      unanimous   majority    two of three  all three
TABLE = """
         ppp       PASS        PASS        PASS        PASS          PASS
         ppf       FAIL        FAIL        PASS        PASS          FAIL
         pfp       FAIL        FAIL        PASS        PASS          FAIL
         fpp       FAIL        FAIL        PASS        PASS          FAIL
         ppe       ESCALATE    ESCALATE    PASS        PASS          FAIL
         pep       ESCALATE    ESCALATE    PASS        PASS          FAIL
         epp       ESCALATE    ESCALATE    PASS        PASS          FAIL
         pff       FAIL        FAIL        FAIL        FAIL          FAIL
         fpf       FAIL        FAIL        FAIL        FAIL          FAIL
         ffp       FAIL        FAIL        FAIL        FAIL          FAIL
         pfe       FAIL        FAIL        FAIL        FAIL          FAIL
         pef       ESCALATE    FAIL        FAIL        FAIL          FAIL
         fpe       FAIL        FAIL        FAIL        FAIL          FAIL
         fep       FAIL        FAIL        FAIL        FAIL          FAIL
         epf       ESCALATE    FAIL        FAIL        FAIL          FAIL
         efp       ESCALATE    FAIL        FAIL        FAIL          FAIL
         pee       ESCALATE    ESCALATE    FAIL        FAIL          FAIL
         epe       ESCALATE    ESCALATE    FAIL        FAIL          FAIL
         eep       ESCALATE    ESCALATE    FAIL        FAIL          FAIL
         fff       FAIL        FAIL        FAIL        FAIL          FAIL
         ffe       FAIL        FAIL        FAIL        FAIL          FAIL
         fef       FAIL        FAIL        FAIL        FAIL          FAIL
         eff       ESCALATE    FAIL        FAIL        FAIL          FAIL
         fee       FAIL        FAIL        FAIL        FAIL          FAIL
         efe       ESCALATE    FAIL        FAIL        FAIL          FAIL
         eef       ESCALATE    FAIL        FAIL        FAIL          FAIL
         eee       ESCALATE    ESCALATE    FAIL        FAIL          FAIL
"""
ROWS = [row.split() for row in TABLE.strip().splitlines()]


def quorum(needed: int = 0) -> VerificationPolicy:
    return VerificationPolicy(arbitration=ArbitrationRule.QUORUM, quorum=needed)


POLICIES = (STRICT, UNANIMOUS, quorum(), quorum(2), quorum(3))


def reported(letters: str) -> tuple[VerificationResult, ...]:
    return tuple(
        verification_result(WORDS[letter], engine=engine)
        for letter, engine in zip(letters, Engine, strict=False)
    )


def decided(policy: VerificationPolicy, *results: VerificationResult) -> VerificationStatus:
    return arbitrate(policy, FINGERPRINT, results).decision


def test_the_table_is_whole() -> None:
    assert sorted(row[0] for row in ROWS) == sorted(map("".join, product("pfe", repeat=3)))


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_table(row: list[str]) -> None:
    letters, *expected = row
    assert [decided(policy, *reported(letters)) for policy in POLICIES] == expected


@pytest.mark.parametrize("engines,majority", [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_quorum_of_nothing_said_is_the_majority(engines: int, majority: int) -> None:
    for passed in range(engines + 1):
        results = reported("p" * passed + "f" * (engines - passed))
        expected = VerificationStatus.PASS if passed >= majority else VerificationStatus.FAIL
        assert decided(quorum(), *results) is expected


def test_a_quorum_above_the_number_of_engines_is_never_reached() -> None:
    assert decided(quorum(4), *reported("ppp")) is VerificationStatus.FAIL


# A named rule decides over what the arbitration rule alone would say.
NAMED = VerificationPolicy(
    arbitration=ArbitrationRule.QUORUM, quorum=1, fail_on=("never",), escalate_on=("ask", "never")
)


@pytest.mark.parametrize(
    "violated,statuses,expected",
    [
        ((), "pp", VerificationStatus.PASS),
        (("other",), "pp", VerificationStatus.PASS),
        (("ask",), "pp", VerificationStatus.ESCALATE),
        (("never",), "pp", VerificationStatus.FAIL),
        (("ask", "never"), "pp", VerificationStatus.FAIL),
        (("ask",), "ff", VerificationStatus.FAIL),
        (("ask",), "ee", VerificationStatus.FAIL),
    ],
)
def test_named_rules(violated: tuple[str, ...], statuses: str, expected: VerificationStatus) -> None:
    first, second = (
        verification_result(WORDS[letter], engine=engine, violated=violated if position else ())
        for position, (letter, engine) in enumerate(zip(statuses, Engine, strict=False))
    )
    assert decided(NAMED, first, second) is expected
    assert decided(NAMED, second, first) is expected


digests = st.lists(st.sampled_from([digest(word) for word in "abcd"]), max_size=4).map(tuple)
engine_results = st.builds(
    verification_result,
    st.sampled_from(VerificationStatus),
    engine=st.sampled_from(Engine),
    violated=st.lists(st.sampled_from(["ask", "never", "other"]), max_size=2).map(tuple),
    checked=digests,
)
policies = st.builds(
    VerificationPolicy,
    arbitration=st.sampled_from(ArbitrationRule),
    quorum=st.integers(0, 4),
    fail_on=st.sampled_from([(), ("never",)]),
    escalate_on=st.sampled_from([(), ("ask",)]),
)
result_lists = st.lists(engine_results, min_size=1, max_size=5).map(tuple)


@few
@given(policies, result_lists)
def test_the_record_says_what_the_engines_reported(
    policy: VerificationPolicy, results: tuple[VerificationResult, ...]
) -> None:
    arbitration = arbitrate(policy, FINGERPRINT, results)
    assert arbitration.policy_fingerprint == FINGERPRINT
    assert arbitration.rule is policy.arbitration
    assert arbitration.engines == tuple(result.engine for result in results)
    assert arbitration.statuses == tuple(result.status for result in results)
    targets: list[Digest] = [each for result in results for each in result.artifacts_checked]
    assert set(arbitration.targets) == set(targets)
    assert len(arbitration.targets) == len(set(targets))


@few
@given(policies, result_lists)
def test_nothing_passes_against_a_rule_that_must_not_be_violated(
    policy: VerificationPolicy, results: tuple[VerificationResult, ...]
) -> None:
    violated = {rule for result in results for rule in result.rules_violated}
    decision = arbitrate(policy, FINGERPRINT, results).decision
    if violated & set(policy.fail_on):
        assert decision is VerificationStatus.FAIL
    elif violated & set(policy.escalate_on):
        assert decision is not VerificationStatus.PASS


@few
@given(policies, result_lists)
def test_a_stricter_engine_never_makes_a_decision_pass(
    policy: VerificationPolicy, results: tuple[VerificationResult, ...]
) -> None:
    worse = (*results, verification_result(VerificationStatus.FAIL, engine=Engine.CLAIM_RULES))
    if arbitrate(policy, FINGERPRINT, worse).decision is VerificationStatus.PASS:
        assert arbitrate(policy, FINGERPRINT, results).decision is VerificationStatus.PASS
