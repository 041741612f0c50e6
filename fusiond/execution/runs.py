"""All runs of a workspace: which are driven, and what is known of the others.

`Runs` starts a driver for each open run and folds any other run on demand. It owns
no rule; rules are in `domain`, and what people do to runs is in `execution.acts`.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass

from fusiond.codec.canonical import parse_json
from fusiond.codec.records import structure
from fusiond.domain.errors import AmbiguousError, FusionError, NotFoundError
from fusiond.domain.flow import ResolvedFlow
from fusiond.domain.ids import NodeId, RunId, TenantId
from fusiond.domain.state import RunState
from fusiond.domain.steps.record import NewStep
from fusiond.domain.steps.run import ParkReason, RunParked
from fusiond.domain.transitions import RunPhase
from fusiond.domain.views import RunSummary, summary_of
from fusiond.execution.attempts.setup import SetupLocks
from fusiond.execution.chain import RunChain
from fusiond.execution.context import RunContext
from fusiond.execution.driver import RunDriver
from fusiond.execution.logged import facts
from fusiond.execution.perform.unplanned import end_without_plan
from fusiond.execution.recovery import UNREADABLE, recover
from fusiond.execution.services import Services
from fusiond.ports.ledger import RunRow

logger = logging.getLogger(__name__)

MAX_PLAN_BYTES = 16 * 1024 * 1024
KEPT_CHAINS = 64
"""How many runs that are not driven stay folded in memory."""

KEPT_SUMMARIES = 10_000
"""How many lines of lists of runs are remembered, so that listing again folds nothing."""

NEWEST = "@last"


@dataclass(slots=True)
class Driven:
    """A run with a driver."""

    driver: RunDriver
    task: asyncio.Task[None]


class Runs:
    """Every run of the workspace."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._locks = SetupLocks()
        self._slots = asyncio.Semaphore(services.settings.parallel)
        self._chains: dict[RunId, RunChain] = {}
        self._driven: dict[RunId, Driven] = {}
        self._summaries: dict[RunId, RunSummary] = {}
        self._broken: dict[RunId, str] = {}
        self._following_up: set[asyncio.Task[None]] = set()
        self._run_locks: dict[RunId, asyncio.Lock] = {}
        self._draining = False

    @property
    def broken(self) -> dict[RunId, str]:
        """Return open runs that nobody drives, with the reason: unreadable, or an internal error."""
        return dict(self._broken)

    @property
    def stalled(self) -> dict[RunId, str]:
        """Return driven runs that a refusing disk holds up; they go on by themselves when it takes writes."""
        stalled = {run: driven.driver.stalled for run, driven in self._driven.items()}
        return {run: why for run, why in stalled.items() if why}

    @property
    def active(self) -> int:
        """Return how many runs are driven now."""
        return len(self._driven)

    async def start(self) -> None:
        """Recover the workspace and drive every open run that is not parked."""
        recovered = await recover(self._services)
        logger.info(
            "recovered",
            extra=facts(
                runs=len(recovered.chains),
                processes=recovered.processes,
                leases=recovered.leases,
                removed=len(recovered.removed),
            ),
        )
        self._broken.update(recovered.unreadable)
        for run, why in recovered.unreadable.items():
            logger.error("run cannot be read", extra=facts(run=run, why=why))
        for chain in recovered.chains:
            self._chains[chain.run] = chain
            await self.drive(chain)

    async def drive(self, chain: RunChain) -> None:
        """Start driving a run, unless it is driven already, over, or parked."""
        async with self._lock_of(chain.run):
            # Two chains of one run would each think the other's steps foreign.
            await self._drive(self._chains.setdefault(chain.run, chain))

    async def _drive(self, chain: RunChain) -> None:
        await chain.load()
        state = chain.state
        if chain.run in self._driven or state.phase.over or state.phase is RunPhase.PARKED:
            return
        try:
            context = await self._context(chain)
        except FusionError as error:
            # One run that cannot be read must not keep the others from going on.
            self._broken[chain.run] = error.sentence()
            logger.exception("run cannot go on", extra=facts(run=chain.run, why=error.sentence()))
            await self._give_up(chain, error)
            return
        driver = RunDriver(context, self._locks, self._slots)
        task = asyncio.create_task(driver.drive(), name=f"drive {chain.run}")
        self._driven[chain.run] = Driven(driver=driver, task=task)
        self._broken.pop(chain.run, None)
        task.add_done_callback(lambda done: self._ended(chain.run, done))

    async def _give_up(self, chain: RunChain, error: FusionError) -> None:
        """Record that a run without a readable plan waits for a person, or ends when one ended it."""
        if chain.state.phase is not RunPhase.CANCELLING:
            await self._park(chain.run, ParkReason.CONTENT_MISSING, error.sentence())
            return
        try:
            await end_without_plan(chain, self._services.clock.now_us())
        except FusionError as refused:
            # It stays listed as one that cannot go on; a further cancel tries again.
            logger.warning("cannot end", extra=facts(run=chain.run, why=refused.sentence()))
        else:
            self._broken.pop(chain.run, None)

    def _ended(self, run: RunId, task: asyncio.Task[None]) -> None:
        if run in self._driven and self._driven[run].task is task:
            del self._driven[run]
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._follow_up(run)
        else:
            why = f"internal error: {type(error).__name__}: {error}"
            self._broken[run] = why
            logger.error("driver ended", extra=facts(run=run), exc_info=error)
            self._afterwards(self._park(run, ParkReason.INTERNAL_ERROR, why))

    def _follow_up(self, run: RunId) -> None:
        """Drive again a run that was resumed or cancelled while its driver was leaving."""
        chain = self._chains.get(run)
        if self._draining or chain is None:
            return
        if not chain.state.phase.over and chain.state.phase is not RunPhase.PARKED:
            self._afterwards(self.drive(chain))

    def _afterwards(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._following_up.add(task)
        task.add_done_callback(self._following_up.discard)

    async def _park(self, run: RunId, reason: ParkReason, why: str) -> None:
        """Record that nobody drives a run any more, so that whoever follows it does not wait for ever."""
        parked = RunParked(reason=reason, detail=why)
        try:
            await self._chains[run].append([NewStep(payload=parked, at_us=self._services.clock.now_us())])
        except FusionError as error:
            logger.warning("cannot park", extra=facts(run=run, why=error.sentence()))

    async def drain(self) -> None:
        """End what runs, recording it as ended by us, and stop driving."""
        self._draining = True
        driven = list(self._driven.values())
        for each in driven:
            each.driver.drain()
        if driven:
            await asyncio.wait([each.task for each in driven])
        if self._following_up:
            await asyncio.wait(self._following_up)

    def hints(self, run: RunId) -> dict[NodeId, str]:
        """Return what running attempts' manifests still lack, by node."""
        driven = self._driven.get(run)
        return {} if driven is None else dict(driven.driver.run.hints)

    async def chain(self, tenant: TenantId, run: RunId) -> RunChain:
        """Return a run's chain, folded. NotFoundError also for another tenant's run."""
        async with self._lock_of(run):
            chain = self._chains.get(run)
            if chain is None:
                chain = RunChain(self._services.ledger, self._services.on_append, run)
                await chain.load()
                self._keep(chain)
        started = chain.state.started
        if started is None or started.tenant != tenant:
            self._chains.pop(run, None)
            raise NotFoundError(f"no run {run} for tenant {tenant}", cure="`fusion ls` lists runs")
        return chain

    def _lock_of(self, run: RunId) -> asyncio.Lock:
        if len(self._run_locks) > 16 * KEPT_CHAINS:
            self._run_locks = {each: lock for each, lock in self._run_locks.items() if lock.locked()}
        return self._run_locks.setdefault(run, asyncio.Lock())

    def _keep(self, chain: RunChain) -> None:
        idle = [run for run in self._chains if run not in self._driven]
        for run in idle[: max(0, len(idle) - KEPT_CHAINS)]:
            del self._chains[run]
        self._chains[chain.run] = chain

    async def state(self, tenant: TenantId, run: RunId) -> RunState:
        """Return a run's folded state."""
        return (await self.chain(tenant, run)).state

    async def resolve(self, tenant: TenantId, name: str) -> RunId:
        """Return the run that `name` means: an id, a unique prefix of one, or `@last`."""
        if name in self._chains:
            return (await self.chain(tenant, RunId(name))).run
        rows = await self._services.ledger.runs(tenant, open_only=False, limit=1_000_000)
        if name == NEWEST:
            if not rows:
                raise NotFoundError("there is no run yet", cure="start one with `fusion run`")
            return rows[0].run
        found = [row.run for row in rows if row.run.startswith(name)] if name else []
        if len(found) == 1:
            return found[0]
        if not found:
            raise NotFoundError(f"no run {name}", cure="`fusion ls` lists runs")
        raise AmbiguousError(
            f"{name} begins {len(found)} runs: {', '.join(found[:5])}", expected="a unique prefix"
        )

    async def summaries(self, tenant: TenantId, *, open_only: bool, limit: int) -> Sequence[RunSummary]:
        """List runs, newest first."""
        rows = await self._services.ledger.runs(tenant, open_only=open_only, limit=limit)
        if len(self._summaries) > KEPT_SUMMARIES:
            self._summaries.clear()
        listed: list[RunSummary] = []
        for row in rows:
            known = self._summaries.get(row.run)
            if known is None or known.head_seq != row.head.seq:
                known = await self._summary(tenant, row)
                self._summaries[row.run] = known
            listed.append(known)
        return listed

    async def _summary(self, tenant: TenantId, row: RunRow) -> RunSummary:
        try:
            return summary_of(await self.state(tenant, row.run))
        except (*UNREADABLE, NotFoundError) as error:
            return RunSummary(
                run=row.run,
                tenant=row.tenant,
                flow="",
                phase=None,
                outcome=None,
                status="unreadable",
                stages_done=0,
                stages=0,
                started_us=row.started_us,
                updated_us=row.updated_us,
                head_seq=row.head.seq,
                unreadable=error.sentence(),
            )

    async def _context(self, chain: RunChain) -> RunContext:
        started = chain.state.started
        if started is None:
            raise NotFoundError(f"run {chain.run} has no run_started")
        content = self._services.content
        plan = await content.get(started.tenant, chain.run, started.plan)
        value = parse_json(plan, max_bytes=MAX_PLAN_BYTES, max_depth=64)
        resolved = structure(ResolvedFlow, value, strict=True)
        bodies: dict[str, bytes] = {}
        for node in resolved.flow.nodes:
            for output in node.outputs:
                if output.schema is not None and output.schema.content is not None:
                    bodies[output.schema.path] = await content.get(
                        started.tenant, chain.run, output.schema.content
                    )
        return RunContext(services=self._services, chain=chain, resolved=resolved, schema_bodies=bodies)
