"""What people do to runs that exist: widening, repeating a request, ending what cannot go on."""

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fusiond.client.blocking import Connection, connect, new_key
from fusiond.client.discovery import find_workspace
from fusiond.domain.errors import ConflictError, RefusedError
from fusiond.domain.version import PRODUCT_VERSION
from tests.e2e.shell import Shell
from tests.waiting import wait_until

QUICK = "flow: quick\nnodes:\n  quick: {run: echo done}\n"
IMPATIENT = """\
flow: impatient
limits: {wall_clock: 1s, attempts: 1}
nodes:
  endless: {run: 'test -e "$FUSION_SESSION/go" || sleep 600'}
"""


@pytest.fixture
def parked(own_shell: Shell) -> str:
    own_shell.repository({"a.txt": "a\n", "fusion.yaml": QUICK})
    own_shell.fusion("init")
    return str(own_shell.document("run", own_shell.flow("impatient", IMPATIENT), code=3)["run"])


@contextmanager
def asking(shell: Shell) -> Iterator[Connection]:
    """Connect as a client that keeps its own keys; the daemon is started where none runs."""
    shell.fusion("ls")
    workspace = find_workspace(str(shell.root))
    with connect(workspace, shell.env, product=PRODUCT_VERSION) as connection:
        yield connection


def test_spent_limit_is_widened_or_the_resume_is_refused(own_shell: Shell, parked: str) -> None:
    refused = own_shell.fusion("resume", parked, code=2).err
    assert "has spent its limit of wall clock" in refused
    assert "--add-wall-clock" in refused
    (own_shell.session_of(parked, "endless") / "go").touch()
    own_shell.fusion("resume", parked, "--add-wall-clock", "60s")
    wait_until(lambda: status(own_shell, parked) == "succeeded", "end of the resumed run")


def test_request_repeated_after_a_restart_is_one_act(own_shell: Shell, parked: str) -> None:
    key, second = new_key(), 1_000_000
    asked = {"run": parked, "added_wall_clock_us": second}
    with asking(own_shell) as connection:
        connection.call("run.resume", asked, key=key)
    wait_until(lambda: status(own_shell, parked) == "parked", "the second park")
    other = str(own_shell.document("run", own_shell.flow("quick", QUICK))["run"])
    own_shell.fusion("daemon", "stop")
    with asking(own_shell) as connection:
        with pytest.raises(ConflictError, match=parked):
            connection.call("run.resume", {"run": other}, key=key)
        connection.call("run.resume", asked, key=key)
        with pytest.raises(RefusedError, match="spent its limit"):
            connection.call("run.resume", {"run": parked}, key=new_key())
    assert resumes(own_shell, parked) == 1


def test_cancelled_run_ends_even_without_its_plan(own_shell: Shell, parked: str) -> None:
    own_shell.fusion("daemon", "stop")
    with by_hand(own_shell) as connection:
        connection.execute("DELETE FROM content WHERE run_id = ?", (parked,))
    own_shell.fusion("resume", parked, "--add-wall-clock", "60s")
    wait_until(lambda: "content_missing" in own_shell.fusion("show", parked).out, "park without a plan")
    own_shell.fusion("cancel", parked)
    wait_until(lambda: status(own_shell, parked) == "cancelled", "end of the run")
    assert own_shell.stages(parked)["endless"]["status"] == "cancelled"


def test_crash_gives_no_wall_clock_back(own_shell: Shell) -> None:
    own_shell.repository({"a.txt": "a\n", "fusion.yaml": QUICK})
    own_shell.fusion("init")
    endless = "flow: endless\nnodes:\n  endless: {run: sleep 600}\n"
    run = str(own_shell.document("run", "--detach", own_shell.flow("endless", endless))["run"])
    wait_until(lambda: spent_us(own_shell, run) > 3_000_000, "three seconds of work")
    os.kill(int(own_shell.document("daemon", "status")["pid"]), signal.SIGKILL)
    # The sign of life comes every second.
    assert spent_us(own_shell, run) > 1_900_000
    own_shell.fusion("cancel", run)
    wait_until(lambda: status(own_shell, run) == "cancelled", "end of the run")


def spent_us(shell: Shell, run: str) -> int:
    return int(shell.document("show", run)["wall_clock_us"])


@contextmanager
def by_hand(shell: Shell) -> Iterator[sqlite3.Connection]:
    """Open the ledger past Fusion."""
    connection = sqlite3.connect(shell.root / ".fusion/state.db", isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def resumes(shell: Shell, run: str) -> int:
    """Return how often a person resumed a run, as the ledger has it."""
    with by_hand(shell) as connection:
        rows = connection.execute(
            "SELECT payload FROM steps WHERE run_id = ? AND kind = 'run_resumed'", (run,)
        ).fetchall()
    return sum(1 for (payload,) in rows if b'"person"' in payload)


def status(shell: Shell, run: str) -> str:
    return str(shell.document("show", run)["summary"]["status"])
