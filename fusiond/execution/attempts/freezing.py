"""What a check or a freeze is asked for, and what engines say about what was frozen."""

from collections.abc import Sequence

from fusiond.codec.canonical import canonical
from fusiond.codec.records import unstructure
from fusiond.domain.artifacts import (
    CHANGES,
    ArtifactKey,
    ContractProblem,
    FrozenArtifact,
    ProblemCode,
    artifact_id,
)
from fusiond.domain.digest import Digest, digest_fields
from fusiond.domain.errors import RefusedError
from fusiond.domain.flow import CodeAccess, NodeKind
from fusiond.domain.ids import AttemptNumber
from fusiond.domain.steps.judgement import ArbitrationDecided, VerificationRecorded
from fusiond.domain.verification import (
    Engine,
    VerificationPhase,
    VerificationPolicy,
    VerificationResult,
    VerificationStatus,
    arbitrate,
)
from fusiond.execution.context import LaidTree, StageContext
from fusiond.ports.snapshots import FreezeRequest, InjectedArtifact
from fusiond.ports.workspace import CommittedTree, TreeSnapshot

CHANGES_PATH = "changes.patch"


def freeze_request(
    ctx: StageContext, attempt: AttemptNumber, laid: LaidTree, injected: Sequence[InjectedArtifact]
) -> FreezeRequest:
    """Return what snapshots must know to judge or freeze this attempt."""
    places = laid.tree.places
    return FreezeRequest(
        attempt=ctx.attempt_id(attempt),
        outputs=places.outputs,
        report=places.report,
        contract=ctx.node.outputs,
        schemas=ctx.run.schemas(ctx.node),
        supervised=ctx.node.kind is NodeKind.RUN,
        injected=tuple(injected),
    )


def changes_of(ctx: StageContext, committed: CommittedTree) -> tuple[InjectedArtifact, ...]:
    """Return the patch as an artifact, for an attempt that may write code and did."""
    wrote = committed.revision.tree != ctx.attempt.start_tree
    if ctx.node.code is not CodeAccess.WRITE or not wrote:
        return ()
    return (
        InjectedArtifact(
            output=CHANGES, path=CHANGES_PATH, media_type="text/x-diff", source=committed.patch_path
        ),
    )


def nested_problems(snapshot: TreeSnapshot) -> tuple[ContractProblem, ...]:
    """Return one problem for each repository inside the worktree."""
    return tuple(
        ContractProblem(
            code=ProblemCode.NESTED_REPOSITORY,
            where=path,
            found="a git repository inside the worktree",
            expected="plain files; remove it or move its files out",
        )
        for path in snapshot.nested
    )


async def recorded_tree(ctx: StageContext, attempt: AttemptNumber) -> TreeSnapshot | ContractProblem:
    """Record the worktree; a name or file that no revision takes is a problem like any other."""
    try:
        return await ctx.services.workspace.snapshot(ctx.attempt_id(attempt))
    except RefusedError as error:
        return ContractProblem(
            code=ProblemCode.NAME_REFUSED,
            where="the worktree",
            found=error.found,
            expected=error.expected or "names and files that a revision takes",
        )


def problems_report(problems: Sequence[ContractProblem]) -> bytes:
    """Return the problems as canonical JSON, bounded, for people and `fusion why`."""
    shown = [unstructure(each) for each in problems[:200]]
    return canonical({"problems": list(shown), "total": len(problems)})


def verification_of(
    ctx: StageContext, attempt: AttemptNumber, artifacts: Sequence[FrozenArtifact]
) -> tuple[VerificationRecorded | ArbitrationDecided, ...]:
    """Return each engine's result on a frozen attempt, and the arbitration over them.

    It is called only after the contract was judged and every gate passed, so both
    engines report PASS with the rules they applied; what did not pass never gets here.
    """
    run = ctx.run.chain.run
    targets = tuple(
        artifact_id(
            ArtifactKey(
                run=run,
                node=ctx.node.id,
                attempt=attempt,
                output=each.output,
                path=each.path,
                digest=each.digest,
            )
        )
        for each in artifacts
    )
    contract = _passed(Engine.ARTIFACT_CONTRACT, ("manifest", "summary", "outputs"), targets)
    gates = _passed(Engine.UNIT_GATES, tuple(each.name for each in ctx.node.gates), ())
    results = (contract, gates) if ctx.node.gates else (contract,)
    policy = ctx.run.resolved.flow.verification
    decided = arbitrate(policy, policy_fingerprint(policy), results)
    return (*(VerificationRecorded(result=each) for each in results), ArbitrationDecided(arbitration=decided))


def policy_fingerprint(policy: VerificationPolicy) -> Digest:
    """Return the digest under which a verification policy is pinned."""
    return digest_fields("fusion.verification-policy.v1", [canonical(unstructure(policy))])


def _passed(engine: Engine, rules: tuple[str, ...], targets: tuple[Digest, ...]) -> VerificationResult:
    return VerificationResult(
        engine=engine,
        deterministic=True,
        phase=VerificationPhase.POST,
        rules_applied=rules,
        rules_violated=(),
        artifacts_checked=targets,
        status=VerificationStatus.PASS,
        reason="every rule holds",
        decision=VerificationStatus.PASS,
    )
