"""Writes into the user's checkout while an attempt without walls ran: found and recorded.

With walls an attempt cannot reach the checkout, so nothing is looked at. Without,
nobody can say who wrote: the user may have. What is recorded says no more than that.
A setup command is the flow's own and runs once for many attempts; it is not guarded.
"""

import logging
from collections.abc import AsyncIterator, Mapping
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
    before = None if ctx.services.launcher.isolation is Isolation.BUBBLEWRAP else await _look(ctx)
    yield found
    if isinstance(before, Mapping) and (told := _difference(before, await _look(ctx))):
        found.violations = (ViolationRecorded(rule=RULE, detail=f"{told} while {what} ran"),)


def _difference(before: CheckoutMarks, after: CheckoutMarks | str) -> str:
    if isinstance(after, str):
        # A checkout that is no longer readable is the greatest change there is.
        return f"the user's checkout became unreadable ({after})"
    paths = changed_paths(before, after)
    return f"{_named(paths)} changed in the user's checkout" if paths else ""


def changed_paths(before: CheckoutMarks, after: CheckoutMarks) -> list[str]:
    """Return the paths that are new, gone or different, sorted."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _named(paths: list[str]) -> str:
    named = [display_safe(path, max_chars=_PATH_CHARS) for path in paths[:NAMED_PATHS]]
    more = len(paths) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


async def _look(ctx: StageContext) -> CheckoutMarks | str:
    """Return the marks, or why there are none."""
    try:
        return await ctx.services.checkout.marks()
    except (FusionError, OSError) as error:
        why = error.found if isinstance(error, FusionError) else str(error)
        logger.warning("checkout not readable", extra=facts(node=ctx.node.id, why=why))
        return display_safe(why, max_chars=_PATH_CHARS)
