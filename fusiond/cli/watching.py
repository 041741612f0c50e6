"""Waiting for a file to change, through watchfiles."""

from collections.abc import Iterator
from pathlib import Path

from watchfiles import watch

STEP_MS = 1
DEBOUNCE_MS = 10


def changes(path: Path) -> Iterator[None]:
    """Yield whenever `path` changed or was replaced, until interrupted.

    Its directory is watched, not below it: editors replace files rather than write them.
    """
    target = path.absolute()
    found = watch(
        target.parent,
        watch_filter=lambda _, name: Path(name) == target,
        recursive=False,
        step=STEP_MS,
        debounce=DEBOUNCE_MS,
        raise_interrupt=True,
    )
    for _ in found:
        yield
