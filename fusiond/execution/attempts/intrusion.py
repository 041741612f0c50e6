"""Writes into the user's checkout while an attempt without walls ran: found and recorded.

With walls an attempt cannot reach the checkout, so nothing is looked at. Without,
nobody can say who wrote: the user may have. What is recorded says no more than that.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fusiond.domain.display import display_safe
from fusiond.domain.errors import FusionError
from fusiond.domain.launch import Isolation
from fusiond.domain.steps.turn import ViolationRecorded
from fusiond.execution.context import StageContext
from fusiond.execution.logged import facts
from fusiond.ports.workspace import CheckoutMarks

logger = logging.getLogger(__name__)

RULE = "checkout_changed"
NAMED_PATHS = 5
"""How many changed paths a violation names; the rest is counted."""

_PATH_CHARS = 200


@dataclass(slots=True)
class Intrusion:
    """What was found: steps to record with the outcome, none where nothing changed."""

    violations: tuple[ViolationRecorded, ...] = ()


@asynccontextmanager
async def guarding_checkout(ctx: StageContext, what: str) -> AsyncIterator[Intrusion]:
    """Compare the user's checkout before and after the block, where walls do not keep it apart.

    Args:
        ctx: the stage.
        what: what runs in the block, in words.
    """
    found = Intrusion()
    before = await _marks(ctx)
    yield found
    after = None if before is None else await _marks(ctx)
    if before is not None and after is not None and (paths := changed_paths(before, after)):
        detail = f"{_named(paths)} changed in the user's checkout while {what} ran"
        found.violations = (ViolationRecorded(rule=RULE, detail=detail),)


def changed_paths(before: CheckoutMarks, after: CheckoutMarks) -> list[str]:
    """Return the paths that are new, gone or different, sorted."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _named(paths: list[str]) -> str:
    named = [display_safe(path, max_chars=_PATH_CHARS) for path in paths[:NAMED_PATHS]]
    more = len(paths) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


async def _marks(ctx: StageContext) -> CheckoutMarks | None:
    if ctx.services.launcher.isolation is Isolation.BUBBLEWRAP:
        return None
    try:
        return await ctx.services.checkout.marks()
    except FusionError as error:
        # The user may be in the midst of a rebase or have moved the repository away.
        logger.warning("checkout not looked at", extra=facts(node=ctx.node.id, why=error.sentence()))
        return None
