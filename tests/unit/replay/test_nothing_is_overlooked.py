"""Pairs of runs that differ in one recorded thing: none of them is called the same.

Each pair was once, or could be, a false green: a field that is marked as compared and that
no comparison looked at.
"""

from collections.abc import Callable

import pytest

from fusiond.domain.acceptability import DifferenceKind, ReplayVerdict
from fusiond.domain.evolve import replace
from fusiond.domain.gates import ProcessOutcome
from fusiond.domain.labels import NONE
from fusiond.domain.replay_policy import Acceptability, EntropySource, Magnitude, ReplayContract, ReplayMode
from fusiond.domain.steps.attempt import (
    AttemptFailed,
    AttemptFailure,
    BlockReason,
    RevisionRecorded,
    StageFinished,
    StageOutcome,
)
from fusiond.domain.steps.judgement import GateVerdict, VerificationRecorded
from fusiond.domain.steps.people import ApprovalDecided, ApprovalDecision, ApprovalRequested, Assurance
from fusiond.domain.steps.record import Payload
from fusiond.domain.steps.run import ParkReason, ResumeCause, RunOutcome, RunParked, RunResumed
from fusiond.domain.steps.turn import (
    Amounts,
    BudgetReconciled,
    BudgetReserved,
    EffectClass,
    EffectUnknown,
    EntropyUsed,
    Locality,
    ToolCalled,
    ToolGateDecided,
    Verdict,
    ViolationRecorded,
)
from fusiond.domain.trace import ExecutionTrace, TracedReceipt, Uncertifiable
from fusiond.domain.verification import VerificationStatus
from replay.check import compare_traces
from tests.fakes.chains import Chain
from tests.fakes.finished_runs import BUILD_THEN_TEST, artifact, begun, finished, passed, started
from tests.fakes.payloads import (
    arbitration_decided,
    artifacts_validated,
    attempt_frozen,
    attempt_started,
    content,
    digest,
    gate_finished,
    gate_started,
    plan,
    revision_recorded,
    run_resumed,
    stage_finished,
    tool_called,
    tool_returned,
    tree,
    turn_started,
    verification_recorded,
    verification_result,
)

Change = Callable[[Chain, int], None]
"""Records something on a run: 0 as it is expected, 1 as it is observed."""

CONTRACTS = {
    "strict": ReplayContract(),
    "invariant": ReplayContract(mode=ReplayMode.BOUNDED, acceptability=Acceptability.INVARIANT_PRESERVING),
    "statistical": ReplayContract(mode=ReplayMode.BOUNDED, acceptability=Acceptability.STATISTICALLY_BOUNDED),
}


def run(change: Change, which: int, contract: ReplayContract) -> ExecutionTrace:
    chain = started(plan("build", gates=("unit",)), replay=contract)
    change(chain, which)
    if chain.state.stages[plan().node].outcome is None:
        passed(chain, "build", len(chain.state.stages[plan().node].attempts) + 1, gates=["unit"])
    failed = chain.state.stages[plan().node].outcome is not StageOutcome.SUCCEEDED
    return finished(chain, RunOutcome.FAILED if failed else RunOutcome.SUCCEEDED)


def failing(chain: Chain, reason: AttemptFailure = AttemptFailure.COMMAND_FAILED) -> None:
    chain.of_stage("build", 1, AttemptFailed(reason=reason, detail=""))
    chain.of_stage("build", None, stage_finished(StageOutcome.FAILED, 1))


def block_reason(chain: Chain, which: int) -> None:
    reason = (BlockReason.TOOLCHAIN, BlockReason.ISOLATION)[which]
    ended: StageFinished = replace(stage_finished(StageOutcome.BLOCKED), block=reason)
    chain.of_stage("build", None, ended)


def failure_reason(chain: Chain, which: int) -> None:
    begun(chain, "build", 1)
    chain.of_stage("build", 1, tool_returned(1, ProcessOutcome.FAILED))
    failing(chain, (AttemptFailure.COMMAND_FAILED, AttemptFailure.TIMED_OUT)[which])


