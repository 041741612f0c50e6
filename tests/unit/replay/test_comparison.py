"""Two traces held against each other: what is found, how it is classed, what it comes to."""

import pytest

from fusiond.domain.acceptability import DifferenceClass, DifferenceKind, ReplayVerdict
from fusiond.domain.errors import RefusedError
from fusiond.domain.evolve import replace
from fusiond.domain.flow import RunMode
from fusiond.domain.ids import NodeId
from fusiond.domain.replay_policy import Acceptability, Envelope, ReplayContract, ReplayMode
from fusiond.domain.steps.attempt import AttemptFailed, AttemptFailure, StageOutcome
from fusiond.domain.steps.run import ParkReason, ResumeCause, RunOutcome, RunParked
from fusiond.domain.trace import ExecutionTrace, TracedArtifact
from replay.check import compare_traces
from replay.report import Report
from tests.fakes.chains import START_US
from tests.fakes.finished_runs import BUILD_THEN_TEST, artifact, begun, finished, passed, simple, started
from tests.fakes.payloads import digest, plan, run_resumed, stage_finished, tool_returned

STRICT = ReplayContract()
NARROW = Envelope()
BUILD, TEST = NodeId("build"), NodeId("test")
WARNINGS = ReplayVerdict.ACCEPTABLE_WITH_WARNINGS


def bounded(acceptability: str, envelope: Envelope = NARROW) -> ReplayContract:
    return ReplayContract(
        mode=ReplayMode.BOUNDED, acceptability=Acceptability(acceptability), envelope=envelope
    )


def seen(report: Report) -> list[tuple[DifferenceKind, NodeId | None, DifferenceClass]]:
    return [(each.kind, each.node, each.found) for each in report.differences]


CONTRACTS = [
    STRICT,
    bounded("exact_match"),
    bounded("invariant_preserving"),
    bounded("statistically_bounded"),
    ReplayContract(mode=ReplayMode.OBSERVATIONAL),
]


@pytest.mark.parametrize("contract", CONTRACTS)
def test_the_same_run_later_is_acceptable(contract: ReplayContract) -> None:
    report = compare_traces(simple(replay=contract), simple(replay=contract, at_us=START_US + 9))
    assert (report.verdict, report.differences, report.first) == (ReplayVerdict.ACCEPTABLE, (), None)


# Outputs that changed: the best comparable system called every one of these acceptable.

CHANGED: list[tuple[str, dict[str, object], tuple[str, str, str]]] = [
    ("artifact", {"text": "other"}, ("unacceptable", "acceptable_with_warnings", "acceptable_with_warnings")),
    ("code", {"code": "other"}, ("unacceptable", "acceptable_with_warnings", "acceptable_with_warnings")),
    ("rerun", {"reruns": 1}, ("unacceptable", "unacceptable", "acceptable_with_warnings")),
    ("plan", {"plan_hash": digest("other")}, ("unacceptable", "unacceptable", "unacceptable")),
]


@pytest.mark.parametrize("name, changes, verdicts", CHANGED)
def test_changed_outputs_are_judged_as_declared(
    name: str, changes: dict[str, object], verdicts: tuple[str, str, str]
) -> None:
    columns = ("exact_match", "invariant_preserving", "statistically_bounded")
    for acceptability, verdict in zip(columns, verdicts, strict=True):
        contract = bounded(acceptability)
        report = compare_traces(simple(replay=contract), simple(replay=contract, **changes))  # type: ignore[arg-type]
        assert report.verdict.value == verdict, (name, acceptability)
        strict = compare_traces(
            simple(replay=contract),
            simple(replay=contract, **changes),  # type: ignore[arg-type]
            mode=ReplayMode.STRICT,
        )
        assert strict.verdict is ReplayVerdict.UNACCEPTABLE


def test_a_changed_artifact_is_named_and_was_declared() -> None:
    contract = bounded("invariant_preserving")
    report = compare_traces(simple(replay=contract), simple(replay=contract, text="other"))
    [difference] = report.differences
    assert (difference.node, difference.attempt, difference.name) == (BUILD, 1, "made (made.txt)")
    assert (difference.expected, difference.observed) == (digest("made"), digest("other"))
    assert difference.found is DifferenceClass.DECLARED
    assert not report.is_blocking(difference)


def test_outputs_may_say_how_they_are_compared() -> None:
    def alike(one: TracedArtifact, other: TracedArtifact) -> bool:
        return one.output == "made" or one == other

    report = compare_traces(simple(), simple(text="other"), alike=alike)
    assert (report.verdict, report.differences) == (ReplayVerdict.ACCEPTABLE, ())


def test_what_follows_from_a_divergence_names_its_cause() -> None:
    def run(text: str, extra: str) -> ExecutionTrace:
        chain = started(*BUILD_THEN_TEST)
        passed(chain, "build", artifacts=[artifact("made", text)], gates=["unit"])
        passed(chain, "test", artifacts=[artifact("report", f"of {extra}")])
        return finished(chain)

    report = compare_traces(run("one", "one"), run("two", "two"))
    assert seen(report) == [
        (DifferenceKind.ARTIFACT_CONTENT, BUILD, DifferenceClass.DIVERGED),
        (DifferenceKind.ARTIFACT_CONTENT, TEST, DifferenceClass.DOWNSTREAM),
    ]
    assert [each.cause for each in report.differences] == [None, BUILD]
    assert (report.origin, report.first) == (BUILD, report.differences[0])


