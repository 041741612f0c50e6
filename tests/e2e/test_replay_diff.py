"""`fusion replay diff` on real runs: what is the same, what is not, and what cannot be judged."""

import os
import signal
import sqlite3
from pathlib import Path

import pytest

from fusiond.client.blocking import connect
from fusiond.client.discovery import find_workspace
from fusiond.codec.steps import StoredStep, step_hash
from fusiond.domain.errors import InvalidError, NotFoundError
from fusiond.domain.version import PRODUCT_VERSION
from tests.e2e.shell import Shell
from tests.waiting import wait_until

CLOCK = """\
flow: clock
{terms}
nodes:
  stamp:
    run: |
      printf 'made by hand\\nat %s\\nend\\n' "$(date +%s%N)" > "$FUSION_OUTPUTS/stamp.txt"
    outputs: {{stamp: {{path: stamp.txt}}}}
  copy:
    needs: [stamp]
    inputs: {{stamp: stamp.stamp}}
    run: cp "$FUSION_INPUTS/stamp" "$FUSION_OUTPUTS/copy.txt"
    outputs: {{copy: {{path: copy.txt}}}}
"""
GATED = """\
flow: gated
nodes:
  build:
    run: echo made > "$FUSION_OUTPUTS/made.txt"
    outputs: {made: {path: made.txt}}
    gates:
      - echo begun >> "$FUSION_SESSION/begun"; until test -e "$FUSION_SESSION/go"; do sleep 0.05; done
"""
BOUNDED = "determinism: bounded\nreplay: {mode: bounded, acceptability: invariant_preserving}"
STATISTICAL = "determinism: bounded\nreplay: {mode: bounded, acceptability: statistically_bounded}"
QUICK = "flow: quick\nnodes:\n  quick: {run: echo done}\n"
IMPATIENT = """\
flow: impatient
limits: {wall_clock: 1s, attempts: 1}
nodes:
  endless: {run: sleep 600}
"""


@pytest.fixture(scope="module")
def place(shell: Shell) -> Shell:
    shell.repository({"fusion.yaml": QUICK})
    shell.fusion("init")
    return shell


def twice(shell: Shell, name: str, text: str) -> tuple[str, str]:
    """Run a flow two times and return both runs."""
    flow = shell.flow(name, text)
    first, second = (str(shell.document("run", flow)["run"]) for _ in range(2))
    return first, second


def test_two_runs_of_an_example_are_acceptable_under_strict(own_shell: Shell) -> None:
    own_shell.example("fix-bug")
    first, second = (str(own_shell.document("run")["run"]) for _ in range(2))
    said = own_shell.fusion("replay", "diff", first, second).out
    assert said.splitlines()[0] == "✓ acceptable  (strict, exact_match)"
    document = own_shell.document("replay", "diff", first, second)
    assert (document["verdict"], document["differences"]) == ("acceptable", [])
    assert (document["expected"], document["observed"]) == (first, second)


def test_a_run_that_was_killed_and_drained_is_the_same_run(own_shell: Shell) -> None:
    own_shell.repository({"fusion.yaml": QUICK})
    own_shell.fusion("init")
    flow = own_shell.flow("gated", GATED)
    undisturbed, stopped = (_waiting(own_shell, flow) for _ in range(2))
    _let_go(own_shell, undisturbed)
    pid = int(own_shell.document("daemon", "status")["pid"])
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "end of the daemon")
    own_shell.fusion("ls")
    wait_until(lambda: _gates(own_shell, stopped) == 2, "the gate again")
    own_shell.fusion("daemon", "stop")
    own_shell.fusion("ls")
    wait_until(lambda: _gates(own_shell, stopped) == 3, "the gate once more")
    _let_go(own_shell, stopped)
    said = own_shell.fusion("replay", "diff", undisturbed, stopped).out
    assert said.startswith("✓ acceptable  (strict, exact_match)")


def _waiting(shell: Shell, flow: str) -> str:
    """Start a run and return it when its gate waits."""
    run = str(shell.document("run", flow, "--detach")["run"])
    wait_until(lambda: _gates(shell, run) == 1, "the gate")
    return run


def _gates(shell: Shell, run: str) -> int:
    """Return how often the run's gate has begun."""
    begun = [*shell.home.glob(f"state/fusion/worktrees/*/{run}.build/attempt-1/session/begun")]
    return len(begun[0].read_text().splitlines()) if begun else 0


def _let_go(shell: Shell, run: str) -> None:
    (shell.session_of(run, "build") / "go").touch()
    wait_until(lambda: shell.document("show", run)["summary"]["status"] == "succeeded", "end of the run")


def test_a_clock_in_an_artifact_is_found_to_the_line(place: Shell) -> None:
    first, second = twice(place, "strict", CLOCK.format(terms=""))
    said = place.fusion("replay", "diff", first, second, code=1).out
    assert said.startswith("✗ unacceptable  (strict, exact_match)")
    assert "first difference in stamp" in said
    assert "artifact content: stamp (stamp.txt) line 2 (diverged)" in said
    assert "↳ follows from stamp: 1 difference" in said
    document = place.document("replay", "diff", first, second, code=1)
    stamp, copy = document["differences"]
    assert (stamp["node"], stamp["found"], stamp["blocking"]) == ("stamp", "diverged", True)
    assert stamp["expected"].startswith("at ")
    assert stamp["observed"].startswith("at ")
    assert (copy["node"], copy["found"], copy["cause"]) == ("copy", "downstream", "stamp")


