"""Performs PrepareAttempt: merge base, worktree, setup, inputs, then `attempt_started`.

Nothing is recorded before everything is ready, so a crash in between leaves
only directories, which the next preparation replaces.
"""

from dataclasses import replace

from fusiond.domain.digest import Digest
from fusiond.domain.effects import PrepareAttempt
from fusiond.domain.errors import (
    ConflictError,
    CorruptError,
    FencedError,
    FusionError,
    IllegalStepError,
    StorageError,
    UnrecordedError,
)
from fusiond.domain.flow import CodeAccess
from fusiond.domain.ids import AttemptNumber, CommitId, NodeId
from fusiond.domain.launch import Isolation
from fusiond.domain.state import AttemptState
from fusiond.domain.steps.attempt import (
    AttemptFailed,
    AttemptFailure,
    AttemptStarted,
    BlockReason,
    StageFinished,
    StageOutcome,
)
from fusiond.execution.attempts.inputs import laid_inputs, write_contract, write_run_inputs
from fusiond.execution.attempts.setup import SetupFailed, SetupLocks, ensure_setup, setup_key
from fusiond.execution.context import LaidTree, StageContext
from fusiond.ports.workspace import MergeConflict, PreparedTree, Revision


async def perform_prepare(ctx: StageContext, effect: PrepareAttempt, locks: SetupLocks) -> None:
    """Prepare an attempt and record it, or record why it cannot start."""
    base = base_of(ctx)
    start = await _merged(ctx, base)
    if start is None:
        return
    started = AttemptStarted(
        start_tree=start.tree,
        inputs=laid_inputs(ctx),
        setup_key=None,
        start_commit=start.commit,
        isolation=ctx.services.launcher.isolation,
        worker=ctx.services.settings.worker,
    )
    try:
        await _prepare(ctx, effect, locks, base, start, started)
    except (ConflictError, FencedError, IllegalStepError, UnrecordedError):
        # The ledger's answer, not the preparation's failure: the driver decides anew.
        raise
    except FusionError as error:
        failed = AttemptFailed(reason=_reason(error), detail=error.sentence())
        await ctx.record(effect.attempt, started, failed)


async def _merged(ctx: StageContext, base: Revision) -> Revision | None:
    """Return where the attempt starts; None when there is no such place, which ends the stage."""
    try:
        start = await ctx.services.workspace.merge(base, parents_of(ctx))
    except StorageError:
        raise
    except FusionError as error:
        ended = StageFinished(
            outcome=StageOutcome.BLOCKED,
            attempt=None,
            block=BlockReason.ISOLATION,
            detail=f"no worktree can be made: {error.sentence()}",
        )
    else:
        if not isinstance(start, MergeConflict):
            return start
        ended = StageFinished(
            outcome=StageOutcome.CODE_CONFLICT,
            attempt=None,
            conflict_paths=start.paths,
            detail="the code of its dependencies does not merge",
        )
    await ctx.record(None, ended)
    return None


async def _prepare(
    ctx: StageContext,
    effect: PrepareAttempt,
    locks: SetupLocks,
    base: Revision,
    start: Revision,
    started: AttemptStarted,
) -> None:
    setup, key = ctx.node.setup, None
    if setup is not None:
        key = await setup_key(ctx, setup, start)
        failed = await ensure_setup(ctx, locks, setup, key, base, start)
        if failed is not None:
            await _record_setup_failure(ctx, effect, replace(started, setup_key=key), failed)
            return
    attempt = ctx.attempt_id(effect.attempt)
    tree = await ctx.services.workspace.prepare(
        attempt, base, start, sandboxed=started.isolation is Isolation.BUBBLEWRAP
    )
    ctx.run.laid[ctx.node.id] = await _lay(ctx, effect, tree, key)
    await ctx.services.snapshots.hand_over(ctx.run.chain.run, started.inputs, tree.places.inputs)
    await write_run_inputs(ctx, tree.places)
    await write_contract(ctx, tree.places)
    await ctx.record(effect.attempt, replace(started, setup_key=key))


async def _lay(ctx: StageContext, effect: PrepareAttempt, tree: PreparedTree, key: Digest | None) -> LaidTree:
    if key is None:
        return LaidTree(tree=tree, mounts=tree.mounts)
    sandboxed = ctx.services.launcher.isolation is Isolation.BUBBLEWRAP
    mounts = await ctx.services.setups.lay(key, ctx.attempt_id(effect.attempt), sandboxed=sandboxed)
    return LaidTree(tree=tree, mounts=(*tree.mounts, *mounts))


async def _record_setup_failure(
    ctx: StageContext, effect: PrepareAttempt, started: AttemptStarted, failed: SetupFailed
) -> None:
    if ctx.cancel.is_set():
        return
    reason = AttemptFailure.SETUP_FAILED
    await ctx.record(
        effect.attempt,
        started,
        AttemptFailed(reason=reason, detail=failed.detail, output=failed.output),
    )


def _reason(error: FusionError) -> AttemptFailure:
    match error:
        case StorageError():
            return AttemptFailure.STORAGE
        case CorruptError():
            return AttemptFailure.INPUT_CORRUPT
        case _:
            return AttemptFailure.ISOLATION_FAILED


def base_of(ctx: StageContext) -> Revision:
    """Return the run's pinned base."""
    started = ctx.run.started
    return Revision(commit=started.base_commit, tree=started.base_tree)


def parents_of(ctx: StageContext) -> tuple[CommitId, ...]:
    """Return the revisions that the attempt's start merges, in topological order.

    Each dependency brings what it wrote, or, where it may not write code, what it
    started from, so that a reading node passes on the code it read.
    """
    needed = set(ctx.run.stage(ctx.node.id).plan.needs)
    ordered = [node for node in ctx.run.resolved.order if node in needed]
    return tuple(dict.fromkeys(_carried(ctx, node) for node in ordered))


def _carried(ctx: StageContext, node: NodeId) -> CommitId:
    stage = ctx.run.stage(node)
    frozen = stage.frozen
    assert frozen is not None, "a stage starts only after its dependencies succeeded"
    if stage.plan.code is CodeAccess.WRITE and frozen.commit is not None:
        return frozen.commit
    return frozen.start_commit


async def relaid(ctx: StageContext, attempt: AttemptState) -> LaidTree | None:
    """Return the attempt's tree as it lies on disk, None when it is gone.

    After a restart nothing is in memory: the tree is found on disk and the setup
    is laid again by the recorded key.
    """
    known = ctx.run.laid.get(ctx.node.id)
    if known is not None:
        return known
    tree = await ctx.services.workspace.existing(ctx.attempt_id(attempt.number))
    if tree is None:
        return None
    mounts = tree.mounts
    if attempt.setup_key is not None:
        sandboxed = attempt.isolation is Isolation.BUBBLEWRAP
        laid = await ctx.services.setups.lay(
            attempt.setup_key, ctx.attempt_id(attempt.number), sandboxed=sandboxed
        )
        mounts = (*mounts, *laid)
    ctx.run.laid[ctx.node.id] = LaidTree(tree=tree, mounts=mounts)
    return ctx.run.laid[ctx.node.id]


async def relaid_or_lost(ctx: StageContext, number: AttemptNumber) -> LaidTree | None:
    """Return the attempt's tree, or record that it is lost and return None."""
    laid = await relaid(ctx, ctx.attempt)
    if laid is None:
        detail = "the attempt's worktree is gone or half made"
        await ctx.record(number, AttemptFailed(reason=AttemptFailure.WORKSPACE_LOST, detail=detail))
    return laid
