"""Live hints: while an attempt runs, what its manifest and summary still lack.

Hints are not recorded and decide nothing. People see them in `fusion show`, the
attempt can read them in `$FUSION_HINTS`. A failing hint never disturbs a turn.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fusiond.domain.errors import FusionError
from fusiond.execution.attempts.environment import HINTS_FILE
from fusiond.execution.attempts.feedback import problems_feedback
from fusiond.execution.attempts.freezing import freeze_request
from fusiond.execution.attempts.inputs import write_feedback
from fusiond.execution.context import LaidTree, StageContext
from fusiond.execution.logged import facts

logger = logging.getLogger(__name__)

COMPLETE = "manifest, summary and outputs look complete\n"


@asynccontextmanager
async def hinting(ctx: StageContext, laid: LaidTree) -> AsyncIterator[None]:
    """Keep hints up to date as long as the block runs."""
    task = asyncio.create_task(_watch(ctx, laid), name=f"hints {ctx.node.id}")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        ctx.run.hints.pop(ctx.node.id, None)


async def _watch(ctx: StageContext, laid: LaidTree) -> None:
    try:
        await _hint(ctx, laid)
        async for _ in ctx.services.watcher.changes(laid.tree.places.report):
            await _hint(ctx, laid)
    except (FusionError, OSError) as error:
        logger.warning("no more hints", extra=facts(node=ctx.node.id, why=str(error)))


async def _hint(ctx: StageContext, laid: LaidTree) -> None:
    number = ctx.attempt.number
    checked = await ctx.services.snapshots.check(freeze_request(ctx, number, laid, ()))
    text = problems_feedback(checked.problems) + "\n" if checked.problems else COMPLETE
    ctx.run.hints[ctx.node.id] = text
    await write_feedback(laid.tree.places, HINTS_FILE, text.encode())