def tool_decision(chain: Chain, which: int) -> None:
    decided = ToolGateDecided(
        call=1,
        tool="shell",
        arguments=digest("arguments"),
        verdict=(Verdict.ALLOW, Verdict.CONSTRAIN)[which],
        rule="rule",
        policy=digest("policy"),
        labels=NONE,
    )
    called = (
        attempt_started(),
        turn_started(1),
        decided,
        tool_called(1),
        tool_returned(1, ProcessOutcome.FAILED),
    )
    chain.of_stage("build", 1, *called)
    failing(chain)


def call(chain: Chain, which: int) -> None:
    tools = (("ls", EffectClass.READ, Locality.LOCAL), ("drop", EffectClass.DESTRUCTIVE, Locality.EXTERNAL))
    tool, effect, locality = tools[which]
    called = ToolCalled(call=1, tool=tool, effect=effect, locality=locality, arguments=digest("a"))
    chain.of_stage("build", 1, attempt_started(), turn_started(1), called)
    chain.of_stage("build", 1, tool_returned(1, ProcessOutcome.FAILED))
    failing(chain)


def violation(chain: Chain, which: int) -> None:
    begun(chain, "build", 1)
    recorded = ViolationRecorded(rule=("a", "b")[which], detail="")
    chain.of_stage("build", 1, recorded, tool_returned(1, ProcessOutcome.FAILED))
    failing(chain)


def widened(chain: Chain, which: int) -> None:
    chain.of_run(RunParked(reason=ParkReason.WALL_CLOCK, detail=""))
    resumed: RunResumed = run_resumed(ResumeCause.PERSON, wall_clock_us=(1, 10**12)[which])
    chain.of_run(resumed)


def approval(chain: Chain, which: int) -> None:
    shown = digest(("read", "drop")[which])
    asked = ApprovalRequested(request=1, subject="x", rule="r", shown=shown, content=content("shown"))
    said = ApprovalDecided(
        request=1,
        shown=shown,
        decision=ApprovalDecision.APPROVED_ONCE,
        assurance=(Assurance.SIGNED, Assurance.ADVISORY)[which],
        by="",
        nonce="",
    )
    chain.of_run(asked, said)


def failed_outputs(chain: Chain, which: int) -> None:
    begun(chain, "build", 1)
    recorded: RevisionRecorded = replace(revision_recorded(1), outputs=digest(("one", "two")[which]))
    red = gate_finished("unit", 1, ProcessOutcome.FAILED)
    chain.of_stage("build", 1, tool_returned(1), recorded, gate_started("unit", 1), red)
    failing(chain, AttemptFailure.GATE_FAILED)


def changed_by_gate(chain: Chain, which: int) -> None:
    begun(chain, "build", 1)
    judged: tuple[Payload, ...] = (gate_started("unit", 1), gate_finished("unit", 1))
    validated = artifacts_validated(1, ("one", "two")[which])
    chain.of_stage("build", 1, tool_returned(1), revision_recorded(1), *judged, validated)
    failing(chain, AttemptFailure.GATE_CHANGED_CODE)


def start_tree(chain: Chain, which: int) -> None:
    begun_at = replace(attempt_started(), start_tree=tree(("one", "two")[which]))
    chain.of_stage("build", 1, begun_at, turn_started(1), tool_called(1))
    chain.of_stage("build", 1, tool_returned(1, ProcessOutcome.FAILED))
    failing(chain)


def violated_rules(chain: Chain, which: int) -> None:
    passed(chain, "build", gates=["unit"])
    # The newest verification is rewritten before the run ends: a fold does not read its rules.
    for index, step in enumerate(chain.steps):
        if isinstance(step.payload, VerificationRecorded):
            rules = ((), ("claim_requires_evidence",))[which]
            result = verification_result(violated=rules)
            chain.steps[index] = replace(step, payload=VerificationRecorded(result=result))


