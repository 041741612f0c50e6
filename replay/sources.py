"""Where traces and bodies come from: here, a workspace's daemon, read step by step and checked on the way.

Owns the first steps of the acceptance procedure (`evidence.md`, Replay): the run is
selected by the daemon for its tenant, its chain is sealed again and compared, and a run
that has not ended has no trace.
"""

from collections.abc import Iterator

from fusiond.client.blocking import Connection
from fusiond.codec.records import structure
from fusiond.codec.steps import place
from fusiond.codec.traces import TraceDigester
from fusiond.domain.acceptability import Difference, DifferenceKind
from fusiond.domain.digest import digest_bytes
from fusiond.domain.errors import CorruptError, ErasedError, NotFoundError
from fusiond.domain.evolve import replace
from fusiond.domain.finalize import Recording
from fusiond.domain.fold import apply
from fusiond.domain.ids import RunId
from fusiond.domain.state import RunState
from fusiond.domain.steps.record import Head, NewStep, Step
from fusiond.domain.steps.run import RunFinished
from fusiond.domain.trace import ExecutionTrace, TracedArtifact
from fusiond.wire import envelope
from fusiond.wire.results import RunSteps
from replay.lines import first_difference
from replay.report import Report

COMPARED_BYTES = 16 * 1024 * 1024
"""Bodies up to this size are read to name the first difference in them."""

PAGE_BYTES = 256 * 1024


class DaemonSource:
    """Finalized traces of a workspace's runs, and the bodies of their artifacts."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def run_of(self, name: str) -> RunId:
        """Return the whole id of a run named by id, prefix or `@last`. NotFoundError, AmbiguousError."""
        detail = envelope.mapping(self._connection.call("run.show", {"run": name}), "detail")
        return RunId(envelope.text(envelope.mapping(detail, "summary"), "run", most=64))

    def trace(self, run: RunId) -> ExecutionTrace:
        """Return the trace of a run.

        Raises:
            UnfinalizedTraceError: the run has not ended.
            CorruptError: a step is not what its hash says, or is not legal where it stands.
            NewerError: the run was written by a newer Fusion.
        """
        recording = Recording(run, TraceDigester())
        state, ended = RunState(run=run), False
        for step in self._steps(run):
            _check_seal(run, state.head, step)
            state = apply(state, step)
            # What comes after the end extends the ledger, not the trace.
            if not ended:
                recording.add(step)
            ended = ended or isinstance(step.payload, RunFinished)
        return recording.finalize()

    def _steps(self, run: RunId) -> Iterator[Step]:
        after = 0
        while True:
            page = self._connection.call("run.steps", {"run": run, "after_seq": after})
            steps = structure(RunSteps, page, strict=False).steps
            if not steps:
                return
            yield from steps
            after = steps[-1].seq

    def located(self, report: Report, expected: ExecutionTrace, observed: ExecutionTrace) -> Report:
        """Return the report with the first differing line in place of digests, where bodies can be read."""
        return replace(
            report,
            differences=tuple(self._located(each, expected, observed) for each in report.differences),
        )

    def _located(
        self, difference: Difference, expected: ExecutionTrace, observed: ExecutionTrace
    ) -> Difference:
        if difference.kind is not DifferenceKind.ARTIFACT_CONTENT:
            return difference
        one = self._body(expected, difference, difference.expected)
        other = self._body(observed, difference, difference.observed)
        found = None if one is None or other is None else first_difference(one, other)
        if found is None:
            return difference
        return replace(
            difference,
            name=f"{difference.name} {found.where}",
            expected=found.expected,
            observed=found.observed,
        )

    def _body(self, trace: ExecutionTrace, difference: Difference, digest: str) -> bytes | None:
        """Return the bytes of the artifact that a difference is about; None when they are not to be had."""
        for artifact in trace.groups.artifacts:
            where = (artifact.node, artifact.attempt, artifact.digest)
            if where == (difference.node, difference.attempt, digest) and artifact.size <= COMPARED_BYTES:
                body = b"".join(self._pages(trace.head.run, artifact))
                return body if digest_bytes(body) == artifact.digest else None
        return None

    def _pages(self, run: RunId, artifact: TracedArtifact) -> Iterator[bytes]:
        offset, total = 0, 1
        while offset < total:
            asked = {"run": run, "node": artifact.node, "path": artifact.path, "offset": offset}
            try:
                page = self._connection.call("artifact.page", {**asked, "limit": PAGE_BYTES})
            except (NotFoundError, ErasedError):
                return
            total = envelope.number(page, "total")
            data = page.get("data")
            if not isinstance(data, bytes) or not data:
                return
            yield data
            offset += len(data)


def _check_seal(run: RunId, head: Head, step: Step) -> None:
    """Seal a step again and compare: what came over the wire is what the ledger chained."""
    new = NewStep(
        node=step.node,
        attempt=step.attempt,
        payload=step.payload,
        at_us=step.at_us,
        refs=step.refs,
        labels=step.labels,
        cost_uusd=step.cost_uusd,
        idempotency_key=step.idempotency_key,
    )
    if place(run, head, new).hash != step.hash:
        raise CorruptError(
            f"step {step.seq} of run {run} is not what its hash says",
            expected=step.hash[:12],
            state=f"step {head.seq}",
            cure="restore the ledger from a backup",
        )
