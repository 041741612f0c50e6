"""A report as lines for a terminal, as one JSON document, and as Markdown for a review comment.

Everything foreign goes through `display_safe`; colour and files are the caller's.
"""

from collections.abc import Iterator
from itertools import groupby

from fusiond.codec.records import unstructure
from fusiond.domain.acceptability import Difference, DifferenceClass, ReplayVerdict
from fusiond.domain.display import display_safe
from replay.report import Report

SCHEMA = 1
"""Version of the JSON document; it changes when a field goes or means something else."""

WORDS = {
    ReplayVerdict.ACCEPTABLE: "✓ acceptable",
    ReplayVerdict.ACCEPTABLE_WITH_WARNINGS: "! acceptable with warnings",
    ReplayVerdict.UNACCEPTABLE: "✗ unacceptable",
    ReplayVerdict.NON_CERTIFIABLE: "■ non-certifiable",
}


def document(report: Report) -> dict[str, object]:
    """Return the report as plain values: `schema`, both runs, terms, verdict and every difference."""
    return {
        "schema": SCHEMA,
        "expected": report.expected,
        "observed": report.observed,
        "mode": report.mode.value,
        "acceptability": report.acceptability.value,
        "verdict": report.verdict.value,
        "non_certifiable": [each.value for each in report.non_certifiable],
        "interrupted": report.interrupted,
        "differences": [
            {**unstructure(each), "blocking": report.is_blocking(each)} for each in report.differences
        ],
    }


def lines(report: Report) -> Iterator[str]:
    """Yield the report for a person: the verdict, then what differs, first divergence first."""
    yield f"{WORDS[report.verdict]}  ({report.mode}, {report.acceptability})"
    yield f"  expected {report.expected}"
    yield f"  observed {report.observed}"
    if report.non_certifiable:
        yield f"  not certifiable: {', '.join(report.non_certifiable)}"
    if report.interrupted:
        yield f"  {_count(report.interrupted, 'attempt')} ended by a crash, not compared"
    if report.origin is not None:
        yield f"  first difference in {_safe(report.origin)}"
    for node, of_node in groupby(report.differences, key=lambda each: each.node):
        yield ""
        yield _safe(node) if node is not None else "the run"
        yield from _of_node(report, tuple(of_node))


def _of_node(report: Report, differences: tuple[Difference, ...]) -> Iterator[str]:
    follows = [each for each in differences if each.found is DifferenceClass.DOWNSTREAM]
    for each in differences:
        if each.found is not DifferenceClass.DOWNSTREAM:
            yield from _lines_of(report, each)
    if follows:
        causes = ", ".join(dict.fromkeys(_safe(each.cause) for each in follows))
        yield f"  ↳ follows from {causes}: {_count(len(follows), 'difference')}"
        for each in follows:
            yield f"      {_title(each)}"


def _lines_of(report: Report, difference: Difference) -> Iterator[str]:
    glyph = "✗" if report.is_blocking(difference) else "!"
    yield f"  {glyph} {_title(difference)} ({difference.found})"
    yield f"      expected  {_safe(difference.expected) or '-'}"
    yield f"      observed  {_safe(difference.observed) or '-'}"


def _title(difference: Difference) -> str:
    attempt = f", attempt {difference.attempt}" if difference.attempt > 1 else ""
    return f"{difference.kind.replace('_', ' ')}: {_safe(difference.name) or '-'}{attempt}"


def markdown(report: Report) -> Iterator[str]:
    """Yield the report as a Markdown table."""
    yield f"**{WORDS[report.verdict]}** ({report.mode}, {report.acceptability})"
    yield ""
    yield f"Expected `{report.expected}`, observed `{report.observed}`."
    if report.differences:
        yield ""
        yield "| node | difference | expected | observed | |"
        yield "| --- | --- | --- | --- | --- |"
    for each in report.differences:
        blocking = "blocks" if report.is_blocking(each) else str(each.found)
        cells = (each.node or "run", _title(each), each.expected, each.observed, blocking)
        yield f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    # Code spans hold no markup; what would end one or the cell is spelled out.
    plain = _safe(text).replace("`", "'").replace("|", "\\|")
    return f"`{plain}`" if plain else ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _safe(text: object) -> str:
    return display_safe(str(text))
