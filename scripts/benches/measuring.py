"""How a figure is taken: floor and candidate in turn, in short bursts, on a quiet machine.

A burst in which other processes used more than 0.3 of a core does not count.
Where fewer than three clean bursts come, the answer is `not measurable`, never
a number (`quality.md`).
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

FOREIGN_CORES = 0.3
NEEDED_BURSTS = 3
MOST_TRIES = 12
"""How often a burst that was disturbed is tried again before it is given up."""

PACE_MS = 50.0
"""`pace()` on the machine on which goals in milliseconds were set."""

INIT = 1
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured figure.

    Args:
        name: what was measured.
        unit: of value and floor.
        value: median of the candidate's clean bursts, None when not measurable.
        floor: median of the floor's clean bursts, None where the goal is absolute.
        goal: what is wanted, as people read it.
        met: whether it is; None when not measurable.
        repetitions: clean bursts.
        spread: lowest and highest value among them.
    """

    name: str
    unit: str
    value: float | None
    floor: float | None
    goal: str
    met: bool | None
    repetitions: int
    spread: tuple[float, float] | None

    @property
    def ratio(self) -> float | None:
        """Return value / floor."""
        return None if self.value is None or not self.floor else self.value / self.floor


@dataclass(frozen=True, slots=True)
class Clean:
    """The clean bursts of one variant."""

    values: tuple[float, ...]

    @property
    def median(self) -> float | None:
        """Return the median, None with too few bursts."""
        return statistics.median(self.values) if len(self.values) >= NEEDED_BURSTS else None

    @property
    def spread(self) -> tuple[float, float] | None:
        """Return the lowest and highest value."""
        return (min(self.values), max(self.values)) if self.values else None


def in_turn(
    variants: Mapping[str, Callable[[], float]], *, bursts: int = 5, own: Callable[[], Sequence[int]] = tuple
) -> dict[str, Clean]:
    """Run variants round-robin and keep the clean bursts.

    Args:
        variants: each returns its own figure for one burst.
        bursts: how many of each are wanted.
        own: processes beside this one whose CPU is not foreign.
    """
    kept: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(bursts):
        for name, burst in variants.items():
            for _ in range(MOST_TRIES):
                value, foreign = _watched(burst, own)
                if foreign <= FOREIGN_CORES:
                    kept[name].append(value)
                    break
    return {name: Clean(tuple(values)) for name, values in kept.items()}


def _watched(burst: Callable[[], float], own: Callable[[], Sequence[int]]) -> tuple[float, float]:
    """Return what a burst measured, and how many cores others used meanwhile."""
    before, stolen, started = _others(own()), _stolen(), time.perf_counter()
    value = burst()
    elapsed = time.perf_counter() - started
    used = 0
    for pid, other in _others(own()).items():
        if pid in before:
            used += other.ticks - before[pid].ticks
        elif other.parent != INIT:
            used += other.ticks
    return value, (used + _stolen() - stolen) / _TICK / max(elapsed, 1e-6)


def _stolen() -> int:
    """Return the ticks that the host gave to other machines."""
    with open("/proc/stat", encoding="ascii") as stream:
        return int(stream.readline().split()[8])


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    ticks: int


def _others(own: Sequence[int]) -> dict[int, _Process]:
    """Return every process but this one, `own` and those below them.

    Its ticks hold those of children it waited for. The whole machine's ticks less our own
    would not do: what dies inside a sandbox or as a daemon is waited for by process 1,
    which inherits it. So children of process 1 count only if they are older than the burst.
    """
    found: dict[int, _Process] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal() and (words := _stat(int(name))):
            pid = int(name)
            ticks = words[11:13] if pid == INIT else words[11:15]
            found[pid] = _Process(parent=int(words[1]), ticks=sum(map(int, ticks)))
    ours = {os.getpid(), *own}
    return {pid: each for pid, each in found.items() if not _below(pid, ours, found)}


def _below(pid: int, ours: set[int], found: Mapping[int, _Process]) -> bool:
    while pid not in ours:
        if pid not in found:
            return False
        pid = found[pid].parent
    return True


def _stat(pid: int) -> list[str]:
    """Return the fields of a process after its name; none when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stream:
            return stream.read().rpartition(")")[2].split()
    except OSError:
        return []


def at_least(name: str, unit: str, share: float, found: Mapping[str, Clean]) -> Figure:
    """Judge a rate: the candidate reaches `share` of the floor."""
    return _judged(name, unit, found, f">= {share:g} of floor", lambda value, floor: value >= share * floor)


def at_most(name: str, unit: str, factor: float, found: Mapping[str, Clean], extra: float = 0.0) -> Figure:
    """Judge a duration: the candidate takes at most `factor` times the floor plus `extra`, at this pace."""
    slower = _slower(found)
    goal = f"<= {factor:g} x floor" + (f" + {extra:g} {unit}{_times(slower)}" if extra else "")
    return _judged(name, unit, found, goal, lambda value, floor: value <= factor * floor + extra * slower)


def bounded(name: str, unit: str, most: float, found: Mapping[str, Clean]) -> Figure:
    """Judge a figure whose goal is absolute, at this pace."""
    value, slower = found["candidate"].median, _slower(found)
    return Figure(
        name=name,
        unit=unit,
        value=value,
        floor=None,
        goal=f"<= {most:g} {unit}{_times(slower)}",
        met=None if value is None else value <= most * slower,
        repetitions=len(found["candidate"].values),
        spread=found["candidate"].spread,
    )


def pace() -> float:
    """Return how long a fresh interpreter takes to load asyncio, in milliseconds: the unit of processor time.

    Goals in milliseconds were set on a machine where this took `PACE_MS`. One that shares its
    processor is slower by hours, and says so here instead of failing every goal.
    """
    timed = "import time; a = time.perf_counter(); import asyncio; print(time.perf_counter() - a)"
    done = subprocess.run([sys.executable, "-P", "-c", timed], capture_output=True, text=True, check=True)
    return float(done.stdout) * 1e3


def _slower(found: Mapping[str, Clean]) -> float:
    """Return how many times slower than the goals' machine this one was; never less than 1."""
    median = found["pace"].median if "pace" in found else None
    return 1.0 if median is None else max(1.0, median / PACE_MS)


def _times(slower: float) -> str:
    return "" if slower == 1.0 else f" x {slower:.2f}"


def _judged(
    name: str, unit: str, found: Mapping[str, Clean], goal: str, meets: Callable[[float, float], bool]
) -> Figure:
    candidate, floor = found["candidate"], found["floor"]
    value, under = candidate.median, floor.median
    return Figure(
        name=name,
        unit=unit,
        value=value,
        floor=under,
        goal=goal,
        met=None if value is None or under is None else meets(value, under),
        repetitions=len(candidate.values),
        spread=candidate.spread,
    )


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
