"""Reading subscriptions in tests: a number of pushes, or of steps, with a deadline."""

import asyncio

from fusiond.client.aio import Subscription
from fusiond.wire.messages import Push, StepPush
from tests.waiting import DEADLINE_S


class Pushes:
    """Reads one subscription push by push."""

    def __init__(self, subscription: Subscription) -> None:
        self._batches = subscription.batches()
        self._read: list[Push] = []

    async def next(self) -> Push:
        """Return the next push."""
        async with asyncio.timeout(DEADLINE_S):
            while not self._read:
                self._read = await anext(self._batches)
        return self._read.pop(0)

    async def steps(self, count: int) -> list[int]:
        """Return the positions of the next steps, passing over every other push."""
        found: list[int] = []
        while len(found) < count:
            push = await self.next()
            if isinstance(push, StepPush):
                found.append(push.position)
        return found
