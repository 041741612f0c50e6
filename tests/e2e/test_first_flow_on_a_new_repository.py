"""`fusion init`, and the run of what it wrote."""

import pytest

from tests.e2e.shell import Shell, run_id, state_of

PYTHON = {
    "setup.py": "",
    "adder/__init__.py": "def add(a, b):\n    return a + b\n",
    "tests/__init__.py": "",
    "tests/test_adder.py": (
        "import unittest\n\nfrom adder import add\n\n\n"
        "class AdderTest(unittest.TestCase):\n"
        "    def test_sum(self):\n        self.assertEqual(add(1, 2), 3)\n"
    ),
}


def test_new_repository_runs_at_once(own_shell: Shell) -> None:
    own_shell.repository(PYTHON)
    ended = own_shell.fusion("init", cwd=own_shell.root / "tests")
    assert "found: Python" in ended.out
    assert "test command: python3 -m unittest" in ended.out
    assert own_shell.git("status", "--porcelain", "--ignored") == "?? fusion.yaml\n!! .fusion/\n"
    own_shell.fusion("flow", "check")
    before = state_of(own_shell.root)
    run = run_id(own_shell.fusion("run").out)
    assert "Ran 1 test" in own_shell.fusion("logs", run).out
    assert "setup.py" in own_shell.fusion("artifact", "cat", f"{run}/check", "files").out
    assert state_of(own_shell.root) == before


def test_second_time_overwrites_nothing(own_shell: Shell) -> None:
    own_shell.repository({"a.txt": "a\n"})
    own_shell.fusion("init", "--test", "true")
    before = state_of(own_shell.root)
    assert 'run: "true"' in (own_shell.root / "fusion.yaml").read_text()
    assert "nothing was changed" in own_shell.fusion("init", code=2).err
    assert state_of(own_shell.root) == before


@pytest.mark.parametrize("unfit", [" ", "true \udcff"])
def test_command_that_no_flow_can_hold_is_refused(own_shell: Shell, unfit: str) -> None:
    own_shell.repository({"a.txt": "a\n"})
    assert "does not fit" in own_shell.fusion("init", "--test", unfit, code=64).err
    assert not (own_shell.root / ".fusion").exists()


def test_flow_that_came_with_a_clone_is_kept(own_shell: Shell) -> None:
    own_shell.repository({"fusion.yaml": "flow: own\nnodes:\n  own: {run: 'true'}\n"})
    before = state_of(own_shell.root)
    assert own_shell.document("init")["written"] is False
    assert state_of(own_shell.root) == before
    own_shell.fusion("run")


def test_directory_without_a_repository_is_refused(own_shell: Shell) -> None:
    assert "`git init" in own_shell.fusion("init", code=2).err
    assert [*own_shell.root.iterdir()] == []