ALWAYS = [block_reason, violation, widened, approval]
"""Blocks under every acceptability."""

SEEN = [failure_reason, call, failed_outputs, changed_by_gate, start_tree, violated_rules]
"""Blocks under strict, and is at least a warning under every other."""


@pytest.mark.parametrize("change", ALWAYS)
@pytest.mark.parametrize("contract", CONTRACTS)
def test_what_decides_blocks_under_every_acceptability(change: Change, contract: str) -> None:
    one, other = (run(change, which, CONTRACTS[contract]) for which in (0, 1))
    assert compare_traces(one, other).verdict is ReplayVerdict.UNACCEPTABLE
    assert compare_traces(one, one).verdict is ReplayVerdict.ACCEPTABLE


@pytest.mark.parametrize("change", SEEN)
@pytest.mark.parametrize("contract", CONTRACTS)
def test_whatever_differs_is_seen(change: Change, contract: str) -> None:
    one, other = (run(change, which, CONTRACTS[contract]) for which in (0, 1))
    report = compare_traces(one, other)
    assert report.differences
    assert report.verdict is not ReplayVerdict.ACCEPTABLE
    assert compare_traces(one, other, mode=ReplayMode.STRICT).verdict is ReplayVerdict.UNACCEPTABLE


@pytest.mark.parametrize("contract", ["strict", "invariant"])
def test_another_decision_of_the_tool_gate_blocks(contract: str) -> None:
    one, other = (run(tool_decision, which, CONTRACTS[contract]) for which in (0, 1))
    report = compare_traces(one, other)
    assert DifferenceKind.TOOL_DECISION in {each.kind for each in report.differences}
    assert report.verdict is ReplayVerdict.UNACCEPTABLE


def test_exit_codes_of_one_verdict_only_warn_where_content_may_differ() -> None:
    def change(chain: Chain, which: int) -> None:
        begun(chain, "build", 1)
        red = replace(gate_finished("unit", 1, ProcessOutcome.FAILED), exit_code=1 + which)
        chain.of_stage("build", 1, tool_returned(1), revision_recorded(1), gate_started("unit", 1), red)
        failing(chain, AttemptFailure.GATE_FAILED)

    one, other = (run(change, which, CONTRACTS["invariant"]) for which in (0, 1))
    report = compare_traces(one, other)
    assert {each.kind for each in report.differences} == {DifferenceKind.EVENT_PAYLOAD}
    assert report.verdict is ReplayVerdict.ACCEPTABLE_WITH_WARNINGS


def _receipt(level: str) -> TracedReceipt:
    return TracedReceipt(
        node=plan().node,
        attempt=1,
        gate="protected",
        packet=digest("packet"),
        verdict=GateVerdict.PASSED,
        reason="",
        level=level,
        receipt=digest("receipt"),
    )


@pytest.mark.parametrize("contract", CONTRACTS)
def test_level_of_a_receipt_blocks(contract: str) -> None:
    trace = run(lambda *_: None, 0, CONTRACTS[contract])
    one, other = (
        replace(trace, groups=replace(trace.groups, receipts=(_receipt(level),))) for level in ("L3", "L1")
    )
    report = compare_traces(one, other)
    assert [each.kind for each in report.differences] == [DifferenceKind.PROTECTED_VERDICT]
    assert report.verdict is ReplayVerdict.UNACCEPTABLE


@pytest.mark.parametrize("contract", CONTRACTS)
def test_paths_of_a_conflict_block(contract: str) -> None:
    trace = run(lambda *_: None, 0, CONTRACTS[contract])
    one, other = (replace(trace, conflict_paths=(path,)) for path in ("a", "b"))
    assert compare_traces(one, other).verdict is ReplayVerdict.UNACCEPTABLE


