"""SIGKILL at kill points of whole flows: the same ending, nothing lost, doubled or left over.

The long suite dies at every point of every example; the normal suite at those
of the smallest where most is at stake.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.crash.trial import Example, crash, rehearse

EXAMPLES = Path(__file__).parents[2] / "examples"
HELLO = Example(EXAMPLES / "hello" / "repo")
AT_ONCE = 3
"""Trials side by side: most of a trial is waiting for processes to start and end."""


def _all(example: Example, points: list[tuple[str, int]]) -> list[str]:
    expected, _ = rehearse(example)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda point: crash(example, point, expected), points)
        return [each for complaints in found for each in complaints]


TELLING = (
    ("after results.pin_run", 1),
    ("after ledger.append", 1),
    ("after workspace.prepare", 1),
    ("during launcher.launch", 1),
    ("after launcher.launch", 2),
    ("before snapshots.publish", 1),
    ("after snapshots.publish", 2),
)


def test_a_crash_where_most_is_at_stake_changes_nothing_that_counts() -> None:
    _, points = rehearse(HELLO)
    assert set(TELLING) <= set(points), "a point is gone: nothing would be tried there"
    assert not _all(HELLO, [*TELLING])


EXAMPLES_WHOLE = (
    ("hello", HELLO, 4),
    ("fix-bug", Example(EXAMPLES / "fix-bug" / "repo"), 10),
    ("fan-in", Example(EXAMPLES / "fan-in" / "repo"), 12),
)
"""Every example with the number of tests its points are dealt out to, none longer than a few minutes."""


@pytest.mark.long
@pytest.mark.parametrize(
    "example, hand, hands",
    [
        pytest.param(example, hand, hands, id=f"{name}-{hand + 1}-of-{hands}")
        for name, example, hands in EXAMPLES_WHOLE
        for hand in range(hands)
    ],
)
def test_a_crash_at_every_point_changes_nothing_that_counts(example: Example, hand: int, hands: int) -> None:
    _, points = rehearse(example)
    assert len(points) > 40, "the points are gone: nothing would be tried"
    assert not _all(example, points[hand::hands])
