"""Performs RunTurn for `run:` nodes, and CloseUnknown.

`tool_called` is on disk before the command starts and `tool_returned` after its
output is durable; what lies between is unknown after a crash.
"""

from fusiond.codec.canonical import canonical
from fusiond.domain.digest import digest_bytes
from fusiond.domain.effects import CloseUnknown, RunTurn
from fusiond.domain.errors import ErasedError, InvalidError
from fusiond.domain.flow import RunWork
from fusiond.domain.gates import ProcessOutcome
from fusiond.domain.steps.attempt import AttemptFailed, AttemptFailure
from fusiond.domain.steps.turn import (
    COMMAND_TOOL,
    CallOutcome,
    EffectClass,
    EffectUnknown,
    Locality,
    ToolCalled,
    ToolReturned,
    TurnStarted,
)
from fusiond.execution.attempts.hints import hinting
from fusiond.execution.attempts.inputs import write_feedback
from fusiond.execution.attempts.intrusion import guarding_checkout
from fusiond.execution.attempts.launching import Launched, Order, launch
from fusiond.execution.context import LaidTree, StageContext
from fusiond.execution.perform.prepare import relaid_or_lost

OUTPUT_CAP_BYTES = 64 * 1024 * 1024


async def perform_turn(ctx: StageContext, effect: RunTurn) -> None:
    """Run the node's command once in the attempt's worktree."""
    work = ctx.node.work
    if not isinstance(work, RunWork):
        raise InvalidError(f"{ctx.node.id} is a {ctx.node.kind} node", expected="a `run:` node")
    laid = await relaid_or_lost(ctx, effect.attempt)
    if laid is None:
        return
    feedback = await _lay_feedback(ctx, effect, laid)
    await ctx.record(
        effect.attempt,
        TurnStarted(turn=effect.turn, feedback=effect.feedback),
        ToolCalled(
            call=effect.call,
            tool=COMMAND_TOOL,
            effect=EffectClass.WRITE,
            locality=Locality.LOCAL,
            arguments=digest_bytes(canonical({"run": work.run})),
        ),
    )
    order = Order(
        name=f"turn-{effect.turn}",
        command=work.run,
        network=ctx.node.network,
        timeout_us=_timeout_us(ctx),
        output_cap_bytes=OUTPUT_CAP_BYTES,
        feedback=feedback,
    )
    async with guarding_checkout(ctx, "the command") as intrusion, hinting(ctx, laid):
        launched = await launch(ctx.run, ctx.node, ctx.attempt_id(effect.attempt), laid, order, ctx.cancel)
    await ctx.record(effect.attempt, _returned(effect, launched), *intrusion.violations)


def _timeout_us(ctx: StageContext) -> int:
    """Return the command's time limit: its own, else the run's wall clock as people widened it."""
    frozen, widened = ctx.run.started.limits, ctx.run.state.limits
    own = ctx.node.timeout_us
    if own is not None and own != frozen.wall_clock_us:
        return own
    return (widened or frozen).wall_clock_us


def _returned(effect: RunTurn, launched: Launched) -> ToolReturned:
    match launched.outcome:
        case ProcessOutcome.PASSED:
            outcome = CallOutcome.OK
        case ProcessOutcome.CANCELLED:
            outcome = CallOutcome.CANCELLED
        case _:
            outcome = CallOutcome.FAILED
    result = launched.result
    return ToolReturned(
        call=effect.call,
        outcome=outcome,
        process=launched.outcome,
        exit_code=result.exit_code,
        signal=result.signal,
        output=launched.output,
        duration_us=result.duration_us,
        survivors=result.survivors,
        detail=result.detail,
    )


async def _lay_feedback(ctx: StageContext, effect: RunTurn, laid: LaidTree) -> str | None:
    if effect.feedback is None:
        return None
    name = f"turn-{effect.turn}.md"
    try:
        body = await ctx.services.content.get(ctx.run.tenant, ctx.run.chain.run, effect.feedback)
    except ErasedError:
        body = b"The feedback of this rerun was erased.\n"
    await write_feedback(laid.tree.places, name, body)
    return name


async def perform_close_unknown(ctx: StageContext, effect: CloseUnknown) -> None:
    """Close a call that a crash interrupted.

    A local call ends the attempt: its worktree is in an unknown state, and a new
    attempt starts from a fresh one. An external call stays open for a person.
    """
    await ctx.record(effect.attempt, *unknown_payloads(effect))


def unknown_payloads(effect: CloseUnknown) -> tuple[EffectUnknown | AttemptFailed, ...]:
    """Return what is recorded of a call that was interrupted."""
    unknown = EffectUnknown(call=effect.call, locality=effect.locality)
    if effect.locality is Locality.EXTERNAL:
        return (unknown,)
    detail = "nobody recorded how the command ended; its outcome is unknown"
    return (unknown, AttemptFailed(reason=AttemptFailure.INTERRUPTED, detail=detail))
