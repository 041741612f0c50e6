"""The record groups of a trace: what the steps of a run say of artifacts, gates, tools, people.

Called by `finalize` alone. Interrupted attempts are left out here as everywhere in a trace;
`StageEnd.interrupted` counts them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from fusiond.domain.comparable import Attempts
from fusiond.domain.evolve import replace
from fusiond.domain.flow import FlowState, RunMode
from fusiond.domain.ids import NodeId
from fusiond.domain.steps.attempt import AttemptFrozen, RevisionRecorded, StageFinished
from fusiond.domain.steps.judgement import (
    ArbitrationDecided,
    ProtectedGateJudged,
    UnitGateFinished,
    VerificationRecorded,
)
from fusiond.domain.steps.people import ApprovalDecided
from fusiond.domain.steps.record import Step
from fusiond.domain.steps.run import ResumeCause, RunCancelled, RunResumed, RunStarted
from fusiond.domain.steps.turn import EntropyUsed, ToolCalled, ToolReturned
from fusiond.domain.trace import (
    EntropyUse,
    Intervention,
    RecordGroups,
    StageEnd,
    ToolInvocation,
    TracedArtifact,
    TracedGate,
    TracedReceipt,
    TracedRevision,
    TracedVerification,
    Uncertifiable,
)

R = TypeVar(
    "R", TracedArtifact, TracedRevision, TracedGate, TracedReceipt, ToolInvocation, TracedVerification
)

Placed = tuple[NodeId, int, Step]
"""A step of a comparable attempt: its node, the attempt's comparable number, itself."""


def groups_of(
    steps: Sequence[Step], attempts: Attempts, nodes: Sequence[NodeId], started: RunStarted
) -> RecordGroups:
    """Return the record groups of a run in trace order."""
    order = {node: place for place, node in enumerate(nodes)}
    placed = sorted(_placed(steps, attempts), key=lambda each: (order[each[0]], each[1]))
    needs = {each.node: each.needs for each in started.stages}
    return RecordGroups(
        stages=tuple(_stage_ends(steps, attempts, nodes, needs)),
        artifacts=tuple(each for place in placed for each in _artifacts(*place)),
        revisions=tuple(each for place in placed for each in _revisions(*place)),
        gates=tuple(each for place in placed for each in _gates(*place)),
        receipts=tuple(each for place in placed for each in _receipts(*place)),
        tools=tuple(_tools(placed)),
        entropy=tuple(_entropy(steps, attempts, order)),
        verifications=tuple(_verifications(placed)),
        interventions=tuple(_interventions(steps)),
    )


def _placed(steps: Iterable[Step], attempts: Attempts) -> Iterator[Placed]:
    for step in steps:
        number = attempts.number(step.node, step.attempt)
        if step.node is not None and number:
            yield step.node, number, step


def _stage_ends(
    steps: Iterable[Step],
    attempts: Attempts,
    nodes: Iterable[NodeId],
    needs: Mapping[NodeId, tuple[NodeId, ...]],
) -> Iterator[StageEnd]:
    ended = {
        step.node: step.payload
        for step in steps
        if step.node is not None and isinstance(step.payload, StageFinished)
    }
    for node in nodes:
        if (end := ended.get(node)) is not None:
            yield StageEnd(
                node=node,
                needs=needs[node],
                outcome=end.outcome,
                attempt=attempts.number(node, end.attempt) or 0,
                interrupted=attempts.interrupted.get(node, 0),
            )


def _artifacts(node: NodeId, attempt: int, step: Step) -> Iterator[TracedArtifact]:
    if isinstance(step.payload, AttemptFrozen):
        for each in step.payload.artifacts:
            yield TracedArtifact(
                node=node,
                attempt=attempt,
                output=each.output,
                path=each.path,
                media_type=each.media_type,
                size=each.size,
                digest=each.digest,
            )


def _revisions(node: NodeId, attempt: int, step: Step) -> Iterator[TracedRevision]:
    if isinstance(step.payload, RevisionRecorded):
        yield TracedRevision(
            node=node,
            attempt=attempt,
            round=step.payload.round,
            tree=step.payload.tree,
            outputs=step.payload.outputs,
        )


def _gates(node: NodeId, attempt: int, step: Step) -> Iterator[TracedGate]:
    if isinstance(step.payload, UnitGateFinished):
        yield TracedGate(
            node=node,
            attempt=attempt,
            round=step.payload.round,
            gate=step.payload.gate,
            outcome=step.payload.outcome,
            exit_code=step.payload.exit_code,
            signal=step.payload.signal,
        )