@pytest.mark.parametrize("contract", ["strict", "invariant"])
def test_every_arbitration_of_an_attempt_is_compared(contract: str) -> None:
    trace = run(lambda *_: None, 0, CONTRACTS[contract])
    [verified] = trace.groups.verifications
    first = arbitration_decided(VerificationStatus.ESCALATE).arbitration
    twice = replace(verified, arbitrations=(first, *verified.arbitrations))
    other = replace(trace, groups=replace(trace.groups, verifications=(twice,)))
    report = compare_traces(trace, other)
    assert [each.kind for each in report.differences] == [DifferenceKind.ARBITRATION]
    assert report.verdict is ReplayVerdict.UNACCEPTABLE


# What an interrupted attempt did and its worktree does not take back.


def interrupted_after(chain: Chain, *payloads: Payload) -> None:
    chain.of_stage("build", 1, attempt_started(), turn_started(1), *payloads)
    failed = AttemptFailed(reason=AttemptFailure.INTERRUPTED, detail="")
    chain.of_stage("build", 1, failed)


def test_external_write_and_violation_of_an_interrupted_attempt_are_seen() -> None:
    def change(chain: Chain, which: int) -> None:
        paid = ToolCalled(
            call=1,
            tool="pay",
            effect=EffectClass.FINANCIAL,
            locality=Locality.EXTERNAL,
            arguments=digest("a"),
        )
        unknown = EffectUnknown(call=1, locality=Locality.EXTERNAL)
        if which:
            interrupted_after(chain, paid, ViolationRecorded(rule="egress", detail=""), unknown)

    one, other = (run(change, which, CONTRACTS["statistical"]) for which in (0, 1))
    report = compare_traces(one, other)
    assert {each.kind for each in report.differences} == {DifferenceKind.LASTING_EFFECT}
    assert report.verdict is ReplayVerdict.UNACCEPTABLE


def test_external_write_of_a_drained_turn_is_seen() -> None:
    def change(chain: Chain, which: int) -> None:
        chain.of_stage("build", 1, attempt_started(), turn_started(1))
        turn = 1
        if which:
            paid = ToolCalled(
                call=1,
                tool="pay",
                effect=EffectClass.FINANCIAL,
                locality=Locality.EXTERNAL,
                arguments=digest("a"),
            )
            chain.of_stage("build", 1, paid, tool_returned(1, ProcessOutcome.CANCELLED), turn_started(2))
            turn = 2
        chain.of_stage("build", 1, tool_called(turn), tool_returned(turn, ProcessOutcome.FAILED))
        failing(chain)

    one, other = (run(change, which, CONTRACTS["statistical"]) for which in (0, 1))
    report = compare_traces(one, other)
    assert DifferenceKind.LASTING_EFFECT in {each.kind for each in report.differences}
    assert report.verdict is ReplayVerdict.UNACCEPTABLE


def test_undeclared_source_of_an_interrupted_attempt_is_not_certifiable() -> None:
    def change(chain: Chain, which: int) -> None:
        use = EntropyUsed(source=EntropySource.DATA, magnitude=Magnitude.HIGH, who="x", why="y")
        interrupted_after(chain, use)

    trace = run(change, 0, CONTRACTS["strict"])
    assert trace.non_certifiable == (Uncertifiable.UNDECLARED_SOURCE,)


# What must not be seen.


def test_answers_given_in_another_order_are_the_same_answers() -> None:
    def answered(order: tuple[str, ...]) -> ExecutionTrace:
        chain = started(plan("left"), plan("right"))
        for number, node in enumerate(order, 1):
            shown = digest(node)
            asked = ApprovalRequested(
                request=number, subject=node, rule="r", shown=shown, content=content("shown")
            )
            said = ApprovalDecided(
                request=number,
                shown=shown,
                decision=ApprovalDecision.APPROVED_ONCE,
                assurance=Assurance.SIGNED,
                by="",
                nonce="",
            )
            begun(chain, node, 1)
            chain.of_stage(node, 1, asked)
            chain.of_stage(node, 1, said)
            chain.of_stage(node, 1, tool_returned(1, ProcessOutcome.FAILED))
            chain.of_stage(node, 1, AttemptFailed(reason=AttemptFailure.COMMAND_FAILED, detail=""))
            chain.of_stage(node, None, stage_finished(StageOutcome.FAILED, 1))
        return finished(chain, RunOutcome.FAILED)

    report = compare_traces(answered(("left", "right")), answered(("right", "left")))
    assert (report.verdict, report.differences) == (ReplayVerdict.ACCEPTABLE, ())


