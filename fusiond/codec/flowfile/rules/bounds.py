"""Rules of limits: a node may narrow what the flow allows, never widen it."""

from collections.abc import Callable

from fusiond.codec.flowfile.problems import FlowProblemCode
from fusiond.codec.flowfile.reading.report import Report
from fusiond.codec.flowfile.reading.tree import described
from fusiond.codec.flowfile.sections.contracts import LimitsDraft
from fusiond.codec.flowfile.sections.flow import FlowDraft
from fusiond.codec.flowfile.sections.nodes import NodeDraft
from fusiond.codec.flowfile.shape.units import COST, DURATION


def check_bounds(draft: FlowDraft, report: Report) -> None:
    """Report every limit of a node beyond the flow's, and timeouts that are never reached."""
    if draft.limits is None:
        return
    for node in draft.nodes:
        _check_limits(node, draft.limits, report)
        _check_timeout(node, draft.limits, report)


def _check_limits(node: NodeDraft, flow: LimitsDraft, report: Report) -> None:
    mine = node.limits
    pairs: dict[str, tuple[int | None, int | None, Callable[[int], str]]] = {
        "attempts": (mine.attempts, flow.attempts, str),
        "wall_clock": (mine.wall_clock_us, flow.wall_clock_us, DURATION.show),
        "tokens": (mine.tokens, flow.tokens, str),
        "cost_usd": (mine.cost_uusd, flow.cost_uusd, COST.show),
        "tool_calls": (mine.tool_calls, flow.tool_calls, str),
    }
    for key, (narrow, wide, show) in pairs.items():
        spot = report.spot(("nodes", node.id, "limits", key))
        if spot and narrow is not None and wide and narrow > wide:
            expected = f"at most the flow's {show(wide)}: a node may narrow a limit, never widen it"
            report.wrong(spot, expected, code=FlowProblemCode.LIMIT)


def _check_timeout(node: NodeDraft, flow: LimitsDraft, report: Report) -> None:
    wall_clock = min(node.limits.wall_clock_us or flow.wall_clock_us, flow.wall_clock_us)
    spot = report.spot(("nodes", node.id, "timeout"))
    if spot and node.timeout_us is not None and 0 < wall_clock < node.timeout_us:
        expected = f"at most the wall clock, {DURATION.show(wall_clock)}"
        report.wrong(spot, expected, code=FlowProblemCode.LIMIT, found=described(spot.node))
