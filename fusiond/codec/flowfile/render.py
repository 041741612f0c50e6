"""Problems as lines for people: `file:line:column: key: found …, expected …, did you mean …`.

Everything found is untrusted, so control characters are made visible here.
"""

from collections.abc import Iterable

from fusiond.codec.flowfile.problems import FlowProblem
from fusiond.domain.display import display_safe


def problem_line(problem: FlowProblem, flow_file: str) -> str:
    """Return a problem as one line.

    Args:
        problem: any problem of a flow.
        flow_file: the flow file's name, as the person gave it.
    """
    place = f"{problem.file or flow_file}:{problem.line}:{problem.column}"
    key = f" {problem.path}:" if problem.path else ""
    said = f"{place}:{key} found {problem.found}, expected {problem.expected}"
    if problem.suggestion:
        said += f", did you mean {problem.suggestion}?"
    if problem.cure:
        said += f" ({problem.cure})"
    return display_safe(said)


def problem_lines(problems: Iterable[FlowProblem], flow_file: str) -> tuple[str, ...]:
    """Return problems as lines, in their order."""
    return tuple(problem_line(problem, flow_file) for problem in problems)
