"""The invariant: one effect is performed under its stage's lease, and ends in steps.

`perform` is the only place that turns an effect of `decide` into doing. It
keeps the stage's lease alive meanwhile, and stops at once when the lease is
lost. Claiming, loading, folding and deciding are the driver's.
"""

import asyncio
import logging
from typing import assert_never

from fusiond.domain.effects import (
    CloseUnknown,
    FailAttempt,
    FinishStage,
    FreezeAttempt,
    PrepareAttempt,
    RecordRevision,
    RequestRerun,
    RunGate,
    RunTurn,
    StageEffect,
)
from fusiond.domain.errors import FencedError, StorageError, UnrecordedError
from fusiond.domain.leases import Fence, Lease
from fusiond.execution.attempts.setup import SetupLocks
from fusiond.execution.context import RunContext, StageContext
from fusiond.execution.logged import facts
from fusiond.execution.perform.command import perform_close_unknown, perform_turn
from fusiond.execution.perform.finish import perform_fail, perform_finish_stage, perform_storage_failure
from fusiond.execution.perform.freeze import perform_freeze
from fusiond.execution.perform.judge import perform_gate, perform_rerun, perform_revision
from fusiond.execution.perform.prepare import perform_prepare

logger = logging.getLogger(__name__)

RENEWALS_PER_TTL = 3
"""A lease is renewed this often within its time to live, so one late renewal costs nothing."""


async def perform(
    run: RunContext, effect: StageEffect, lease: Lease, cancel: asyncio.Event, locks: SetupLocks
) -> None:
    """Perform one effect under `lease`.

    Args:
        run: the run.
        effect: what is due for one stage.
        lease: the stage's lease, held by this worker.
        cancel: set to end the effect's processes.
        locks: one lock for each setup key.

    Raises:
        FencedError: the lease went to somebody else; nothing more was appended.
        ConflictError, IllegalStepError: the run moved meanwhile; decide anew.
        UnrecordedError: the ledger could not be written.
    """
    ctx = StageContext(
        run=run,
        node=run.node(effect.node),
        fence=Fence(node=effect.node, epoch=lease.epoch),
        cancel=cancel,
    )
    renewing = asyncio.create_task(_renew(ctx, lease), name=f"renew {effect.node}")
    try:
        await _dispatch(ctx, effect, locks)
    except UnrecordedError:
        raise
    except StorageError as error:
        await perform_storage_failure(ctx, error)
    finally:
        renewing.cancel()
        await asyncio.wait([renewing])
    if not renewing.cancelled() and (lost := renewing.exception()) is not None:
        raise lost


async def _renew(ctx: StageContext, lease: Lease) -> None:
    """Keep the lease alive; when it is lost, end the effect's processes."""
    services = ctx.services
    ttl_us = services.settings.lease_ttl_us
    while True:
        await asyncio.sleep(ttl_us / RENEWALS_PER_TTL / 1_000_000)
        try:
            lease = await services.queue.renew(lease, now_us=services.clock.now_us(), ttl_us=ttl_us)
        except FencedError:
            ctx.cancel.set()
            raise
        except StorageError as error:
            # Whoever takes the lease meanwhile fences this worker off.
            logger.warning("lease not renewed", extra=facts(node=ctx.node.id, why=error.sentence()))


async def _dispatch(ctx: StageContext, effect: StageEffect, locks: SetupLocks) -> None:
    match effect:
        case PrepareAttempt():
            await perform_prepare(ctx, effect, locks)
        case RunTurn():
            await perform_turn(ctx, effect)
        case CloseUnknown():
            await perform_close_unknown(ctx, effect)
        case RecordRevision():
            await perform_revision(ctx, effect)
        case RunGate():
            await perform_gate(ctx, effect)
        case RequestRerun():
            await perform_rerun(ctx, effect)
        case FreezeAttempt():
            await perform_freeze(ctx, effect)
        case FailAttempt():
            await perform_fail(ctx, effect)
        case FinishStage():
            await perform_finish_stage(ctx, effect)
        case _:
            assert_never(effect)
