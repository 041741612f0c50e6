"""How tests wait: for a condition, with a deadline; never for an amount of time.

The only place in the tests that may sleep, between two looks at the condition.
"""

import asyncio
import time
from collections.abc import Callable

DEADLINE_S = 30.0
"""Long enough for the busiest machine; only a test that fails ever waits for it."""

_FIRST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.05


def wait_until(condition: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Return when `condition()` is true; raise AssertionError naming `what` when it never is."""
    end, pause = time.monotonic() + deadline_s, _FIRST_PAUSE_S
    while not condition():
        _fail_after(end, what, deadline_s)
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_S)


async def eventually(condition: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Do as `wait_until`, and let the event loop run meanwhile."""
    end, pause = time.monotonic() + deadline_s, _FIRST_PAUSE_S
    while not condition():
        _fail_after(end, what, deadline_s)
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_S)


def _fail_after(end: float, what: str, deadline_s: float) -> None:
    if time.monotonic() > end:
        raise AssertionError(f"within {deadline_s:g} s there was no {what}")
