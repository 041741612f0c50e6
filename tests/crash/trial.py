"""One trial: run a flow, die at a planned point, start again, look at what is left."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.crash.aftermath import Aftermath, Ending, complaints, fingerprint, read_ledger
from tests.crash.ground import KEY, MORTAL, SEARCH_PATH, Ground, make_ground
from tests.crash.points import Plan


@dataclass(frozen=True, slots=True)
class Example:
    """An example's directory and the flow of it that is run."""

    directory: Path
    flow: str = "fusion.yaml"


@contextmanager
def ground_for(example: Example) -> Iterator[Ground]:
    """Make a ground in a directory of its own, with paths short enough for sockets."""
    place = Path(tempfile.mkdtemp(prefix="fk-"))
    try:
        yield make_ground(place, example.directory)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def rehearse(example: Example) -> tuple[Ending, list[tuple[str, int]]]:
    """Run without a crash; return what the run comes to and every point it passes."""
    with ground_for(example) as ground:
        plan = Plan(ground.place / "points.log")
        after = _run(ground, example, plan, plan)
        assert not complaints(ground, after, after.ending)
        lines = plan.log.read_text().splitlines()
    points = [(label, int(nth)) for label, nth in (line.split("\t") for line in lines)]
    return after.ending, points


def crash(example: Example, point: tuple[str, int], expected: Ending) -> list[str]:
    """Run with a crash at one point and a restart; return what is wrong afterwards."""
    with ground_for(example) as ground:
        deadly = Plan(ground.place / "points.log", *point)
        before = fingerprint(ground.repository)
        after = _run(ground, example, deadly, Plan(ground.place / "later.log"))
        found = complaints(ground, after, expected)
        if deadly.log.read_text().splitlines()[-1] != f"{point[0]}\t{point[1]}":
            found.append("the daemon did not die at the point: nothing was tried")
        if fingerprint(ground.repository) != before:
            found.append("the user's checkout or .git changed")
    return [f"crash at {point[0]} #{point[1]}: {each}" for each in found]


def run_to_end(
    ground: Ground,
    flow: str,
    plan: Plan,
    *,
    command: Sequence[str] = MORTAL,
    stop: bool = True,
    key: str = KEY,
    search_path: str = SEARCH_PATH,
) -> str:
    """Submit a flow to a daemon that does not die, follow it to its end, return the run's id."""
    ground.start(plan, command)
    run = ground.submit(plan, flow, key, search_path)
    assert run is not None, "the daemon did not answer"
    assert ground.follow(plan, run), "the daemon died"
    if stop:
        ground.stop(plan)
    return run


def _run(ground: Ground, example: Example, first: Plan, second: Plan) -> Aftermath:
    """Submit and follow; when the daemon dies, start another that does not, until the run ends."""
    plan = first
    ground.start(plan)
    run: str | None = None
    while True:
        run = run or ground.submit(plan, example.flow)
        if run is not None and ground.follow(plan, run):
            break
        ground.wait_dead()
        plan = second
        ground.start(plan)
    ground.stop(plan)
    return read_ledger(ground, run)
