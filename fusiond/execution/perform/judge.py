"""Performs RecordRevision, RunGate and RequestRerun."""

from fusiond.domain.artifacts import ContractProblem
from fusiond.domain.decide_attempt import describe
from fusiond.domain.effects import RecordRevision, RequestRerun, RunGate
from fusiond.domain.ids import AttemptNumber
from fusiond.domain.steps.attempt import AttemptFailed, AttemptFailure, RevisionRecorded
from fusiond.domain.steps.judgement import RerunCause, RerunRequested, UnitGateFinished, UnitGateStarted
from fusiond.domain.transitions import AttemptPhase
from fusiond.execution.attempts.feedback import (
    changed_feedback,
    feedback_bytes,
    gate_feedback,
    output_text,
    problems_feedback,
)
from fusiond.execution.attempts.freezing import freeze_request, nested_problems, recorded_tree
from fusiond.execution.attempts.intrusion import guarding_checkout
from fusiond.execution.attempts.launching import Order, launch
from fusiond.execution.context import LaidTree, StageContext
from fusiond.execution.perform.prepare import relaid_or_lost


async def perform_revision(ctx: StageContext, effect: RecordRevision) -> None:
    """Record the worktree's tree id and the outputs' digest before a gate round."""
    laid = await relaid_or_lost(ctx, effect.attempt)
    if laid is None:
        return
    snapshot = await recorded_tree(ctx, effect.attempt)
    if isinstance(snapshot, ContractProblem):
        await _record_unrecordable(ctx, effect.attempt, snapshot)
        return
    checked = await ctx.services.snapshots.check(freeze_request(ctx, effect.attempt, laid, ()))
    await ctx.record(
        effect.attempt,
        RevisionRecorded(round=effect.round, tree=snapshot.tree, outputs=checked.outputs),
    )


async def _record_unrecordable(ctx: StageContext, number: AttemptNumber, problem: ContractProblem) -> None:
    """Send back a worktree that is no revision, or fail the attempt when no rerun is left.

    There is no tree to judge, so no gate round begins. Where gates made it so, they
    have spent a rerun already, and the attempt is over.
    """
    limit, spent = ctx.run.started.limits.repair_reruns, ctx.attempt.reruns
    if spent >= limit or ctx.attempt.phase is AttemptPhase.READY:
        detail = f"contract not met: {problem.code}: {problem.found}"
        await ctx.record(number, AttemptFailed(reason=AttemptFailure.CONTRACT_UNMET, detail=detail))
        return
    body = feedback_bytes([problems_feedback([problem])], limit - spent - 1)
    feedback = await ctx.services.content.put(ctx.run.chain.run, body)
    await ctx.record(
        number,
        RerunRequested(
            number=spent + 1,
            cause=RerunCause.CONTRACT,
            gate=None,
            problems=(problem.code,),
            feedback=feedback,
        ),
    )


async def perform_gate(ctx: StageContext, effect: RunGate) -> None:
    """Run one unit gate. One that was cancelled has said nothing and is due again."""
    laid = await relaid_or_lost(ctx, effect.attempt)
    if laid is None:
        return
    gate = ctx.gate(effect.gate)
    await ctx.record(effect.attempt, UnitGateStarted(gate=effect.gate, round=effect.round))
    order = Order(
        name=f"gate-{effect.gate}-{effect.round}",
        command=gate.run,
        network=gate.network,
        timeout_us=gate.timeout_us,
        output_cap_bytes=gate.output_cap_bytes,
    )
    async with guarding_checkout(ctx, f"gate {effect.gate}") as intrusion:
        launched = await launch(ctx.run, ctx.node, ctx.attempt_id(effect.attempt), laid, order, ctx.cancel)
    result = launched.result
    await ctx.record(
        effect.attempt,
        UnitGateFinished(
            gate=effect.gate,
            round=effect.round,
            outcome=launched.outcome,
            exit_code=result.exit_code,
            signal=result.signal,
            output=launched.output,
            duration_us=result.duration_us,
            survivors=result.survivors,
            detail=result.detail,
        ),
        *intrusion.violations,
    )


async def perform_rerun(ctx: StageContext, effect: RequestRerun) -> None:
    """Write the feedback and record that one rerun of the flow's limit is spent.

    A failed gate does not hide contract problems: both are told at once, so that
    one rerun can mend both.
    """
    laid = await relaid_or_lost(ctx, effect.attempt)
    if laid is None:
        return
    parts = [*await _gate_part(ctx), *await _contract_part(ctx, effect, laid)]
    if effect.cause is RerunCause.GATE_CHANGED_CODE:
        parts.append(changed_feedback())
    body = feedback_bytes(parts, ctx.run.started.limits.repair_reruns - effect.number)
    # It quotes output, and output never enters a database.
    feedback = await ctx.services.content.put(ctx.run.chain.run, body)
    await ctx.record(
        effect.attempt,
        RerunRequested(
            number=effect.number,
            cause=effect.cause,
            gate=effect.gate,
            problems=effect.problems,
            feedback=feedback,
        ),
    )


async def _gate_part(ctx: StageContext) -> list[str]:
    failed = ctx.attempt.failed_gate
    if failed is None:
        return []
    named = {*ctx.run.resolved.flow.env, *ctx.node.env}
    secrets = tuple(value.encode() for name, value in ctx.services.settings.environment if name in named)
    text = await output_text(
        ctx.services.content, ctx.run.tenant, ctx.run.chain.run, failed.ended.output, secrets
    )
    return [gate_feedback(ctx.gate(failed.gate), failed, describe(failed.ended), text)]


async def _contract_part(ctx: StageContext, effect: RequestRerun, laid: LaidTree) -> list[str]:
    checked = await ctx.services.snapshots.check(freeze_request(ctx, effect.attempt, laid, ()))
    snapshot = await recorded_tree(ctx, effect.attempt)
    of_tree = (snapshot,) if isinstance(snapshot, ContractProblem) else nested_problems(snapshot)
    problems = (*checked.problems, *of_tree)
    return [problems_feedback(problems)] if problems else []
