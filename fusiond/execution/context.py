"""What a performer holds while it performs: the run, the node, its lease and its cancel signal."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field
from itertools import chain, repeat

from fusiond.domain.digest import Content
from fusiond.domain.errors import InvalidError, NotFoundError, UnrecordedError
from fusiond.domain.flow import GateSpec, Node, ResolvedFlow
from fusiond.domain.ids import AttemptId, AttemptNumber, GateName, NodeId, OutputName, StageId, TenantId
from fusiond.domain.launch import Mount
from fusiond.domain.leases import Fence
from fusiond.domain.records import dataclass
from fusiond.domain.state import AttemptState, RunState, StageState
from fusiond.domain.steps.record import NewStep, Payload
from fusiond.domain.steps.refs import refs_of
from fusiond.domain.steps.run import RunStarted
from fusiond.execution.chain import RunChain
from fusiond.execution.logged import facts
from fusiond.execution.services import Services
from fusiond.ports.workspace import PreparedTree

logger = logging.getLogger(__name__)

BACKOFF_S = (0.1, 0.5, 2.0, 5.0)
"""Waits after the ledger refused to write; the last one repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidTree:
    """An attempt's tree with everything that is mounted into it."""

    tree: PreparedTree
    mounts: tuple[Mount, ...]


@dataclass(slots=True, kw_only=True)
class RunContext:
    """One run in execution.

    `schema_bodies` are the pinned JSON Schemas by path; `laid` is a cache that a
    restart rebuilds from disk and ledger; `hints` are for people and never recorded.
    `held_up` says why the ledger cannot be written now, empty while it can.
    """

    services: Services
    chain: RunChain
    resolved: ResolvedFlow
    schema_bodies: dict[str, bytes] = field(default_factory=dict)
    laid: dict[NodeId, LaidTree] = field(default_factory=dict)
    hints: dict[NodeId, str] = field(default_factory=dict)
    held_up: str = ""

    @property
    def state(self) -> RunState:
        """Return the run's state now."""
        return self.chain.state

    @property
    def started(self) -> RunStarted:
        """Return what was pinned at the start."""
        started = self.chain.state.started
        if started is None:
            raise InvalidError(f"run {self.chain.run} has not started", expected="run_started first")
        return started

    @property
    def tenant(self) -> TenantId:
        """Return whose run this is."""
        return self.started.tenant

    def node(self, node: NodeId) -> Node:
        """Return the flow's node."""
        for each in self.resolved.flow.nodes:
            if each.id == node:
                return each
        raise NotFoundError(f"the flow has no node {node}")

    def stage(self, node: NodeId) -> StageState:
        """Return the stage's state now."""
        return self.chain.state.stages[node]

    def schemas(self, node: Node) -> tuple[tuple[OutputName, bytes], ...]:
        """Return the pinned JSON Schemas of a node's outputs."""
        return tuple(
            (output.name, self.schema_bodies[output.schema.path])
            for output in node.outputs
            if output.schema is not None
        )

    async def record(
        self,
        node: NodeId | None,
        attempt: AttemptNumber | None,
        payloads: Sequence[Payload],
        *,
        content: Sequence[Content] = (),
        fence: Fence | None = None,
    ) -> RunState:
        """Append payloads as steps of one place, committed together, stamped now."""
        at_us = self.services.clock.now_us()
        steps = [
            NewStep(node=node, attempt=attempt, payload=each, at_us=at_us, refs=refs_of(each))
            for each in payloads
        ]
        return await self.chain.append(steps, content=content, fence=fence)


@dataclass(slots=True, kw_only=True)
class StageContext:
    """One stage in the hands of one performer."""

    run: RunContext
    node: Node
    fence: Fence
    cancel: asyncio.Event

    @property
    def services(self) -> Services:
        """Return the run's services."""
        return self.run.services

    @property
    def attempt(self) -> AttemptState:
        """Return the newest attempt's state now."""
        latest = self.run.stage(self.node.id).latest
        if latest is None:
            raise NotFoundError(f"{self.node.id} has no attempt yet")
        return latest

    def attempt_id(self, number: AttemptNumber) -> AttemptId:
        """Return the whole name of an attempt of this stage."""
        return AttemptId(StageId(self.run.chain.run, self.node.id), number)

    def gate(self, name: GateName) -> GateSpec:
        """Return a declared gate of the node."""
        for each in self.node.gates:
            if each.name == name:
                return each
        raise NotFoundError(f"{self.node.id} has no gate {name}")

    async def record(
        self, number: AttemptNumber | None, *payloads: Payload, content: Sequence[Content] = ()
    ) -> RunState:
        """Append payloads of this stage under its lease.

        What happened is known only here, so a ledger that cannot be written is waited for
        as long as nobody ends the effect.

        Raises:
            UnrecordedError: the ledger could not be written, and the effect was to end.
        """
        for wait_s in chain(BACKOFF_S, repeat(BACKOFF_S[-1])):
            try:
                state = await self.run.record(
                    self.node.id, number, payloads, content=content, fence=self.fence
                )
            except UnrecordedError as error:
                if self.cancel.is_set():
                    raise
                self.run.held_up = error.sentence()
                logger.warning("held up", extra=facts(run=self.run.chain.run, why=self.run.held_up))
            else:
                self.run.held_up = ""
                return state
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self.cancel.wait()
        raise AssertionError("the waits never end")
