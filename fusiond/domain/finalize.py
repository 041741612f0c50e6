"""`finalize`: the steps of one finished run become its `ExecutionTrace`.

Pure, and the only maker of traces. A `Recording` cannot be read before it is finalized
nor added to after; both raise (`spec/artifact-contracts.txt`, Finalized Trace).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Protocol

from fusiond.domain.comparable import Attempts, comparable, is_compared, number_attempts, verdict_of
from fusiond.domain.digest import Digest
from fusiond.domain.errors import IllegalStepError, RefusedError
from fusiond.domain.evolve import replace
from fusiond.domain.graph import topological_order
from fusiond.domain.ids import CommitId, NodeId, RunId
from fusiond.domain.settling import repeated
from fusiond.domain.steps.record import Payload, Step
from fusiond.domain.steps.run import RunFinished, RunStarted
from fusiond.domain.trace import ExecutionTrace, RecordGroups, TraceEvent, TraceHead
from fusiond.domain.trace_chains import chain_ends, root_of
from fusiond.domain.trace_groups import groups_of, non_certifiable, without_ids

GROUPS = tuple(each.name for each in fields(RecordGroups))
"""The record groups, in the order in which the root covers them."""

LAST = 1 << 30
"""Where steps of a stage without an attempt stand: after all its attempts."""


class Digester(Protocol):
    """Canonical digests, which only the codec can make."""

    def payload(self, payload: Payload) -> Digest:
        """Return the digest over the compared fields of a payload, its kind and its version."""
        ...

    def records(self, records: Iterable[object]) -> Digest:
        """Return the digest over whole records, in order."""
        ...


class UnfinalizedTraceError(RefusedError):
    """A trace was asked for before its run was finalized."""


class FinalizedTraceError(RefusedError):
    """Something was to be added to a trace that is final."""


class Recording:
    """The steps of one run on their way to a trace."""

    def __init__(self, run: RunId, digester: Digester) -> None:
        self._run = run
        self._digester = digester
        self._steps: list[Step] = []
        self._trace: ExecutionTrace | None = None

    @property
    def trace(self) -> ExecutionTrace:
        """Return the trace; UnfinalizedTraceError before `finalize`."""
        if self._trace is None:
            raise UnfinalizedTraceError(
                f"the trace of run {self._run} is not finalized",
                expected="a run that has ended",
                state=f"step {len(self._steps)}",
                cure="wait for its end, or cancel it",
            )
        return self._trace

    def add(self, step: Step) -> None:
        """Take the next step.

        Raises:
            FinalizedTraceError: the run has ended, or the trace is final.
            IllegalStepError: a step of another run, or out of order.
        """
        ended = bool(self._steps) and isinstance(self._steps[-1].payload, RunFinished)
        if self._trace is not None or ended:
            raise FinalizedTraceError(
                f"step {step.seq} after the end of run {self._run}",
                expected="no more steps",
                state=f"step {len(self._steps)}",
            )
        if step.run != self._run or step.seq != len(self._steps) + 1:
            raise IllegalStepError(
                f"step {step.seq} of run {step.run}",
                expected=f"step {len(self._steps) + 1} of run {self._run}",
            )
        self._steps.append(step)

    def finalize(self) -> ExecutionTrace:
        """Close the recording and return its trace; UnfinalizedTraceError when the run has not ended."""
        if self._trace is None:
            if not self._steps or not isinstance(self._steps[-1].payload, RunFinished):
                return self.trace
            self._trace = finalize(self._steps, self._digester)
        return self._trace


def finalize(steps: Sequence[Step], digester: Digester) -> ExecutionTrace:
    """Return the trace of a run.

    Args:
        steps: from `run_started` to `run_finished`, in order; legal, as `fold` would have them.
        digester: makes the digests that events are compared by.
    """
    started, finished = steps[0].payload, steps[-1].payload
    if not isinstance(started, RunStarted) or not isinstance(finished, RunFinished):
        raise IllegalStepError("a run without its beginning or its end", expected="a finished run")
    nodes = topological_order({each.node: each.needs for each in started.stages})
    again = repeated(steps)
    settled = [step for step in steps if step.seq not in again]
    attempts = number_attempts(settled)
    head = head_of(steps[0].run, started)
    events = _events(settled, attempts, nodes, digester.payload)
    groups = groups_of(settled, attempts, nodes, started)
    chains = chain_ends(events)
    return ExecutionTrace(
        head=head,
        outcome=finished.outcome,
        result_tree=finished.result_tree,
        conflict_paths=finished.conflict_paths,
        started_us=steps[0].at_us,
        ended_us=steps[-1].at_us,
        nodes=nodes,
        events=events,
        chains=chains,
        groups=groups,
        claims=(),
        contradictions=0,
        non_certifiable=non_certifiable(started, steps),
        root=root_of(chains, _compared(head, finished, groups, digester)),
    )


def head_of(run: RunId, started: RunStarted) -> TraceHead:
    """Return what a run is bound to from its start."""
    return TraceHead(
        tenant=started.tenant,
        flow=started.flow,
        flow_state=started.flow_state,
        run=run,
        parent=started.parent,
        children=(),
        mode=started.mode,
        determinism=started.determinism,
        replay=started.replay,
        entropy=started.entropy,
        limits=started.limits,
        plan_hash=started.plan_hash,
        policy_hash=started.policy_hash,
        verification_policy_hash=started.verification_policy_hash,
        resolver=started.resolver,
        stages=started.stages,
        missing_toolchains=started.missing_toolchains,
        environment=started.environment,
        datasets=started.datasets,
        inputs=started.inputs,
        agent_definitions=started.agent_definitions,
        base_commit=started.base_commit,
        base_tree=started.base_tree,
    )


def _events(
    steps: Sequence[Step],
    attempts: Attempts,
    nodes: Sequence[NodeId],
    digest: Callable[[Payload], Digest],
) -> tuple[TraceEvent, ...]:
    order: dict[NodeId | None, int] = {None: 0, **{node: place for place, node in enumerate(nodes, 1)}}
    places: dict[tuple[int, int], list[Step]] = {}
    for step in steps:
        if is_compared(step, attempts):
            number = attempts.number(step.node, step.attempt) or 0
            whole = step.node is not None and not number
            places.setdefault((order[step.node], LAST if whole else number), []).append(step)
    return tuple(
        TraceEvent(
            node=step.node,
            attempt=0 if attempt == LAST else attempt,
            index=index,
            kind=step.kind,
            verdict=verdict_of(step.payload),
            exact=digest(comparable(step, attempts)),
            seq=step.seq,
            at_us=step.at_us,
        )
        for (_, attempt), of_place in sorted(places.items(), key=lambda item: item[0])
        for index, step in enumerate(of_place, 1)
    )


def _compared(
    head: TraceHead, finished: RunFinished, groups: RecordGroups, digester: Digester
) -> tuple[tuple[str, Digest], ...]:
    """Return one digest for every record group beside the events; ids of the run are in none."""
    bound = replace(head, run=RunId(""), parent=None, children=(), flow="", base_commit=CommitId(""))
    compared = without_ids(groups)
    return (
        ("head", digester.records((bound,))),
        ("end", digester.payload(finished)),
        *((name, digester.records(getattr(compared, name))) for name in GROUPS),
    )
