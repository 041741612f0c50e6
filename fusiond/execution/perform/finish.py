"""Performs FailAttempt, FinishStage, ParkRun and FinishRun: mostly records."""

from fusiond.domain.effects import FailAttempt, FinishRun, FinishStage, ParkRun
from fusiond.domain.errors import StorageError
from fusiond.domain.flow import CodeAccess
from fusiond.domain.ids import CommitId
from fusiond.domain.steps.attempt import (
    AttemptFailed,
    AttemptFailure,
    BlockReason,
    StageFinished,
    StageOutcome,
)
from fusiond.domain.steps.run import RunFinished, RunOutcome, RunParked
from fusiond.execution.context import RunContext, StageContext
from fusiond.ports.workspace import MergeConflict, Revision


async def perform_fail(ctx: StageContext, effect: FailAttempt) -> None:
    """Record that an attempt is over without success."""
    await ctx.record(effect.attempt, fail_payload(effect))


def fail_payload(effect: FailAttempt) -> AttemptFailed:
    """Return what is recorded of an attempt that failed."""
    return AttemptFailed(reason=effect.reason, detail=effect.detail)


async def perform_finish_stage(ctx: StageContext, effect: FinishStage) -> None:
    """Record how a stage ended."""
    await ctx.record(None, finish_payload(effect))


def finish_payload(effect: FinishStage) -> StageFinished:
    """Return what is recorded of a stage that ended."""
    return StageFinished(
        outcome=effect.outcome,
        attempt=effect.attempt,
        block=effect.block,
        dependency=effect.dependency,
        detail=effect.detail,
    )


async def perform_storage_failure(ctx: StageContext, error: StorageError) -> None:
    """Record that the disk ended an effect: its attempt fails, and without one the stage is blocked."""
    latest = ctx.run.stage(ctx.node.id).latest
    if latest is not None and not latest.phase.over:
        failed = AttemptFailed(reason=AttemptFailure.STORAGE, detail=error.sentence())
        await ctx.record(latest.number, failed)
        return
    await ctx.record(
        None,
        StageFinished(
            outcome=StageOutcome.BLOCKED,
            attempt=None if latest is None else latest.number,
            block=BlockReason.STORAGE,
            detail=error.sentence(),
        ),
    )


async def perform_park(run: RunContext, effect: ParkRun) -> None:
    """Record that the run waits; by now none of its processes is alive."""
    await run.record(None, None, [RunParked(reason=effect.reason, detail=effect.detail)])


async def perform_finish_run(run: RunContext, effect: FinishRun) -> None:
    """Merge what the stages wrote, pin the result and record how the run ended."""
    if effect.outcome is not RunOutcome.SUCCEEDED:
        await run.record(
            None, None, [RunFinished(outcome=effect.outcome, result_tree=None, result_commit=None)]
        )
        return
    base = Revision(commit=run.started.base_commit, tree=run.started.base_tree)
    result = await run.services.workspace.merge(base, _written(run))
    if isinstance(result, MergeConflict):
        finished = RunFinished(
            outcome=RunOutcome.FAILED,
            result_tree=None,
            result_commit=None,
            conflict_paths=result.paths,
        )
    else:
        await run.services.results.pin_result(run.chain.run, result)
        finished = RunFinished(outcome=effect.outcome, result_tree=result.tree, result_commit=result.commit)
    await run.record(None, None, [finished])


def _written(run: RunContext) -> tuple[CommitId, ...]:
    """Return the revisions of all stages that write code, in topological order."""
    commits: list[CommitId] = []
    for node in run.resolved.order:
        stage = run.stage(node)
        frozen = stage.frozen
        if stage.plan.code is CodeAccess.WRITE and frozen is not None and frozen.commit is not None:
            commits.append(frozen.commit)
    return tuple(dict.fromkeys(commits))
