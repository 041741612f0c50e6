"""Reads for people: logs, artifacts and code of a run, by handle and never by path on disk.

Authorisation is by tenant and run, before anything is looked up. Undeclared
files cannot be named: the lists are made from the ledger alone.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import field
from pathlib import Path

from fusiond.domain.artifacts import FrozenArtifact
from fusiond.domain.errors import InvalidError, NotFoundError
from fusiond.domain.ids import AttemptId, AttemptNumber, NodeId, RunId, StageId, TenantId
from fusiond.domain.records import dataclass
from fusiond.domain.state import AttemptState, RunState
from fusiond.domain.steps.attempt import AttemptFailed
from fusiond.domain.steps.judgement import UnitGateFinished, UnitGateStarted
from fusiond.domain.steps.kinds import StepKind
from fusiond.domain.steps.record import Step
from fusiond.domain.steps.turn import OutputRef, ToolCalled, ToolReturned, TurnStarted
from fusiond.domain.transitions import AttemptPhase
from fusiond.execution.runs import Runs
from fusiond.execution.services import Services
from fusiond.ports.content import Page
from fusiond.ports.snapshots import Document
from fusiond.ports.workspace import CodeEntry, Revision

_CHUNK = 1_000
KEPT_INDEXES = 32
"""How many runs' lists of outputs stay in memory."""

_ENDS = (
    StepKind.TOOL_RETURNED,
    StepKind.UNIT_GATE_FINISHED,
    StepKind.EFFECT_UNKNOWN,
    StepKind.ATTEMPT_FAILED,
)

DOCUMENTS = {"@manifest": Document.MANIFEST, "@summary": Document.SUMMARY}
"""Names under which the documents of a version are read beside its artifacts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One captured output. `output` is None while it is still being written."""

    node: NodeId
    attempt: AttemptNumber
    what: str
    output: OutputRef | None


@dataclass(slots=True)
class LogIndex:
    """The outputs of a run as of one position of its ledger; only what is new is read again."""

    after: int = 0
    turns: dict[tuple[NodeId, AttemptNumber], int] = field(default_factory=dict)
    found: dict[tuple[NodeId, AttemptNumber, str], Log] = field(default_factory=dict)

    def take(self, step: Step) -> None:
        """Take the next step; one that was taken already changes nothing."""
        if step.seq != self.after + 1:
            return
        self.after = step.seq
        log = _log_of(step, self.turns)
        if log is not None:
            self.found[log.node, log.attempt, log.what] = log
        elif step.kind in _ENDS and step.node is not None and step.attempt is not None:
            # What ended without output to keep is no output any more, and not a live one.
            for key, known in list(self.found.items()):
                if key[:2] == (step.node, step.attempt) and known.output is None:
                    del self.found[key]


