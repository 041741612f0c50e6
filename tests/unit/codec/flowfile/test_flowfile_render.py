"""Problems as lines: one each, with nothing that could steer a terminal."""

from hypothesis import given
from hypothesis import strategies as st

from fusiond.codec.flowfile.problems import FlowProblem, FlowProblemCode, path_text
from fusiond.codec.flowfile.render import problem_line, problem_lines
from tests.unit.codec.flowfile.marked import read


def test_a_line_says_where_what_and_what_instead() -> None:
    reading = read("flow: f\nnodes:\n  a:\n    run: x\n    limits: {wall_clock: 30}\n")
    (line,) = problem_lines(reading.problems, "flows/f.yaml")
    assert line == (
        "flows/f.yaml:5:26: nodes.a.limits.wall_clock: found the number 30, "
        "expected a duration, such as 30s, 5m or 2h, did you mean 30s?"
    )


def test_a_problem_of_a_whole_file_names_no_key() -> None:
    (line,) = problem_lines(read("").problems, "f.yaml")
    assert line == "f.yaml:1:1: found an empty file, expected a map with flow: and nodes:"


def test_a_problem_in_another_file_names_that_file() -> None:
    problem = FlowProblem(
        code=FlowProblemCode.TEMPLATE,
        file="p.md",
        line=2,
        column=3,
        path="",
        found="x",
        expected="y",
        cure="do z",
    )
    assert problem_line(problem, "f.yaml") == "p.md:2:3: found x, expected y (do z)"


def test_control_characters_are_made_visible() -> None:
    (line,) = problem_lines(read('flow: "\\e[31m\\u202e"\nnodes: {a: {run: x}}\n').problems, "f.yaml")
    assert 'found "<U+001B>[31m<U+202E>"' in line


@given(st.text(), st.text())
def test_any_text_stays_on_one_line(name: str, found: str) -> None:
    problem = FlowProblem(
        code=FlowProblemCode.VALUE, line=1, column=1, path=path_text((name, 0)), found=found, expected="y"
    )
    assert len(problem_line(problem, name).splitlines()) == 1


def test_long_values_are_cut() -> None:
    (line,) = problem_lines(read(f"flow: {'x' * 5000}\nnodes: {{a: {{run: x}}}}\n").problems, "f.yaml")
    assert len(line) < 300


def test_odd_keys_are_quoted_in_paths() -> None:
    assert path_text(("nodes", "a-b", "gates", 0, "run")) == "nodes.a-b.gates[0].run"
    assert path_text(("nodes", "a.b c", "x")) == 'nodes."a.b c".x'
    assert path_text(("<<",)) == "<<"
