"""The first steps of a run, for measurements that need a legal ledger."""

from fusiond.domain.digest import ZERO, ref_of
from fusiond.domain.flow import CodeAccess, FlowState, Limits, NodeKind, RunMode
from fusiond.domain.ids import CommitId, NodeId, TenantId, TreeId
from fusiond.domain.launch import Isolation
from fusiond.domain.replay_policy import Determinism, EntropyBudget, ReplayContract
from fusiond.domain.steps.attempt import AttemptStarted
from fusiond.domain.steps.run import RunStarted, StagePlan

OBJECT = "0" * 40


def started_run(node: NodeId) -> RunStarted:
    """Return a run of one stage."""
    plan = StagePlan(node=node, kind=NodeKind.RUN, needs=(), gates=(), code=CodeAccess.READ, attempts=2)
    return RunStarted(
        tenant=TenantId("local"),
        flow="bench",
        flow_state=FlowState.FROZEN,
        mode=RunMode.LIVE,
        determinism=Determinism.STRICT,
        resolver="bench",
        plan_hash=ZERO,
        plan=ref_of(b""),
        stages=(plan,),
        base_commit=CommitId(OBJECT),
        base_tree=TreeId(OBJECT),
        agent_definitions=(),
        policy_hash=ZERO,
        verification_policy_hash=ZERO,
        environment=(),
        missing_toolchains=(),
        datasets=(),
        inputs=(),
        limits=Limits(repair_reruns=2, attempts=2, parallel=2, wall_clock_us=3_600_000_000),
        replay=ReplayContract(),
        entropy=EntropyBudget(),
        input_refs=(),
        flow_path="bench.yaml",
        submitted_by="bench",
        search_path="",
    )


def attempt_begun() -> AttemptStarted:
    """Return the start of its first attempt."""
    return AttemptStarted(
        start_tree=TreeId(OBJECT),
        inputs=(),
        setup_key=None,
        start_commit=CommitId(OBJECT),
        isolation=Isolation.BUBBLEWRAP,
        worker="bench",
    )
