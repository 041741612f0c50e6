"""A run that a newer Fusion went on with: it is named, kept as it is, and harms no other."""

import sqlite3

import pytest

from fusiond.codec.steps import StoredStep, step_hash
from tests.e2e.shell import Shell

QUICK = "flow: quick\nnodes:\n  quick: {run: echo done}\n"
IMPATIENT = """\
flow: impatient
limits: {wall_clock: 1s, attempts: 1}
nodes:
  endless: {run: echo begun > begun; sleep 600}
"""


def _renew(shell: Shell, run: str) -> None:
    """Make the newest step of a run one of a kind that this version does not know."""
    connection = sqlite3.connect(shell.root / ".fusion/state.db", isolation_level=None)
    try:
        guards = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in guards:
            connection.execute(f'DROP TRIGGER "{name}"')
        [(last,)] = connection.execute("SELECT max(seq) FROM steps WHERE run_id = ?", (run,))
        place = (run, last)
        connection.execute("UPDATE steps SET kind = 'run_levitated' WHERE run_id = ? AND seq = ?", place)
        columns = ", ".join(("run_id", *StoredStep._fields[1:]))
        row = connection.execute(
            f"SELECT {columns} FROM steps WHERE run_id = ? AND seq = ?", place
        ).fetchone()
        sealed = step_hash(StoredStep._make(row))
        connection.execute("UPDATE steps SET hash = ? WHERE run_id = ? AND seq = ?", (sealed, *place))
        connection.execute(
            "UPDATE run_head SET last_kind = 'run_levitated', hash = ? WHERE run_id = ?", (sealed, run)
        )
        for _, statement in guards:
            connection.execute(statement)
    finally:
        connection.close()


@pytest.fixture
def unreadable(own_shell: Shell) -> str:
    own_shell.repository({"a.txt": "a\n", "fusion.yaml": QUICK})
    own_shell.fusion("init")
    run = str(own_shell.document("run", own_shell.flow("impatient", IMPATIENT), code=3)["run"])
    own_shell.fusion("daemon", "stop")
    _renew(own_shell, run)
    return run


def test_it_is_named_and_keeps_its_files_and_the_others_go_on(own_shell: Shell, unreadable: str) -> None:
    other = own_shell.document("run", own_shell.flow("quick", QUICK))
    assert other["outcome"] == "succeeded"
    listed = own_shell.fusion("ls")
    [line] = [line for line in listed.out.splitlines() if line.startswith(unreadable)]
    assert line.endswith("! unreadable")
    assert f"{unreadable} cannot be read: " in listed.err
    assert "written by a newer fusion" in listed.err
    assert unreadable in own_shell.fusion("daemon", "status").out
    [begun] = own_shell.home.glob(f"state/fusion/worktrees/*/{unreadable}.endless/attempt-1/**/begun")
    assert begun.read_text() == "begun\n"


def test_nothing_is_done_with_it(own_shell: Shell, unreadable: str) -> None:
    for command in (("show",), ("why",), ("cancel",), ("resume",)):
        ended = own_shell.fusion(*command, unreadable, code=None)
        assert ended.code not in (0, 70)
        assert "newer fusion" in ended.err
