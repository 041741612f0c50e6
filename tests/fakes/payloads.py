"""Payloads with every field filled in.

Owns sensible values for the fields that a test does not care about, so that a
test names only what it is about. Placing steps in a chain is `chains`.
"""

from collections.abc import Iterable

from fusiond.domain.artifacts import ProblemCode, RecordedBy
from fusiond.domain.digest import ContentRef, Digest, digest_bytes
from fusiond.domain.flow import CodeAccess, FlowState, Limits, NodeKind, RunMode
from fusiond.domain.gates import ProcessOutcome
from fusiond.domain.ids import AttemptNumber, CommitId, GateName, NodeId, TenantId, TreeId
from fusiond.domain.launch import Isolation
from fusiond.domain.replay_policy import Determinism, EntropyBudget, ReplayContract
from fusiond.domain.steps.attempt import (
    AttemptFrozen,
    AttemptStarted,
    BlockReason,
    RevisionRecorded,
    StageFinished,
    StageOutcome,
)
from fusiond.domain.steps.judgement import (
    ArbitrationDecided,
    ArtifactsValidated,
    RerunCause,
    RerunRequested,
    UnitGateFinished,
    UnitGateStarted,
    VerificationRecorded,
)
from fusiond.domain.steps.run import ResumeCause, RunFinished, RunOutcome, RunResumed, RunStarted, StagePlan
from fusiond.domain.steps.turn import (
    COMMAND_TOOL,
    CallOutcome,
    EffectClass,
    Locality,
    ToolCalled,
    ToolReturned,
    TurnStarted,
)
from fusiond.domain.verification import (
    Arbitration,
    ArbitrationRule,
    Engine,
    VerificationPhase,
    VerificationResult,
    VerificationStatus,
)

HOUR_US = 3_600_000_000


def digest(text: str) -> Digest:
    """Return a digest that differs for every `text`."""
    return digest_bytes(text.encode())


def content(text: str) -> ContentRef:
    """Return a reference to `text`."""
    return ContentRef(digest=digest(text), size=len(text.encode()))


def tree(text: str) -> TreeId:
    """Return a tree id that differs for every `text`."""
    return TreeId(digest(text)[:40])


def commit(text: str) -> CommitId:
    """Return a commit id that differs for every `text`."""
    return CommitId(digest(f"commit {text}")[:40])


def plan(
    node: str = "build",
    *,
    needs: Iterable[str] = (),
    gates: Iterable[str] = (),
    attempts: int = 2,
    kind: NodeKind = NodeKind.RUN,
) -> StagePlan:
    """Return the plan of one stage."""
    return StagePlan(
        node=NodeId(node),
        kind=kind,
        needs=tuple(map(NodeId, needs)),
        gates=tuple(map(GateName, gates)),
        code=CodeAccess.WRITE,
        attempts=attempts,
    )


def limits(
    *,
    repair_reruns: int = 2,
    parallel: int = 2,
    wall_clock_us: int = HOUR_US,
    tokens: int | None = None,
    cost_uusd: int | None = None,
    tool_calls: int | None = None,
) -> Limits:
    """Return limits that nothing reaches unless a test says so."""
    return Limits(
        repair_reruns=repair_reruns,
        attempts=2,
        parallel=parallel,
        wall_clock_us=wall_clock_us,
        tokens=tokens,
        cost_uusd=cost_uusd,
        tool_calls=tool_calls,
    )


def run_started(
    *stages: StagePlan, within: Limits | None = None, missing_toolchains: tuple[str, ...] = ()
) -> RunStarted:
    """Return the first payload of a run of these stages."""
    return RunStarted(
        tenant=TenantId("local"),
        flow="flow",
        flow_state=FlowState.FROZEN,
        mode=RunMode.LIVE,
        determinism=Determinism.STRICT,
        resolver="1",
        plan_hash=digest("plan"),
        plan=content("plan"),
        stages=stages,
        base_commit=commit("base"),
        base_tree=tree("base"),
        agent_definitions=(),
        policy_hash=digest("policy"),
        verification_policy_hash=digest("verification policy"),
        environment=(),
        missing_toolchains=missing_toolchains,
        datasets=(),
        inputs=(),
        limits=within or limits(),
        replay=ReplayContract(),
        entropy=EntropyBudget(),
        input_refs=(),
        flow_path="fusion.yaml",
        submitted_by="someone",
        search_path="/usr/bin",
    )


def run_resumed(
    cause: ResumeCause = ResumeCause.PERSON,
    *,
    idle_us: int = 0,
    wall_clock_us: int = 0,
    tokens: int = 0,
    cost_uusd: int = 0,
    tool_calls: int = 0,
) -> RunResumed:
    """Return a resume that adds the given amounts to the limits."""
    return RunResumed(
        cause=cause,
        idle_us=idle_us,
        by="someone",
        added_wall_clock_us=wall_clock_us,
        added_tokens=tokens,
        added_cost_uusd=cost_uusd,
        added_tool_calls=tool_calls,
    )


def run_finished(outcome: RunOutcome, *, conflict_paths: tuple[str, ...] = ()) -> RunFinished:
    """Return the last payload of a run's trace; only a success has a result."""
    succeeded = outcome is RunOutcome.SUCCEEDED
    return RunFinished(
        outcome=outcome,
        result_tree=tree("result") if succeeded else None,
        result_commit=commit("result") if succeeded else None,
        conflict_paths=conflict_paths,
    )


