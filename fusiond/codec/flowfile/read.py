"""Reading a flow file: bytes in, a flow or every problem out. Never raises, performs no IO."""

from collections.abc import Collection

from fusiond.codec.flowfile.defaults import fill_in
from fusiond.codec.flowfile.pin import NamedFile, named_files
from fusiond.codec.flowfile.problems import FlowProblem
from fusiond.codec.flowfile.reading.compose import compose
from fusiond.codec.flowfile.reading.report import Report, Spot
from fusiond.codec.flowfile.reading.source import decode
from fusiond.codec.flowfile.rules.bounds import check_bounds
from fusiond.codec.flowfile.rules.edges import check_edges
from fusiond.codec.flowfile.rules.governance import check_governance
from fusiond.codec.flowfile.rules.names import check_names
from fusiond.codec.flowfile.rules.prompts import check_prompts
from fusiond.codec.flowfile.sections.flow import FLOW, FlowDraft
from fusiond.domain.flow import Flow
from fusiond.domain.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowReading:
    """What one flow file says.

    Args:
        flow: with every default filled in, or None where there is a problem.
        problems: every problem, in the order of the file.
        explained: `path, reason` of each value that a rule and not the file gave.
        files: every place at which the flow names a file, for `pin` and `check_files`.
        inputs: the names of the flow's inputs, for `check_files`.
    """

    flow: Flow | None
    problems: tuple[FlowProblem, ...] = ()
    explained: tuple[tuple[str, str], ...] = ()
    files: tuple[NamedFile, ...] = ()
    inputs: tuple[str, ...] = ()


def read_flow(data: bytes, *, profiles: Collection[str] = ()) -> FlowReading:
    """Read a flow file.

    Args:
        data: the bytes of the file.
        profiles: the agent profiles that exist; empty leaves `acp: NAME` unchecked.
    """
    source, problems = decode(data)
    if source is None:
        return FlowReading(flow=None, problems=tuple(problems))
    report = Report(source)
    draft = _draft(report)
    if draft is None:
        return FlowReading(flow=None, problems=report.problems())
    _check(draft, profiles, report)
    flow = fill_in(draft, report) if report.clean else None
    return FlowReading(
        flow=flow,
        problems=report.problems(),
        explained=tuple(report.explained.items()) if flow else (),
        files=named_files(draft, report),
        inputs=tuple(report.names(("inputs",))),
    )


def _draft(report: Report) -> FlowDraft | None:
    top = compose(report)
    if top is None:
        return None
    spot = Spot(path=(), key=top.at, node=top)
    report.remember(spot)
    return FLOW.read(spot, report)


def _check(draft: FlowDraft, profiles: Collection[str], report: Report) -> None:
    check_edges(draft, report)
    check_names(draft, report)
    check_bounds(draft, report)
    check_prompts(draft, report)
    check_governance(draft, profiles, report)
