"""A worker frozen past its lease's expiry: another finishes the stage once, the thawed one stops."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

from fusiond.domain.steps.attempt import AttemptStarted
from fusiond.domain.steps.kinds import StepKind
from tests.crash.aftermath import read_ledger
from tests.crash.ground import ROOT, Ground
from tests.crash.points import Plan
from tests.crash.trial import Example, ground_for
from tests.waiting import wait_until

FLOW = """\
flow: one
nodes:
  only:
    run: echo made > "$FUSION_OUTPUTS/made.txt"
    outputs: {made: {path: made.txt}}
"""


def _worker(ground: Ground, plan: Plan, boot: str, run: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "tests.crash.worker", str(ground.repository), boot, run],
        env=ground.environ(plan),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def _stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def _writable(ledger: Path) -> bool:
    """Whether nobody holds the ledger's write lock at this moment."""
    with closing(sqlite3.connect(ledger, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as refused:
            if not refused.sqlite_errorname.startswith("SQLITE_BUSY"):
                raise
            return False
        connection.execute("ROLLBACK")
        return True


def _frozen_between_commits(worker: subprocess.Popen[str], ledger: Path) -> None:
    """Wait until the worker is stopped and its ledger's thread is not inside a transaction.

    A process stopped inside one keeps SQLite's lock, and nobody could write
    before it is thawed or killed: that is the machine's matter, not the
    leases', which this test is about.
    """
    wait_until(lambda: _stopped(worker.pid), "frozen worker")
    while not _writable(ledger):
        os.kill(worker.pid, signal.SIGCONT)
        wait_until(lambda: _stopped(worker.pid), "frozen worker")


def test_a_thawed_worker_appends_nothing_and_the_stage_is_finished_once(tmp_path: Path) -> None:
    (tmp_path / "fusion.yaml").write_text(FLOW)
    with ground_for(Example(tmp_path)) as ground:
        frozen_plan = Plan(ground.place / "frozen.log", "after launcher.launch", 1, signal.SIGSTOP)
        frozen = _worker(ground, frozen_plan, "frozen", "")
        assert frozen.stdout is not None
        run = frozen.stdout.readline().strip()
        _frozen_between_commits(frozen, ground.repository / ".fusion" / "state.db")

        other = _worker(ground, Plan(ground.place / "other.log"), "other", run)
        said, _ = other.communicate(timeout=60)
        assert said.splitlines()[-1] == "succeeded {}"
        before = read_ledger(ground, run)

        frozen_plan.thaw.touch()
        os.kill(frozen.pid, signal.SIGCONT)
        said, _ = frozen.communicate(timeout=60)
        assert said.splitlines()[-1] == "succeeded {}", "the thawed worker saw what the other had done"

        after = read_ledger(ground, run)
        assert [step.hash for step in after.steps] == [step.hash for step in before.steps]
        kinds = Counter(step.kind for step in after.steps)
        assert kinds[StepKind.STAGE_FINISHED] == kinds[StepKind.ATTEMPT_FROZEN] == 1
        workers = [s.payload.worker for s in after.steps if isinstance(s.payload, AttemptStarted)]
        assert workers == ["frozen/1", "other/1"]