class Inspection:
    """Everything that can be read of a run."""

    def __init__(self, services: Services, runs: Runs) -> None:
        self._services = services
        self._runs = runs
        self._indexed: dict[RunId, LogIndex] = {}

    async def logs(
        self, tenant: TenantId, run: RunId, node: NodeId | None, attempt: AttemptNumber | None
    ) -> Sequence[Log]:
        """List outputs in the order in which they began. NotFoundError for a node or attempt that is not there."""
        _check_there(await self._runs.state(tenant, run), node, attempt)
        index = self._indexed.pop(run, None) or LogIndex()
        # Kept in order of use; a follower asks again and again while the run grows.
        self._indexed[run] = index
        while len(self._indexed) > KEPT_INDEXES:
            del self._indexed[next(iter(self._indexed))]
        async for step in self._steps(tenant, run, index.after):
            index.take(step)
        return [
            log for log in index.found.values() if node in (None, log.node) and attempt in (None, log.attempt)
        ]

    async def log_page(
        self,
        tenant: TenantId,
        run: RunId,
        wanted: tuple[NodeId, AttemptNumber, str],
        offset: int,
        limit: int,
    ) -> tuple[Page, bool]:
        """Read a page of an output, live or kept; True when it is still growing."""
        node, attempt, what = wanted
        for log in await self.logs(tenant, run, node, attempt):
            if log.what != what:
                continue
            if log.output is not None:
                return await self._services.content.page(tenant, run, log.output, offset, limit), False
            return self._live_page(run, log, offset, limit), True
        raise NotFoundError(f"no output {what} of {node}/{attempt}", cure="`fusion logs RUN` lists outputs")

    def live_path(self, run: RunId, log: Log) -> str:
        """Return the host path of an output that is still being written."""
        return self._services.content.log_path(run, f"{log.node}-{log.attempt}-{log.what}")

    def _live_page(self, run: RunId, log: Log, offset: int, limit: int) -> Page:
        try:
            with Path(self.live_path(run, log)).open("rb") as stream:
                total = stream.seek(0, 2)
                stream.seek(min(offset, total))
                return Page(offset=min(offset, total), total=total, data=stream.read(limit))
        except FileNotFoundError:
            return Page(offset=offset, total=offset, data=b"")

    async def artifacts(
        self, tenant: TenantId, run: RunId, node: NodeId | None, attempt: AttemptNumber | None
    ) -> Sequence[tuple[AttemptId, FrozenArtifact]]:
        """List declared artifacts of frozen attempts; extras are not evidence and are left out."""
        state = await self._runs.state(tenant, run)
        return [
            (AttemptId(StageId(run, name), each.number), artifact)
            for name, each in _frozen(state, node, attempt)
            for artifact in each.artifacts
            if artifact.output is not None
        ]

    async def artifact_page(
        self,
        tenant: TenantId,
        run: RunId,
        node: NodeId,
        attempt: AttemptNumber | None,
        path: str,
        offset: int,
        limit: int,
    ) -> Page:
        """Read a page of a declared artifact's body, checked against its stored hashes."""
        if path in DOCUMENTS:
            return await self._document(tenant, run, node, attempt, path, offset, limit)
        listed = await self.artifacts(tenant, run, node, attempt)
        matching = [(whole, artifact) for whole, artifact in listed if artifact.path == path]
        if not matching:
            raise NotFoundError(
                f"no declared artifact {path} of {node}", cure="`fusion artifact ls RUN` lists them"
            )
        whole, artifact = matching[-1]
        return await self._services.snapshots.page(whole, artifact, offset, limit)

    async def _document(
        self,
        tenant: TenantId,
        run: RunId,
        node: NodeId,
        attempt: AttemptNumber | None,
        name: str,
        offset: int,
        limit: int,
    ) -> Page:
        state = await self._runs.state(tenant, run)
        found = _frozen(state, node, attempt)
        if not found:
            raise NotFoundError(f"{node} has no frozen attempt", cure="`fusion show RUN` lists attempts")
        latest = found[-1][1]
        digest = latest.manifest if DOCUMENTS[name] is Document.MANIFEST else latest.summary
        if digest is None:
            raise NotFoundError(f"{node} was frozen without {DOCUMENTS[name]}")
        whole = AttemptId(StageId(run, node), latest.number)
        data = await self._services.documents.document(whole, DOCUMENTS[name], digest)
        return Page(offset=offset, total=len(data), data=data[offset : offset + limit])

    async def size(self, run: RunId, log: Log) -> int:
        """Return how many bytes an output has, written so far where it is still growing."""
        if log.output is not None:
            return log.output.total_bytes
        try:
            return Path(self.live_path(run, log)).stat().st_size
        except FileNotFoundError:
            return 0

    async def code_page(self, revision: Revision, path: str, offset: int, limit: int) -> Page:
        """Read a page of a file of a frozen tree."""
        return await self._services.code.page(revision, path, offset, limit)

    async def diff(self, old: Revision, new: Revision, path: str) -> bytes:
        """Return the unified diff between two frozen trees, below `path`."""
        return await self._services.code.diff(old, new, path)

    async def entries(self, revision: Revision, path: str) -> Sequence[CodeEntry]:
        """List one directory of a frozen tree."""
        return await self._services.code.entries(revision, path)

    async def revision(
        self, tenant: TenantId, run: RunId, node: NodeId, attempt: AttemptNumber | None, *, start: bool
    ) -> Revision:
        """Return the frozen revision of an attempt, or the one it started from."""
        state = await self._runs.state(tenant, run)
        found = [each for name, each in _frozen(state, node, attempt) if name == node]
        if not found:
            raise NotFoundError(
                f"{node} has no frozen attempt{'' if attempt is None else f' {attempt}'}",
                cure="`fusion show RUN` lists attempts",
            )
        latest = found[-1]
        if start:
            return Revision(commit=latest.start_commit, tree=latest.start_tree)
        if latest.commit is None or latest.tree is None:
            raise InvalidError(f"{node} was frozen without a revision")
        return Revision(commit=latest.commit, tree=latest.tree)

    async def steps(self, tenant: TenantId, run: RunId, after: int, limit: int) -> Sequence[Step]:
        """Read steps in order, each checked against the run's chain."""
        await self._runs.state(tenant, run)
        return await self._services.ledger.read(run, after_seq=after, limit=limit)

    async def _steps(self, tenant: TenantId, run: RunId, after: int) -> AsyncIterator[Step]:
        await self._runs.state(tenant, run)
        while True:
            steps = await self._services.ledger.read(run, after_seq=after, limit=_CHUNK)
            for step in steps:
                yield step
            if len(steps) < _CHUNK:
                return
            after = steps[-1].seq