def test_a_difference_beside_another_has_no_cause() -> None:
    def run(text: str) -> ExecutionTrace:
        chain = started(plan("left"), plan("right"))
        passed(chain, "left", artifacts=[artifact("made", text)])
        passed(chain, "right", artifacts=[artifact("made", text)])
        return finished(chain)

    report = compare_traces(run("one"), run("two"))
    assert [each.found for each in report.differences] == [DifferenceClass.DIVERGED] * 2


def test_missing_and_extra_artifacts() -> None:
    def run(*names: str) -> ExecutionTrace:
        chain = started(plan("build"))
        passed(chain, "build", artifacts=[artifact(name, "same") for name in names])
        return finished(chain)

    report = compare_traces(run("kept", "lost"), run("kept", "new"))
    assert [(each.found, each.name) for each in report.differences] == [
        (DifferenceClass.MISSING, "lost (lost.txt)"),
        (DifferenceClass.EXTRA, "new (new.txt)"),
    ]


def test_a_failed_stage_blocks_whatever_is_declared() -> None:
    contract = bounded("statistically_bounded")
    chain = started(*BUILD_THEN_TEST, replay=contract)
    passed(chain, "build", artifacts=[artifact("made", "made")], gates=["unit"])
    begun(chain, "test", 1)
    failed = AttemptFailed(reason=AttemptFailure.COMMAND_FAILED, detail="")
    chain.of_stage("test", 1, tool_returned(1), failed)
    chain.of_stage("test", None, stage_finished(StageOutcome.FAILED, 1))
    report = compare_traces(simple(replay=contract), finished(chain, RunOutcome.FAILED))
    assert report.verdict is ReplayVerdict.UNACCEPTABLE
    assert (DifferenceKind.STAGE_FAILED, TEST, DifferenceClass.DIVERGED) in seen(report)
    assert report.differences[-1].node is None
    assert report.origin == TEST


def test_a_person_who_intervened_blocks() -> None:
    contract = bounded("statistically_bounded")
    chain = started(*BUILD_THEN_TEST, replay=contract)
    chain.of_run(RunParked(reason=ParkReason.WALL_CLOCK, detail=""), run_resumed(ResumeCause.PERSON))
    passed(chain, "build", artifacts=[artifact("made", "made")], gates=["unit"])
    passed(chain, "test", artifacts=[artifact("report", "fine")])
    report = compare_traces(simple(replay=contract), finished(chain))
    assert DifferenceKind.HUMAN_INTERVENTION in {each.kind for each in report.differences}
    assert report.verdict is ReplayVerdict.UNACCEPTABLE


# Tolerance has an effect.


@pytest.mark.parametrize(
    "claims, contradictions, envelope, verdict",
    [
        ("abcd", 0, Envelope(), ReplayVerdict.ACCEPTABLE),
        ("abc", 0, Envelope(), ReplayVerdict.UNACCEPTABLE),
        ("abc", 0, Envelope(min_claim_overlap_ppm=750_000), ReplayVerdict.ACCEPTABLE),
        ("abc", 0, Envelope(min_claim_overlap_ppm=750_001), ReplayVerdict.UNACCEPTABLE),
        ("abcdefgh", 0, Envelope(), ReplayVerdict.ACCEPTABLE),
        ("abcd", 1, Envelope(), ReplayVerdict.UNACCEPTABLE),
        ("abcd", 1, Envelope(max_contradiction_delta=1), ReplayVerdict.ACCEPTABLE),
        ("abcd", 2, Envelope(max_contradiction_delta=1), ReplayVerdict.UNACCEPTABLE),
    ],
)
def test_envelope_is_honoured(
    claims: str, contradictions: int, envelope: Envelope, verdict: ReplayVerdict
) -> None:
    contract = bounded("statistically_bounded", envelope)
    expected = replace(simple(replay=contract), claims=tuple(map(digest, "abcd")))
    observed = replace(
        expected, claims=tuple(map(digest, claims)), contradictions=contradictions, root=digest("moved")
    )
    assert compare_traces(expected, observed).verdict is verdict


def test_tolerance_is_tightened_by_flags_and_never_loosened() -> None:
    contract = bounded("invariant_preserving")
    one, other = simple(replay=contract), simple(replay=contract, text="other")
    assert compare_traces(one, other).verdict is WARNINGS
    exactly = compare_traces(one, other, acceptability=Acceptability.EXACT_MATCH)
    assert exactly.verdict is ReplayVerdict.UNACCEPTABLE
    with pytest.raises(RefusedError, match="looser"):
        compare_traces(one, other, acceptability=Acceptability.STATISTICALLY_BOUNDED)
    with pytest.raises(RefusedError, match="looser"):
        compare_traces(one, other, mode=ReplayMode.OBSERVATIONAL)


# What cannot be certified.


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("changes", [{}, {"text": "other"}, {"plan_hash": digest("other")}])
def test_a_trace_that_is_not_certifiable_stays_so(
    contract: ReplayContract, changes: dict[str, object]
) -> None:
    one = simple(replay=contract)
    other = simple(replay=contract, mode=RunMode.UNSAFE, **changes)  # type: ignore[arg-type]
    for expected, observed in ((one, other), (other, one), (other, other)):
        assert compare_traces(expected, observed).verdict is ReplayVerdict.NON_CERTIFIABLE
        strict = compare_traces(expected, observed, mode=ReplayMode.STRICT)
        assert strict.verdict is ReplayVerdict.NON_CERTIFIABLE
