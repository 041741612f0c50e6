"""Performs FreezeAttempt: commit and pin the code, copy, hash, judge, publish, record.

A crash anywhere leaves at most staged or published directories that no step
names; the sweep at start removes them and the freeze is done again from the
same worktree (`engine.md`, Failure boundaries).
"""

from dataclasses import replace

from fusiond.domain.artifacts import ContractProblem
from fusiond.domain.effects import FreezeAttempt
from fusiond.domain.steps.attempt import AttemptFrozen
from fusiond.domain.steps.judgement import ArtifactsValidated
from fusiond.execution.attempts.freezing import (
    changes_of,
    freeze_request,
    nested_problems,
    problems_report,
    recorded_tree,
    verification_of,
)
from fusiond.execution.context import LaidTree, StageContext
from fusiond.execution.perform.prepare import relaid_or_lost
from fusiond.ports.snapshots import Staged
from fusiond.ports.workspace import CommittedTree


async def perform_freeze(ctx: StageContext, effect: FreezeAttempt) -> None:
    """Freeze an attempt whose gates passed, or record what is wrong with it."""
    laid = await relaid_or_lost(ctx, effect.attempt)
    if laid is not None:
        await _freeze(ctx, effect, laid)


async def _freeze(ctx: StageContext, effect: FreezeAttempt, laid: LaidTree) -> None:
    services, attempt = ctx.services, ctx.attempt_id(effect.attempt)
    snapshot = await recorded_tree(ctx, effect.attempt)
    if isinstance(snapshot, ContractProblem):
        await _record_unrecordable(ctx, effect, snapshot)
        return
    committed = await services.workspace.commit(attempt, snapshot.tree, _message(ctx, effect))
    staged = await services.snapshots.stage(
        freeze_request(ctx, effect.attempt, laid, changes_of(ctx, committed))
    )
    staged = replace(staged, problems=(*staged.problems, *nested_problems(snapshot)))
    try:
        clean = await _record_validation(ctx, effect, staged, committed)
        if clean:
            await services.snapshots.publish(staged)
    except BaseException:
        await services.snapshots.drop(staged)
        raise
    if not clean:
        await services.snapshots.drop(staged)
        return
    await _record_frozen(ctx, effect, staged, committed)


def _message(ctx: StageContext, effect: FreezeAttempt) -> str:
    """Return the commit message of an attempt's revision."""
    return f"{ctx.node.id}: attempt {effect.attempt} of flow {ctx.run.started.flow}\n\nFusion run {ctx.run.chain.run}"


async def _record_unrecordable(ctx: StageContext, effect: FreezeAttempt, problem: ContractProblem) -> None:
    """Record that a gate left a worktree that is no revision."""
    tree, outputs = ctx.attempt.tree, ctx.attempt.outputs
    assert tree is not None, "a freeze follows a recorded revision"
    assert outputs is not None, "a freeze follows a recorded revision"
    report = await ctx.services.content.put(ctx.run.chain.run, problems_report([problem]))
    await ctx.record(
        effect.attempt,
        ArtifactsValidated(
            round=effect.round, problems=(problem.code,), tree=tree, outputs=outputs, report=report
        ),
    )


async def _record_validation(
    ctx: StageContext, effect: FreezeAttempt, staged: Staged, committed: CommittedTree
) -> bool:
    """Record what was found; say whether it may be frozen as it is."""
    report = None
    if staged.problems:
        # It may quote an artifact, and artifact bytes never enter a database.
        body = problems_report(staged.problems)
        report = await ctx.services.content.put(ctx.run.chain.run, body)
    state = ctx.attempt
    await ctx.record(
        effect.attempt,
        ArtifactsValidated(
            round=effect.round,
            problems=tuple(each.code for each in staged.problems),
            tree=committed.revision.tree,
            outputs=staged.outputs,
            report=report,
        ),
    )
    unchanged = (staged.outputs, committed.revision.tree) == (state.outputs, state.tree)
    return unchanged and not staged.problems


async def _record_frozen(
    ctx: StageContext, effect: FreezeAttempt, staged: Staged, committed: CommittedTree
) -> None:
    frozen = AttemptFrozen(
        tree=committed.revision.tree,
        artifacts=staged.artifacts,
        recorded_by=staged.recorded_by,
        manifest=staged.manifest,
        summary=staged.summary,
        commit=committed.revision.commit,
    )
    verified = verification_of(ctx, effect.attempt, staged.artifacts)
    # One commit: whoever reads the ledger sees a frozen attempt with its verdict or
    # neither. How the stage ends follows from the arbitration and is decided.
    await ctx.record(effect.attempt, frozen, *verified)
