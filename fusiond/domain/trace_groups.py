"""The record groups of a trace: what the steps of a run say of artifacts, gates, tools, people.

Called by `finalize` alone. Interrupted attempts are left out here as everywhere in a trace;
`StageEnd.interrupted` counts them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from fusiond.domain.comparable import Attempts
from fusiond.domain.digest import ZERO
from fusiond.domain.evolve import replace
from fusiond.domain.flow import FlowState, RunMode
from fusiond.domain.ids import NodeId
from fusiond.domain.steps.attempt import AttemptFrozen, AttemptStarted, RevisionRecorded, StageFinished
from fusiond.domain.steps.judgement import (
    ArbitrationDecided,
    ArtifactsValidated,
    ProtectedGateJudged,
    UnitGateFinished,
    VerificationRecorded,
)
from fusiond.domain.steps.people import ApprovalDecided, ApprovalRequested
from fusiond.domain.steps.record import Step
from fusiond.domain.steps.run import ResumeCause, RunCancelled, RunResumed, RunStarted
from fusiond.domain.steps.turn import (
    EffectClass,
    EntropyUsed,
    Locality,
    ToolCalled,
    ToolReturned,
    ViolationRecorded,
)
from fusiond.domain.trace import (
    EntropyUse,
    Intervention,
    LastingEffect,
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
from fusiond.domain.verification import Arbitration, VerificationResult

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
        revisions=tuple(_revisions(placed)),
        gates=tuple(each for place in placed for each in _gates(*place)),
        receipts=tuple(each for place in placed for each in _receipts(*place)),
        tools=tuple(_tools(placed)),
        entropy=tuple(_entropy(steps, attempts, order)),
        verifications=tuple(_verifications(placed)),
        interventions=tuple(_interventions(steps, attempts, order)),
        lasting=tuple(_lasting(steps, attempts, order)),
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
                block=end.block,
                dependency=end.dependency,
                conflict_paths=end.conflict_paths,
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


def _revisions(placed: Sequence[Placed]) -> Iterator[TracedRevision]:
    frozen = {
        (node, attempt): step.payload.tree
        for node, attempt, step in placed
        if isinstance(step.payload, AttemptFrozen)
    }
    last = {
        (node, attempt): step.payload.round
        for node, attempt, step in placed
        if isinstance(step.payload, RevisionRecorded)
    }
    for node, attempt, step in placed:
        place = (node, attempt)
        match step.payload:
            case AttemptStarted() as started:
                when, tree, outputs, number = "at the start", started.start_tree, ZERO, 0
            case RevisionRecorded() as recorded:
                number = recorded.round
                when, tree, outputs = f"before round {number}", recorded.tree, recorded.outputs
            case ArtifactsValidated() as validated:
                number = validated.round
                when, tree, outputs = f"after round {number}", validated.tree, validated.outputs
            case _:
                continue
        kept = place in frozen and number == last.get(place)
        yield TracedRevision(node=node, attempt=attempt, when=when, tree=tree, outputs=outputs, frozen=kept)


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
    counts: Counter[tuple[NodeId, int]] = Counter()
    for node, attempt, step in placed:
        match step.payload:
            case ToolCalled() as called:
                counts[node, attempt] += 1
                found[node, attempt, called.call] = ToolInvocation(
                    node=node,
                    attempt=attempt,
                    call=counts[node, attempt],
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


def _verifications(placed: Sequence[Placed]) -> Iterator[TracedVerification]:
    results: dict[tuple[NodeId, int], list[VerificationResult]] = {}
    decisions: dict[tuple[NodeId, int], list[Arbitration]] = {}
    for node, attempt, step in placed:
        match step.payload:
            case VerificationRecorded() as recorded:
                results.setdefault((node, attempt), []).append(recorded.result)
            case ArbitrationDecided() as decided:
                decisions.setdefault((node, attempt), []).append(decided.arbitration)
            case _:
                pass
    for node, attempt in dict.fromkeys((node, attempt) for node, attempt, _ in placed):
        place = (node, attempt)
        if place in results or place in decisions:
            yield TracedVerification(
                node=node,
                attempt=attempt,
                results=tuple(results.get(place, ())),
                arbitrations=tuple(decisions.get(place, ())),
            )


def _interventions(
    steps: Iterable[Step], attempts: Attempts, order: Mapping[NodeId, int]
) -> Iterator[Intervention]:
    """Yield what people decided, in trace order; what they said in an interrupted attempt was asked again."""
    asked = {
        step.payload.request: step.payload for step in steps if isinstance(step.payload, ApprovalRequested)
    }
    found: list[tuple[int, int, Intervention]] = []
    for step in steps:
        what = _decided(step, asked)
        number = attempts.number(step.node, step.attempt)
        if what and number is not None:
            place = -1 if step.node is None else order[step.node]
            found.append((place, number, Intervention(node=step.node, kind=step.kind, what=what)))
    found.sort(key=lambda each: each[:2])
    return iter([each for _, _, each in found])


def _decided(step: Step, asked: Mapping[int, ApprovalRequested]) -> str:
    match step.payload:
        case ApprovalDecided() as said:
            question = asked.get(said.request)
            about = "" if question is None else f" {question.subject} by rule {question.rule}"
            return f"{said.decision}{about}, shown {said.shown}, assurance {said.assurance}"
        case RunResumed(cause=ResumeCause.PERSON) as resumed:
            added = (
                resumed.added_wall_clock_us,
                resumed.added_tokens,
                resumed.added_cost_uusd,
                resumed.added_tool_calls,
            )
            return f"resumed, adding {' '.join(map(str, added))} (us, tokens, uUSD, calls)"
        case RunCancelled():
            return "cancelled"
        case _:
            return ""


def _lasting(
    steps: Iterable[Step], attempts: Attempts, order: Mapping[NodeId, int]
) -> Iterator[LastingEffect]:
    found: list[LastingEffect] = []
    for step in steps:
        match step.payload:
            case ViolationRecorded() as violation:
                what = violation.rule
            case ToolCalled(locality=Locality.EXTERNAL) as called if called.effect is not EffectClass.READ:
                what = f"{called.effect} {called.tool} {called.arguments}"
            case _:
                continue
        if step.node is not None:
            number = attempts.number(step.node, step.attempt) or 0
            found.append(LastingEffect(node=step.node, attempt=number, kind=step.kind, what=what))
    found.sort(key=lambda each: (order[each.node], each.attempt))
    return iter(found)


def without_ids(groups: RecordGroups) -> RecordGroups:
    """Return the groups as they are compared: no id of the run, no receipt, no count of interruptions."""
    return replace(
        groups,
        stages=tuple(replace(each, interrupted=0) for each in groups.stages),
        revisions=tuple(
            replace(each, outputs=ZERO, frozen=False) if each.frozen else each for each in groups.revisions
        ),
        receipts=tuple(replace(each, receipt=each.packet) for each in groups.receipts),
        verifications=tuple(
            replace(
                each,
                results=tuple(replace(result, artifacts_checked=()) for result in each.results),
                arbitrations=tuple(replace(decided, targets=()) for decided in each.arbitrations),
            )
            for each in groups.verifications
        ),
    )


def non_certifiable(started: RunStarted, steps: Iterable[Step]) -> tuple[Uncertifiable, ...]:
    """Return why the trace cannot be certified, as far as its own steps say, interrupted attempts included."""
    found: list[Uncertifiable] = []
    if started.mode is RunMode.UNSAFE:
        found.append(Uncertifiable.UNSAFE_MODE)
    if started.flow_state is not FlowState.FROZEN:
        found.append(Uncertifiable.FLOW_NOT_FROZEN)
    used = {step.payload.source for step in steps if isinstance(step.payload, EntropyUsed)}
    if used - set(started.entropy.sources):
        found.append(Uncertifiable.UNDECLARED_SOURCE)
    return tuple(found)
