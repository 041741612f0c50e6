"""Gates that flood, linger, defy signals or die: each its own outcome, nothing left, a daemon that answers."""

import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from fusiond.domain.errors import FusionError
from fusiond.domain.gates import ProcessOutcome
from fusiond.domain.steps.judgement import UnitGateFinished
from tests.crash.aftermath import Aftermath, complaints, read_ledger
from tests.crash.ground import BARE, MORTAL, Ground
from tests.crash.points import Plan
from tests.crash.trial import Example, ground_for, run_to_end

GIGABYTE = 1 << 30


@dataclass(frozen=True, slots=True)
class Gate:
    """A gate's command and what must come of it. `written` None is not looked at."""

    name: str
    command: str
    outcome: ProcessOutcome
    exit_code: int | None = None
    signal: int | None = None
    written: int | None = None
    timeout: str = "60s"


GATES = (
    Gate("binary", "head -c 100000 /dev/urandom", ProcessOutcome.PASSED, 0, written=100_000),
    Gate("line", "head -c 3000000 /dev/zero | tr '\\0' a", ProcessOutcome.PASSED, 0, written=3_000_000),
    Gate("survivor", "setsid sleep 300 & setsid sleep 300 & true", ProcessOutcome.PASSED, 0, written=0),
    Gate("fails", "exit 3", ProcessOutcome.FAILED, 3),
    Gate("looks-killed", "exit 137", ProcessOutcome.FAILED, 137),
    Gate("killed", "kill -9 $$", ProcessOutcome.SIGNALLED, signal=9),
    Gate("terminated", "kill -TERM $$", ProcessOutcome.SIGNALLED, signal=15),
    Gate("missing", "exec no-such-program", ProcessOutcome.NOT_FOUND, 127),
    Gate("no-program", "exec /etc/passwd", ProcessOutcome.NOT_EXECUTABLE, 126),
    Gate("stubborn", "trap '' TERM; sleep 300", ProcessOutcome.TIMED_OUT, timeout="500ms"),
)
FLOOD = Gate("flood", "head -c 1073741824 /dev/zero", ProcessOutcome.PASSED, 0, written=GIGABYTE)


def _flow(gates: tuple[Gate, ...]) -> str:
    nodes = "".join(
        f"""\
  {gate.name}:
    run: "true"
    gates:
      - {{name: gate, run: {_quoted(gate.command)}, timeout: {gate.timeout}}}
"""
        for gate in gates
    )
    return f"flow: hard\nlimits: {{repair_reruns: 0, attempts: 1, parallel: 4}}\nnodes:\n{nodes}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _finished(after: Aftermath) -> dict[str, UnitGateFinished]:
    return {str(s.node): s.payload for s in after.steps if isinstance(s.payload, UnitGateFinished)}


def _check(gate: Gate, found: UnitGateFinished) -> None:
    assert (found.outcome, found.exit_code, found.signal) == (gate.outcome, gate.exit_code, gate.signal), gate
    if gate.written is not None:
        assert found.output is not None
        assert found.output.total_bytes == gate.written, gate


@pytest.mark.parametrize("daemon", [pytest.param(MORTAL, id="walls"), pytest.param(BARE, id="no-walls")])
def test_each_end_of_a_gate_is_its_own_outcome_and_nothing_survives(
    tmp_path: Path, daemon: tuple[str, ...]
) -> None:
    (tmp_path / "fusion.yaml").write_text(_flow(GATES))
    with ground_for(Example(tmp_path)) as ground:
        run = run_to_end(ground, "fusion.yaml", Plan(ground.place / "log"), command=daemon)
        after = read_ledger(ground, run)
        found = _finished(after)
        for gate in GATES:
            _check(gate, found[gate.name])
        assert not complaints(ground, after, after.ending)


@pytest.mark.long
def test_a_gigabyte_of_output_is_bounded_on_disk_and_the_daemon_answers_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "fusion.yaml").write_text(_flow((FLOOD, *GATES)))
    with ground_for(Example(tmp_path)) as ground:
        plan = Plan(ground.place / "log")
        ground.start(plan)
        stop = threading.Event()
        answered: list[int] = []
        pinging = threading.Thread(target=_ping, args=(ground, plan, stop, answered))
        pinging.start()
        try:
            run = run_to_end(ground, "fusion.yaml", plan)
        finally:
            stop.set()
            pinging.join()
        after = read_ledger(ground, run)
        _check(FLOOD, _finished(after)["flood"])
        content = ground.repository / ".fusion" / "content" / "sha256"
        kept = sum(path.stat().st_blocks * 512 for path in content.rglob("*") if path.is_file())
        assert kept < GIGABYTE // 8
        assert len(answered) > 20
        assert not complaints(ground, after, after.ending)


def _ping(ground: Ground, plan: Plan, stop: threading.Event, answered: list[int]) -> None:
    """Ask again and again; how fast the answers come is measured in scripts/bench."""
    with ground.connect(plan) as connection:
        while not stop.is_set():
            try:
                answered.append(int(str(connection.call("ping", {})["now_us"])))
            except FusionError:
                return