def _receipts(node: NodeId, attempt: int, step: Step) -> Iterator[TracedReceipt]:
    if isinstance(step.payload, ProtectedGateJudged):
        yield TracedReceipt(
            node=node,
            attempt=attempt,
            gate=step.payload.gate,
            packet=step.payload.packet,
            verdict=step.payload.verdict,
            reason=step.payload.reason,
            level=step.payload.level,
            receipt=step.payload.receipt,
        )


def _tools(placed: Iterable[Placed]) -> Iterator[ToolInvocation]:
    found: dict[tuple[NodeId, int, int], ToolInvocation] = {}
    for node, attempt, step in placed:
        match step.payload:
            case ToolCalled() as called:
                found[node, attempt, called.call] = ToolInvocation(
                    node=node,
                    attempt=attempt,
                    call=called.call,
                    tool=called.tool,
                    effect=called.effect,
                    locality=called.locality,
                    arguments=called.arguments,
                    outcome=None,
                )
            case ToolReturned() as returned:
                place = (node, attempt, returned.call)
                found[place] = replace(found[place], outcome=returned.outcome)
            case _:
                pass
    return iter(found.values())


def _entropy(steps: Iterable[Step], attempts: Attempts, order: Mapping[NodeId, int]) -> Iterator[EntropyUse]:
    uses = [
        EntropyUse(
            node=step.node,
            attempt=number,
            source=step.payload.source,
            magnitude=step.payload.magnitude,
            who=step.payload.who,
            why=step.payload.why,
        )
        for step in steps
        if isinstance(step.payload, EntropyUsed)
        and (number := attempts.number(step.node, step.attempt)) is not None
    ]
    uses.sort(key=lambda use: (-1 if use.node is None else order[use.node], use.attempt))
    return iter(uses)


def _verifications(placed: Iterable[Placed]) -> Iterator[TracedVerification]:
    found: dict[tuple[NodeId, int], TracedVerification] = {}
    for node, attempt, step in placed:
        empty = TracedVerification(node=node, attempt=attempt, results=(), arbitration=None)
        match step.payload:
            case VerificationRecorded() as recorded:
                so_far = found.get((node, attempt), empty)
                found[node, attempt] = replace(so_far, results=(*so_far.results, recorded.result))
            case ArbitrationDecided() as decided:
                so_far = found.get((node, attempt), empty)
                found[node, attempt] = replace(so_far, arbitration=decided.arbitration)
            case _:
                pass
    return iter(found.values())


def _interventions(steps: Iterable[Step]) -> Iterator[Intervention]:
    for step in steps:
        match step.payload:
            case ApprovalDecided() as decided:
                yield Intervention(node=step.node, kind=step.kind, what=decided.decision.value)
            case RunResumed(cause=ResumeCause.PERSON):
                yield Intervention(node=None, kind=step.kind, what="resumed")
            case RunCancelled():
                yield Intervention(node=None, kind=step.kind, what="cancelled")
            case _:
                pass


def without_ids(groups: RecordGroups) -> RecordGroups:
    """Return the groups as they are compared: no id of the run, no receipt, no count of interruptions."""
    return replace(
        groups,
        stages=tuple(replace(each, interrupted=0) for each in groups.stages),
        receipts=tuple(replace(each, receipt=each.packet) for each in groups.receipts),
        verifications=tuple(
            replace(
                each,
                results=tuple(replace(result, artifacts_checked=()) for result in each.results),
                arbitration=None if each.arbitration is None else replace(each.arbitration, targets=()),
            )
            for each in groups.verifications
        ),
    )


def non_certifiable(started: RunStarted, uses: Iterable[EntropyUse]) -> tuple[Uncertifiable, ...]:
    """Return why the trace cannot be certified, as far as its own steps say."""
    found: list[Uncertifiable] = []
    if started.mode is RunMode.UNSAFE:
        found.append(Uncertifiable.UNSAFE_MODE)
    if started.flow_state is not FlowState.FROZEN:
        found.append(Uncertifiable.FLOW_NOT_FROZEN)
    if any(use.source not in started.entropy.sources for use in uses):
        found.append(Uncertifiable.UNDECLARED_SOURCE)
    return tuple(found)