def restarted(chain: Chain) -> None:
    chain.of_run(run_resumed(ResumeCause.RESTART))


def judged_with_a_stop(stop: str) -> ExecutionTrace:
    """Return a run whose attempt was stopped at one place and went on in the same worktree."""
    chain = started(*BUILD_THEN_TEST)
    begun(chain, "build", 1)
    turn = 1
    if stop == "drained in the command":
        chain.of_stage("build", 1, tool_returned(1, ProcessOutcome.CANCELLED))
        restarted(chain)
        chain.of_stage("build", 1, turn_started(2), tool_called(2))
        turn = 2
    chain.of_stage("build", 1, tool_returned(turn), revision_recorded(1), gate_started("unit", 1))
    if stop == "killed in a gate":
        restarted(chain)
        chain.of_stage("build", 1, gate_started("unit", 1))
    if stop == "drained in a gate":
        chain.of_stage("build", 1, gate_finished("unit", 1, ProcessOutcome.CANCELLED))
        restarted(chain)
        chain.of_stage("build", 1, gate_started("unit", 1))
    chain.of_stage("build", 1, gate_finished("unit", 1), artifacts_validated(1))
    if stop == "killed before freezing":
        restarted(chain)
        chain.of_stage("build", 1, artifacts_validated(1))
    _froze(chain)
    passed(chain, "test", artifacts=[artifact("report", "fine")])
    return finished(chain)


def _froze(chain: Chain) -> None:
    frozen = replace(attempt_frozen(), artifacts=(artifact("made", "made"),))
    chain.of_stage("build", 1, frozen, verification_recorded(), arbitration_decided())
    chain.of_stage("build", None, stage_finished(StageOutcome.SUCCEEDED, 1))


@pytest.mark.parametrize(
    "stop",
    ["drained in the command", "killed in a gate", "drained in a gate", "killed before freezing"],
)
def test_a_stop_within_an_attempt_moves_nothing(stop: str) -> None:
    undisturbed, stopped = judged_with_a_stop(""), judged_with_a_stop(stop)
    assert undisturbed.root == stopped.root
    assert compare_traces(undisturbed, stopped).differences == ()


def test_a_lost_worktree_is_a_restarts_doing() -> None:
    def lost(chain: Chain, which: int) -> None:
        if which:
            begun(chain, "build", 1)
            unknown = EffectUnknown(call=1, locality=Locality.LOCAL)
            failed = AttemptFailed(reason=AttemptFailure.WORKSPACE_LOST, detail="")
            chain.of_stage("build", 1, unknown, failed)

    one, other = (run(lost, which, CONTRACTS["strict"]) for which in (0, 1))
    assert one.root == other.root


def test_reservations_are_numbered_by_interleaving() -> None:
    def reserved(chain: Chain, which: int) -> None:
        number = (1, 7)[which]
        amounts = Amounts(tokens=5)
        spent = (
            BudgetReserved(reservation=number, amounts=amounts),
            BudgetReconciled(reservation=number, amounts=amounts, estimated=False),
        )
        chain.of_stage("build", 1, attempt_started(), turn_started(1), *spent, tool_called(1))
        chain.of_stage("build", 1, tool_returned(1, ProcessOutcome.FAILED))
        failing(chain)

    one, other = (run(reserved, which, CONTRACTS["strict"]) for which in (0, 1))
    assert one.root == other.root
