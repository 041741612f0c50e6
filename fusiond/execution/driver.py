"""Drives one run: decide, start one performer per stage, wait for change, again.

Memory here is only who is busy with what; everything else is in the ledger, so
a driver can be dropped at any moment and another can go on.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fusiond.domain.decide import ceiling, decide, wall_clock_left_us
from fusiond.domain.effects import (
    CloseUnknown,
    Effect,
    FailAttempt,
    FinishRun,
    FinishStage,
    FreezeAttempt,
    ParkRun,
    PrepareAttempt,
    RunGate,
    RunTurn,
    StageEffect,
)
from fusiond.domain.errors import (
    ConflictError,
    FencedError,
    FusionError,
    IllegalStepError,
    StorageError,
    TryAgainError,
)
from fusiond.domain.ids import AttemptId, NodeId, StageId
from fusiond.domain.leases import Lease
from fusiond.domain.transitions import RunPhase
from fusiond.execution.attempts.setup import SetupLocks
from fusiond.execution.context import BACKOFF_S, RunContext
from fusiond.execution.logged import facts
from fusiond.execution.perform.finish import perform_finish_run, perform_park
from fusiond.execution.turn import perform

logger = logging.getLogger(__name__)

MAX_REFUSALS = 50
"""Refusals in a row, without one success, after which the driver ends visibly."""

_WORKING = (PrepareAttempt, RunTurn, RunGate, FreezeAttempt)
"""Effects that run processes or move bytes, and so take one of the daemon's slots."""

_ENDING = (FreezeAttempt, FailAttempt, FinishStage, PrepareAttempt, CloseUnknown)
"""Effects after which an attempt may be over, so that its directories go."""


@dataclass(slots=True)
class Busy:
    """One performer at work."""

    task: asyncio.Task[None]
    cancel: asyncio.Event = field(default_factory=asyncio.Event)