def test_declared_tolerance_is_honoured_and_only_tightened(place: Shell) -> None:
    first, second = twice(place, "bounded", CLOCK.format(terms=BOUNDED))
    assert place.document("replay", "diff", first, second, code=2)["verdict"] == "acceptable_with_warnings"
    place.fusion("replay", "diff", first, second, "--allow-warnings", code=0)
    place.fusion("replay", "diff", first, second, "--mode", "strict", code=1)
    place.fusion("replay", "diff", first, second, "--acceptability", "exact_match", code=1)
    place.fusion("replay", "diff", first, second, "--allow-warnings", "--mode", "strict", code=1)
    looser = place.fusion("replay", "diff", first, second, "--mode", "observational", code=64).err
    assert "mode observational is looser than the flow's; expected bounded or stricter" in looser
    other, _ = twice(place, "statistical", CLOCK.format(terms=STATISTICAL))
    assert place.document("replay", "diff", first, other, code=1)["verdict"] == "unacceptable"


def test_markdown_holds_no_markup_of_the_run(place: Shell) -> None:
    evil = CLOCK.format(terms="").replace("made by hand", "`|<img src=x>|`").replace("at %s", "`%s|")
    first, second = twice(place, "evil", evil)
    said = place.fusion("replay", "diff", first, second, "--markdown", code=1).out
    row = next(line for line in said.splitlines() if "line 2" in line)
    cells = row.replace("\\|", "").split("|")[1:-1]
    assert len(cells) == 5
    assert all(cell.count("`") in {0, 2} for cell in cells)


# What cannot be judged exits 4 and makes nothing.


def test_unfinished_and_unknown_runs_cannot_be_judged(own_shell: Shell) -> None:
    own_shell.repository({"fusion.yaml": QUICK})
    own_shell.fusion("init")
    parked = str(own_shell.document("run", own_shell.flow("impatient", IMPATIENT), code=3)["run"])
    refused = own_shell.fusion("replay", "diff", parked, parked, code=4).err
    assert f"the trace of run {parked} is not finalized; expected a run that has ended" in refused
    assert "no run 0000000000000" in own_shell.fusion("replay", "diff", "0000000000000", parked, code=4).err
    own_shell.fusion("replay", "diff", code=64)
    own_shell.fusion("replay", "diff", "a", "b", "--mode", "loose", code=64)
    elsewhere = own_shell.place / "elsewhere"
    elsewhere.mkdir()
    outside = own_shell.fusion("replay", "diff", parked, code=4, cwd=elsewhere).err
    assert outside.startswith("fusion replay: ")
    assert list(elsewhere.iterdir()) == []


def test_an_edited_step_is_refused_though_its_hash_was_made_anew(own_shell: Shell) -> None:
    own_shell.repository({"fusion.yaml": QUICK})
    own_shell.fusion("init")
    first, second = twice(own_shell, "clock", CLOCK.format(terms=""))
    own_shell.fusion("daemon", "stop")
    _edit(own_shell, second)
    refused = own_shell.fusion("replay", "diff", first, second, code=4).err
    assert second in refused
    assert "Traceback" not in refused


def _edit(shell: Shell, run: str) -> None:
    """Change an exit code in the middle of a ledger and give that step, and no other, a fitting hash."""
    connection = sqlite3.connect(shell.root / ".fusion/state.db", isolation_level=None)
    try:
        guards = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in guards:
            connection.execute(f'DROP TRIGGER "{name}"')
        columns = ", ".join(("run_id", *StoredStep._fields[1:]))
        row = StoredStep._make(
            connection.execute(
                f"SELECT {columns} FROM steps WHERE run_id = ? AND kind = 'tool_returned'", (run,)
            ).fetchone()
        )
        edited = row._replace(payload=row.payload.replace(b'"exit_code":0', b'"exit_code":7'))
        assert edited.payload != row.payload
        connection.execute(
            "UPDATE steps SET payload = ?, hash = ? WHERE run_id = ? AND seq = ?",
            (edited.payload, step_hash(edited), run, row.seq),
        )
        for _, statement in guards:
            connection.execute(statement)
    finally:
        connection.close()


def test_steps_are_read_in_pages_and_for_their_tenant_alone(place: Shell) -> None:
    run = str(place.document("run", place.flow("quick", QUICK))["run"])
    workspace = find_workspace(str(place.root))
    with connect(workspace, place.env, product=PRODUCT_VERSION) as connection:
        whole = connection.call("run.steps", {"run": run})["steps"]
        pages: list[object] = []
        while page := connection.call("run.steps", {"run": run, "after_seq": len(pages), "limit": 3})[
            "steps"
        ]:
            assert isinstance(page, list)
            assert len(page) <= 3
            pages += page
        assert pages == whole
        with pytest.raises(NotFoundError):
            connection.call("run.steps", {"run": run, "tenant": "somebody-else"})
        with pytest.raises(InvalidError, match="limit is 0"):
            connection.call("run.steps", {"run": run, "limit": 0})