def _frozen(
    state: RunState, node: NodeId | None, attempt: AttemptNumber | None
) -> list[tuple[NodeId, AttemptState]]:
    _check_there(state, node, attempt)
    return [
        (name, each)
        for name, stage in state.stages.items()
        for each in stage.attempts
        if each.phase is AttemptPhase.FROZEN and node in (None, name) and attempt in (None, each.number)
    ]


def _log_of(step: Step, turns: dict[tuple[NodeId, AttemptNumber], int]) -> Log | None:
    """Return the output that a step begins or ends; `turns` remembers each attempt's turn."""
    if step.node is None or step.attempt is None:
        return None
    place = (step.node, step.attempt)
    match step.payload:
        case TurnStarted():
            turns[place] = step.payload.turn
            return None
        case ToolCalled():
            return Log(node=place[0], attempt=place[1], what=f"turn-{turns[place]}", output=None)
        case ToolReturned() if step.payload.output is not None:
            return Log(
                node=place[0], attempt=place[1], what=f"turn-{turns[place]}", output=step.payload.output
            )
        case UnitGateStarted():
            what = f"gate-{step.payload.gate}-{step.payload.round}"
            return Log(node=place[0], attempt=place[1], what=what, output=None)
        case UnitGateFinished() if step.payload.output is not None:
            what = f"gate-{step.payload.gate}-{step.payload.round}"
            return Log(node=place[0], attempt=place[1], what=what, output=step.payload.output)
        case AttemptFailed() if step.payload.output is not None:
            return Log(node=place[0], attempt=place[1], what="setup", output=step.payload.output)
        case _:
            return None


def _check_there(state: RunState, node: NodeId | None, attempt: AttemptNumber | None) -> None:
    if node is None:
        return
    stage = state.stages.get(node)
    if stage is None:
        raise NotFoundError(f"run {state.run} has no node {node}", expected=", ".join(state.stages))
    if attempt is not None and attempt > len(stage.attempts):
        raise NotFoundError(
            f"{node} has no attempt {attempt}",
            expected=f"at most {len(stage.attempts)}",
            cure="`fusion show`",
        )
