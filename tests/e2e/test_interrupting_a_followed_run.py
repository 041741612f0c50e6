"""Ctrl-C while `fusion run` follows: it asks, and does what was answered."""

import pytest

from tests.e2e.shell import FUSION, Shell, run_id
from tests.e2e.terminal import CTRL_C, Terminal
from tests.waiting import wait_until

WAITING = """\
flow: waiting
nodes:
  wait: {run: 'while [ ! -e "$FUSION_SESSION/go" ]; do sleep 0.05; done'}
"""
QUESTION = "leave it running (l), or go on watching (w)?"


@pytest.fixture(scope="module")
def person(shell: Shell) -> Shell:
    shell.repository({"a.txt": "a\n", "fusion.yaml": WAITING})
    shell.fusion("init")
    return shell


def started(person: Shell) -> Terminal:
    """Start to follow a run on a terminal and wait until its command runs."""
    terminal = Terminal([*FUSION, "run"], person.root, person.env)
    terminal.expect("attempt started")
    return terminal


def status(person: Shell, run: str) -> str:
    return str(person.document("show", run)["summary"]["status"])


def test_leaving_lets_the_run_go_on(person: Shell) -> None:
    with started(person) as terminal:
        terminal.press(CTRL_C)
        terminal.expect(QUESTION)
        terminal.press(b"l\n")
        terminal.expect("the run goes on")
        assert terminal.exit_code() == 75
        run = run_id(terminal.text)
    assert status(person, run) == "running"
    (person.session_of(run, "wait") / "go").touch()
    wait_until(lambda: status(person, run) == "succeeded", "end of the run")


def test_watching_goes_on_until_the_run_ends(person: Shell) -> None:
    with started(person) as terminal:
        terminal.press(CTRL_C)
        terminal.expect(QUESTION)
        terminal.press(b"w\n")
        run = run_id(terminal.text)
        (person.session_of(run, "wait") / "go").touch()
        terminal.expect("succeeded")
        assert terminal.exit_code() == 0


def test_cancelling_ends_the_run_with_4(person: Shell) -> None:
    with started(person) as terminal:
        terminal.press(CTRL_C)
        terminal.expect(QUESTION)
        terminal.press(b"c\n")
        terminal.expect("cancelled")
        assert terminal.exit_code() == 4
        run = run_id(terminal.text)
    assert status(person, run) == "cancelled"
    assert not any("sleep" in line for line in person.processes().values())


def test_second_interrupt_leaves_the_run_alone(person: Shell) -> None:
    with started(person) as terminal:
        terminal.press(CTRL_C)
        terminal.expect(QUESTION)
        terminal.press(CTRL_C)
        assert terminal.exit_code() == 130
        run = run_id(terminal.text)
    assert status(person, run) == "running"
    person.fusion("cancel", run)
    wait_until(lambda: status(person, run) == "cancelled", "end of the run")
