"""The finalized execution trace: what a comparison reads, as records.

Owns the shape (`spec/artifact-contracts.txt`, Finalized Trace). Attempt numbers in it
are comparable ones: interrupted attempts are left out and the others counted from 1,
so that a crash moves nothing (`fusiond/design/0002`). Making one is `domain.finalize`.
"""

from enum import StrEnum

from fusiond.domain.digest import Digest
from fusiond.domain.flow import FlowState, Limits, RunMode
from fusiond.domain.gates import ProcessOutcome
from fusiond.domain.ids import CommitId, GateName, NodeId, OutputName, RunId, TenantId, TreeId
from fusiond.domain.records import dataclass
from fusiond.domain.replay_policy import (
    Determinism,
    EntropyBudget,
    EntropySource,
    Magnitude,
    ReplayContract,
)
from fusiond.domain.steps.attempt import BlockReason, StageOutcome
from fusiond.domain.steps.judgement import GateVerdict
from fusiond.domain.steps.kinds import StepKind
from fusiond.domain.steps.run import RunOutcome, StagePlan
from fusiond.domain.steps.turn import CallOutcome, EffectClass, Locality
from fusiond.domain.verification import Arbitration, VerificationResult


class Uncertifiable(StrEnum):
    """Why a trace can never be called acceptable (`evidence.md`, Finalized trace)."""

    UNSAFE_MODE = "unsafe_mode"
    FLOW_NOT_FROZEN = "flow_not_frozen"
    ENTROPY_EXHAUSTED = "entropy_exhausted"
    UNDECLARED_SOURCE = "undeclared_source"
    CONTENT_ERASED = "content_erased"
    ASSURANCE_FELL = "assurance_fell"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """One event of the run in comparison order.

    Args:
        node: None for events of the run itself.
        attempt: comparable number, 0 for events of the run or the stage.
        index: position within (node, attempt), from 1.
        kind: of the step.
        verdict: outcome of a gate or decision of an arbitration, "" for every other kind.
        exact: digest over what is compared of the step.
        seq: position in the run's ledger; not compared.
        at_us: wall clock; not compared.
    """

    node: NodeId | None
    attempt: int
    index: int
    kind: StepKind
    verdict: str
    exact: Digest
    seq: int
    at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainEnd:
    """The last links of one (node, attempt): exact, and invariant-preserving."""

    node: NodeId | None
    attempt: int
    events: int
    exact: Digest
    invariant: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedArtifact:
    """One frozen artifact of a comparable attempt."""

    node: NodeId
    attempt: int
    output: OutputName | None
    path: str
    media_type: str
    size: int
    digest: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRevision:
    """Code and outputs as they were at one moment of an attempt.

    Args:
        when: `at the start`, `before round N` or `after round N`.
        outputs: digest over what was in the outputs directory; zero at the start.
        frozen: whether this is what was frozen, so that its outputs are traced as artifacts.
    """

    node: NodeId
    attempt: int
    when: str
    tree: TreeId
    outputs: Digest
    frozen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedGate:
    """One unit gate in one round."""

    node: NodeId
    attempt: int
    round: int
    gate: GateName
    outcome: ProcessOutcome
    exit_code: int | None
    signal: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedReceipt:
    """One judgement of a protected gate."""

    node: NodeId
    attempt: int
    gate: str
    packet: Digest
    verdict: GateVerdict
    reason: str
    level: str
    receipt: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolInvocation:
    """One tool call, counted within its attempt; `outcome` is None when nobody knows it."""

    node: NodeId
    attempt: int
    call: int
    tool: str
    effect: EffectClass
    locality: Locality
    arguments: Digest
    outcome: CallOutcome | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntropyUse:
    """One use of a non-deterministic source, with who drew on it and why."""

    node: NodeId | None
    attempt: int
    source: EntropySource
    magnitude: Magnitude
    who: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedVerification:
    """What the engines saw of one attempt, each on its own, and what was decided over them."""

    node: NodeId
    attempt: int
    results: tuple[VerificationResult, ...]
    arbitrations: tuple[Arbitration, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEnd:
    """How one stage ended.

    Args:
        needs: stages that had to end before it.
        outcome: how, with what belongs to it: `block`, `dependency` or `conflict_paths`.
        attempt: comparable number of the attempt that decided it, 0 for none.
        interrupted: attempts that a restart ended; counted, not compared.
    """

    node: NodeId
    needs: tuple[NodeId, ...]
    outcome: StageOutcome
    block: BlockReason | None
    dependency: NodeId | None
    conflict_paths: tuple[str, ...]
    attempt: int
    interrupted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LastingEffect:
    """What an attempt did that its worktree's removal does not undo: a violation, an external write.

    Those of attempts that a restart ended are here too, under attempt 0.
    """

    node: NodeId
    attempt: int
    kind: StepKind
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervention:
    """One thing that a person decided in the run."""

    node: NodeId | None
    kind: StepKind
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceHead:
    """Everything that binds a trace to its flow, apart from what happened.

    Args:
        run, parent, children: identities.
        plan_hash … resolver: fingerprints of what decided the run.
        environment: declared, named parts, each with its value.
        datasets, inputs: digests by name.
    """

    tenant: TenantId
    flow: str
    flow_state: FlowState
    run: RunId
    parent: RunId | None
    children: tuple[RunId, ...]
    mode: RunMode
    determinism: Determinism
    replay: ReplayContract
    entropy: EntropyBudget
    limits: Limits
    plan_hash: Digest
    policy_hash: Digest
    verification_policy_hash: Digest
    resolver: str
    stages: tuple[StagePlan, ...]
    missing_toolchains: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    datasets: tuple[tuple[str, Digest], ...]
    inputs: tuple[tuple[str, Digest], ...]
    agent_definitions: tuple[tuple[str, Digest], ...]
    base_commit: CommitId
    base_tree: TreeId


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordGroups:
    """What happened, by kind of record, each group in trace order: node topology, attempt, position."""

    stages: tuple[StageEnd, ...]
    artifacts: tuple[TracedArtifact, ...]
    revisions: tuple[TracedRevision, ...]
    gates: tuple[TracedGate, ...]
    receipts: tuple[TracedReceipt, ...]
    tools: tuple[ToolInvocation, ...]
    entropy: tuple[EntropyUse, ...]
    verifications: tuple[TracedVerification, ...]
    interventions: tuple[Intervention, ...]
    lasting: tuple[LastingEffect, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionTrace:
    """One finished run, complete and unchangeable.

    Args:
        head: what it is bound to.
        outcome: how it ended, with its result's tree or the paths of a conflict.
        result_tree, conflict_paths: as well.
        started_us, ended_us: wall clock; not compared.
        nodes: in topological order.
        events: in trace order.
        chains: the last links of each (node, attempt), in trace order.
        claims: ids of claims, a set.
        contradictions: how many the flow holds.
        non_certifiable: reasons, none for a trace that may be certified.
        root: digest over chains and record groups without ids of the run and without times;
            equal roots mean traces that no comparison tells apart.
    """

    head: TraceHead
    outcome: RunOutcome
    result_tree: TreeId | None
    conflict_paths: tuple[str, ...]
    started_us: int
    ended_us: int
    nodes: tuple[NodeId, ...]
    events: tuple[TraceEvent, ...]
    chains: tuple[ChainEnd, ...]
    groups: RecordGroups
    claims: tuple[Digest, ...]
    contradictions: int
    non_certifiable: tuple[Uncertifiable, ...]
    root: Digest