class RunDriver:
    """Moves one run until it is over, parked, or draining."""

    def __init__(self, run: RunContext, locks: SetupLocks, slots: asyncio.Semaphore) -> None:
        self._run = run
        self._locks = locks
        self._slots = slots
        self._busy: dict[NodeId, Busy] = {}
        self._leases: dict[NodeId, Lease] = {}
        self._foreign: dict[NodeId, int] = {}
        self._wake = asyncio.Event()
        self._draining = False
        self._refusals = 0
        self._stalled = ""
        self._tidying: set[asyncio.Task[None]] = set()
        self._tidy_lock = asyncio.Lock()

    @property
    def stalled(self) -> str:
        """Return what keeps the run from moving although it is driven, empty when nothing does."""
        return self._stalled or self._run.held_up

    @property
    def run(self) -> RunContext:
        """Return the run that is driven."""
        return self._run

    def drain(self) -> None:
        """Start nothing more and end what runs; `drive` returns once nothing does."""
        self._draining = True
        self._wake.set()

    async def drive(self) -> None:
        """Drive until there is nothing left to do here.

        Returns when the run is over or parked, or after `drain`. Whatever a
        performer does not expect ends the driver visibly.
        """
        watching = asyncio.create_task(self._watch(), name=f"watch {self._run.chain.run}")
        try:
            while not self._idle():
                self._wake.clear()
                await self._start_due()
                await self._wait()
        finally:
            watching.cancel()
            await self._end_all()
            await asyncio.wait([watching, *self._tidying])
        await self._release()

    async def _watch(self) -> None:
        while True:
            await self._run.chain.changed()
            self._wake.set()

    def _idle(self) -> bool:
        if self._busy:
            return False
        state = self._run.state
        return self._draining or state.phase.over or state.phase is RunPhase.PARKED

    async def _start_due(self) -> None:
        now_us = self._run.services.clock.now_us()
        state = self._run.state
        if self._draining or state.phase is RunPhase.CANCELLING or ceiling(state, now_us):
            for busy in self._busy.values():
                busy.cancel.set()
        if self._draining:
            return
        self._foreign = {node: until for node, until in self._foreign.items() if until > now_us}
        for effect in decide(state, now_us, frozenset(self._busy) | frozenset(self._foreign)):
            await self._start(effect)

    async def _start(self, effect: Effect) -> None:
        match effect:
            case ParkRun():
                await self._recorded(perform_park(self._run, effect))
            case FinishRun():
                await self._recorded(perform_finish_run(self._run, effect))
            case _:
                cancel = asyncio.Event()
                task = asyncio.create_task(self._perform(effect, cancel), name=f"{effect}")
                self._busy[effect.node] = Busy(task=task, cancel=cancel)
                task.add_done_callback(lambda _: self._wake.set())

    async def _perform(self, effect: StageEffect, cancel: asyncio.Event) -> None:
        try:
            async with self._slot(effect, cancel) as granted:
                if not granted:
                    return
                lease = await self._claim(effect.node)
                await perform(self._run, effect, lease, cancel, self._locks)
            self._moved()
        except FencedError:
            self._leases.pop(effect.node, None)
            await self._stand_back(effect.node)
        except (ConflictError, IllegalStepError) as error:
            # Somebody else moved the run (a cancellation, another worker). The state
            # is up to date again, and the next decision follows from it.
            await self._refused(error)
            if self._leases.get(effect.node) is None:
                await self._stand_back(effect.node)
        except (StorageError, TryAgainError) as error:
            await self._back_off(error)
        if isinstance(effect, _ENDING):
            # Beside the run, which need not wait until a large worktree is removed.
            tidying = asyncio.create_task(self._tidied(effect.node), name=f"tidy {effect.node}")
            self._tidying.add(tidying)
            tidying.add_done_callback(self._tidied_up)

    @asynccontextmanager
    async def _slot(self, effect: StageEffect, cancel: asyncio.Event) -> AsyncIterator[bool]:
        """Hold one of the daemon's slots for an effect that works; False when it was cancelled waiting.

        What only records needs none: a cancellation must not wait for other runs' commands.
        """
        if not isinstance(effect, _WORKING):
            yield True
            return
        acquiring = asyncio.ensure_future(self._slots.acquire())
        stopping = asyncio.ensure_future(cancel.wait())
        await asyncio.wait((acquiring, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not acquiring.done():
            acquiring.cancel()
            yield False
            return
        try:
            yield True
        finally:
            self._slots.release()

    async def _claim(self, node: NodeId) -> Lease:
        services = self._run.services
        held = self._leases.get(node)
        now_us, ttl_us = services.clock.now_us(), services.settings.lease_ttl_us
        if held is not None and held.expires_us - now_us > ttl_us // 2:
            return held
        if held is not None:
            lease = await services.queue.renew(held, now_us=now_us, ttl_us=ttl_us)
        else:
            lease = await services.queue.claim(
                self._run.chain.run,
                node,
                owner=services.settings.worker,
                now_us=now_us,
                ttl_us=ttl_us,
            )
        self._leases[node] = lease
        return lease

    async def _stand_back(self, node: NodeId) -> None:
        """Leave a stage to its holder until the holder's lease expires; then look again."""
        services = self._run.services
        await self._run.chain.load()
        lease = await services.queue.lease(self._run.chain.run, node)
        now_us = services.clock.now_us()
        if lease is None or lease.owner == services.settings.worker:
            return
        self._foreign[node] = max(lease.expires_us, now_us + 1)
        logger.warning(
            "another worker holds the stage",
            extra=facts(run=self._run.chain.run, node=node, owner=lease.owner),
        )

    async def _refused(self, error: FusionError) -> None:
        """Let the next decision follow; what is refused again and again is a defect, said so."""
        logger.info("decide anew", extra=facts(run=self._run.chain.run, why=error.sentence()))
        self._refusals += 1
        if self._refusals > MAX_REFUSALS:
            raise error
        await asyncio.sleep(BACKOFF_S[0] if self._refusals > 1 else 0)

    def _moved(self) -> None:
        self._refusals = 0
        self._stalled = ""

    async def _back_off(self, error: FusionError) -> None:
        """Wait for the disk, or for whoever holds it. It ends by itself, so the wait has no end but is for everyone to see."""
        self._stalled = error.sentence()
        wait_s = BACKOFF_S[min(self._refusals, len(BACKOFF_S) - 1)]
        self._refusals += 1
        logger.error("held up", extra=facts(run=self._run.chain.run, why=error.sentence()))
        await asyncio.sleep(wait_s)

    def _tidied_up(self, tidying: asyncio.Task[None]) -> None:
        self._tidying.discard(tidying)
        if not tidying.cancelled() and (error := tidying.exception()) is not None:
            logger.error("not tidied", extra=facts(run=self._run.chain.run), exc_info=error)

    async def _tidied(self, node: NodeId) -> None:
        """Tidy up; what cannot be removed now is swept at the next start and harms nobody."""
        try:
            async with self._tidy_lock:
                await self._tidy(node)
        except (FusionError, OSError) as error:
            why = error.sentence() if isinstance(error, FusionError) else str(error)
            logger.warning("not tidied", extra=facts(run=self._run.chain.run, node=node, why=why))

    async def _tidy(self, node: NodeId) -> None:
        """Remove the directories of attempts that are over; their record is on disk."""
        for attempt in self._run.stage(node).attempts:
            if attempt.phase.over:
                whole = AttemptId(StageId(self._run.chain.run, node), attempt.number)
                await self._run.services.workspace.discard(whole)
        latest = self._run.stage(node).latest
        if latest is None or latest.phase.over:
            self._run.laid.pop(node, None)

    async def _recorded(self, performance: Coroutine[None, None, None]) -> None:
        try:
            await performance
            self._moved()
        except (ConflictError, IllegalStepError) as error:
            await self._refused(error)
            self._wake.set()
        except (StorageError, TryAgainError) as error:
            await self._back_off(error)
            self._wake.set()

    async def _wait(self) -> None:
        """Wait for a change, a performer's end, a foreign lease's expiry or the wall clock."""
        timeouts = [until - self._run.services.clock.now_us() for until in self._foreign.values()]
        left = wall_clock_left_us(self._run.state, self._run.services.clock.now_us())
        if left:
            timeouts.append(left)
        if self._idle() or (left == 0 and not self._busy and not self._foreign):
            return
        try:
            async with asyncio.timeout(max(0, min(timeouts)) / 1_000_000 if timeouts else None):
                await self._wake.wait()
        except TimeoutError:
            pass
        for node in [node for node, busy in self._busy.items() if busy.task.done()]:
            self._busy.pop(node).task.result()

    async def _end_all(self) -> None:
        for busy in self._busy.values():
            busy.cancel.set()
        if self._busy:
            await asyncio.wait([busy.task for busy in self._busy.values()])
        self._busy.clear()

    async def _release(self) -> None:
        try:
            for lease in self._leases.values():
                await self._run.services.queue.release(lease)
        except StorageError as error:
            # An unreleased lease expires by itself.
            logger.warning("leases stay", extra=facts(run=self._run.chain.run, why=error.sentence()))
        self._leases.clear()
