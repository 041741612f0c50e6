"""Every rule of the flow file: what breaks it, where that is reported, and what is said."""

import pytest

from fusiond.codec.flowfile.render import problem_line
from tests.unit.codec.flowfile.broken_nodes import BROKEN_NODES
from tests.unit.codec.flowfile.broken_sections import BROKEN_SECTIONS
from tests.unit.codec.flowfile.marked import marked, read

CASES = [*BROKEN_SECTIONS, *BROKEN_NODES]


@pytest.mark.parametrize("text,expected", [pytest.param(case[1], case[2], id=case[0]) for case in CASES])
def test_rule_is_reported_where_it_is_broken(text: str, expected: list[tuple[str, str]]) -> None:
    file = marked(text)
    reading = read(file.text)
    assert reading.flow is None
    lines = [problem_line(problem, "f.yaml") for problem in reading.problems]
    assert [problem.code.value for problem in reading.problems] == [code for code, _ in expected], lines
    assert [(problem.line, problem.column) for problem in reading.problems] == list(file.places), lines
    for line, (_, part) in zip(lines, expected, strict=True):
        assert part in line
