"""What `fusion init` finds in a repository, and that the flow it writes is always one that can be run."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusiond.cli.first_flow import Findings, Setup, first_flow, look_at
from fusiond.codec.flowfile.read import read_flow
from fusiond.domain.flow import Flow, NodeKind

TESTED = json.dumps({"scripts": {"test": "vitest run"}, "devDependencies": {"vitest": "1"}})
UNTESTED = json.dumps({"scripts": {"test": 'echo "Error: no test specified" && exit 1'}})


def read(text: str) -> Flow:
    reading = read_flow(text.encode())
    assert reading.problems == ()
    assert reading.flow is not None
    return reading.flow


@pytest.mark.parametrize(
    "files, languages, test",
    [
        ({}, (), None),
        ({"setup.py": ""}, ("Python",), "python3 -m unittest"),
        ({"pyproject.toml": "[tool.pytest]\n"}, ("Python",), "python3 -m pytest -q"),
        ({"pyproject.toml": "", "tests/conftest.py": ""}, ("Python",), "python3 -m pytest -q"),
        (
            {"setup.py": "", "tests/test_a.py": "def test_a():\n    pass\n"},
            ("Python",),
            "python3 -m pytest -q",
        ),
        ({"a.py": "", "test_a.py": "class A(TestCase):\n    pass\n"}, ("Python",), "python3 -m unittest"),
        ({"go.mod": "", "release.py": ""}, ("Go",), "go test ./..."),
        ({"package.json": TESTED}, ("Node",), "npm test"),
        ({"package.json": UNTESTED}, ("Node",), "node --test"),
        ({"package.json": "[" * 100_000}, ("Node",), "node --test"),
        ({"go.mod": "module m\n"}, ("Go",), "go test ./..."),
        ({"Cargo.toml": ""}, ("Rust",), "cargo test"),
        ({"Makefile": "all:\ntest: all\n"}, ("make",), "make test"),
        ({"Makefile": "check := 1\nall:\n"}, ("make",), None),
        ({"go.mod": "", "Makefile": "test:\n"}, ("Go", "make"), "go test ./..."),
    ],
)
def test_language_and_test_command(
    tmp_path: Path, files: dict[str, str], languages: tuple[str, ...], test: str | None
) -> None:
    plant(tmp_path, files)
    found = look_at(tmp_path, "")
    assert (found.languages, found.test) == (languages, test)
    flow = read(first_flow(found))
    assert [gate.run for node in flow.nodes for gate in node.gates] == ([test] if test else [])


def plant(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def test_lock_file_makes_a_setup(tmp_path: Path) -> None:
    plant(tmp_path, {"package.json": TESTED, "package-lock.json": "{}"})
    flow = read(first_flow(look_at(tmp_path, "")))
    setup = flow.nodes[0].setup
    assert setup is not None
    assert (setup.run, setup.key) == ("npm ci", ("package.json", "package-lock.json"))


def test_dependencies_of_go_let_the_gate_reach_the_network(tmp_path: Path) -> None:
    plant(tmp_path, {"go.mod": "module m\n", "go.sum": "x\n"})
    assert read(first_flow(look_at(tmp_path, ""))).nodes[0].gates[0].network


def test_given_test_command_wins(tmp_path: Path) -> None:
    plant(tmp_path, {"package.json": TESTED, "package-lock.json": "{}"})
    found = look_at(tmp_path, "", "make verify")
    assert (found.test, found.setup, found.network) == ("make verify", None, False)


def test_agents_on_the_search_path_are_named(tmp_path: Path) -> None:
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    found = look_at(tmp_path, str(tmp_path))
    assert found.agents == ("claude",)
    assert "#   env: [ANTHROPIC_API_KEY]" in first_flow(found)


commands = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(
    lambda text: text.strip() and text.isprintable()
)


def test_example_of_an_agent_is_a_node_once_its_marks_are_removed() -> None:
    text = first_flow(Findings(agents=("claude",)))
    agent = read(text.replace("\n  # change:", "\n  change:").replace("\n  #   ", "\n    ")).nodes[1]
    assert (agent.id, agent.env, agent.network) == ("change", ("ANTHROPIC_API_KEY",), True)


@settings(max_examples=25)
@given(
    test=st.none() | commands,
    network=st.booleans(),
    setup=st.none() | st.builds(Setup, run=commands, key=st.just(("uv.lock",))),
    agents=st.sampled_from([(), ("codex",), ("aider", "goose")]),
)
def test_every_first_flow_is_read_and_runs_commands_only(
    *, test: str | None, network: bool, setup: Setup | None, agents: tuple[str, ...]
) -> None:
    flow = read(first_flow(Findings(test=test, network=network, setup=setup, agents=agents)))
    assert {node.kind for node in flow.nodes} == {NodeKind.RUN}
    assert [gate.run for node in flow.nodes for gate in node.gates] == ([test] if test else [])