def attempt_started() -> AttemptStarted:
    """Return the start of an attempt without inputs or setup."""
    return AttemptStarted(
        start_tree=tree("base"),
        inputs=(),
        setup_key=None,
        start_commit=commit("base"),
        isolation=Isolation.BUBBLEWRAP,
        worker="worker",
    )


def turn_started(turn: int, feedback: ContentRef | None = None) -> TurnStarted:
    """Return the start of a turn."""
    return TurnStarted(turn=turn, feedback=feedback)


def tool_called(call: int, locality: Locality = Locality.LOCAL) -> ToolCalled:
    """Return the call that runs a node's command."""
    return ToolCalled(
        call=call,
        tool=COMMAND_TOOL,
        effect=EffectClass.WRITE,
        locality=locality,
        arguments=digest("arguments"),
    )


def tool_returned(call: int, outcome: ProcessOutcome = ProcessOutcome.PASSED) -> ToolReturned:
    """Return the end of a node's command."""
    outcomes = {ProcessOutcome.PASSED: CallOutcome.OK, ProcessOutcome.CANCELLED: CallOutcome.CANCELLED}
    return ToolReturned(
        call=call,
        outcome=outcomes.get(outcome, CallOutcome.FAILED),
        process=outcome,
        exit_code=_exit_code(outcome),
        signal=9 if outcome is ProcessOutcome.SIGNALLED else None,
    )


def revision_recorded(number: int, code: str = "code") -> RevisionRecorded:
    """Return the revision before round `number`; `code` names both tree and outputs."""
    return RevisionRecorded(round=number, tree=tree(code), outputs=digest(f"outputs of {code}"))


def gate_started(gate: str, number: int) -> UnitGateStarted:
    """Return the start of a gate in round `number`."""
    return UnitGateStarted(gate=GateName(gate), round=number)


def gate_finished(
    gate: str, number: int, outcome: ProcessOutcome = ProcessOutcome.PASSED
) -> UnitGateFinished:
    """Return the end of a gate in round `number`."""
    return UnitGateFinished(
        gate=GateName(gate),
        round=number,
        outcome=outcome,
        exit_code=_exit_code(outcome),
        signal=9 if outcome is ProcessOutcome.SIGNALLED else None,
    )


def rerun_requested(number: int, cause: RerunCause = RerunCause.GATE) -> RerunRequested:
    """Return the request for rerun `number` of an attempt."""
    return RerunRequested(number=number, cause=cause, gate=None, problems=(), feedback=content("feedback"))


def artifacts_validated(
    number: int, code: str = "code", problems: tuple[ProblemCode, ...] = ()
) -> ArtifactsValidated:
    """Return the validation of round `number`; `code` names what was found, as in `revision_recorded`."""
    return ArtifactsValidated(
        round=number, problems=problems, tree=tree(code), outputs=digest(f"outputs of {code}")
    )


def attempt_frozen(code: str = "code") -> AttemptFrozen:
    """Return the freezing of `code`."""
    return AttemptFrozen(
        tree=tree(code),
        artifacts=(),
        recorded_by=RecordedBy.SUPERVISOR,
        manifest=digest("manifest"),
        summary=digest("summary"),
        commit=commit(code),
    )


def verification_result(
    status: VerificationStatus = VerificationStatus.PASS,
    *,
    engine: Engine = Engine.ARTIFACT_CONTRACT,
    violated: tuple[str, ...] = (),
    checked: tuple[Digest, ...] = (),
) -> VerificationResult:
    """Return what an engine saw."""
    return VerificationResult(
        engine=engine,
        deterministic=True,
        phase=VerificationPhase.POST,
        rules_applied=violated,
        rules_violated=violated,
        artifacts_checked=checked,
        status=status,
        reason="",
        decision=status,
    )


def verification_recorded(status: VerificationStatus = VerificationStatus.PASS) -> VerificationRecorded:
    """Return one engine's result."""
    return VerificationRecorded(result=verification_result(status))


def arbitration_decided(status: VerificationStatus = VerificationStatus.PASS) -> ArbitrationDecided:
    """Return the decision over one engine."""
    return ArbitrationDecided(
        arbitration=Arbitration(
            policy_fingerprint=digest("verification policy"),
            rule=ArbitrationRule.STRICT_FIRST_FAILURE,
            engines=(Engine.ARTIFACT_CONTRACT,),
            statuses=(status,),
            targets=(),
            decision=status,
        )
    )


def stage_finished(
    outcome: StageOutcome, attempt: int | None = None, *, dependency: str | None = None
) -> StageFinished:
    """Return the end of a stage, with what belongs to the outcome; a skipped one names its dependency."""
    return StageFinished(
        outcome=outcome,
        attempt=None if attempt is None else AttemptNumber(attempt),
        block=BlockReason.STORAGE if outcome is StageOutcome.BLOCKED else None,
        dependency=None if dependency is None else NodeId(dependency),
        conflict_paths=("shared.txt",) if outcome is StageOutcome.CODE_CONFLICT else (),
    )


def _exit_code(outcome: ProcessOutcome) -> int | None:
    return {
        ProcessOutcome.PASSED: 0,
        ProcessOutcome.FAILED: 1,
        ProcessOutcome.NOT_EXECUTABLE: 126,
        ProcessOutcome.NOT_FOUND: 127,
    }.get(outcome)
