"""What interrupted freezes left behind, removed at start.

Owns which directories are leftovers. It runs before any attempt goes on, so
nothing staged belongs to anybody.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fusiond.domain.ids import AttemptId, RunId
from fusiond.snapshots.disk import Disk, remove_tree, storage_errors
from fusiond.snapshots.layout import Layout


def sweep(
    layout: Layout,
    runs: frozenset[RunId],
    frozen: frozenset[AttemptId],
    in_use: Callable[[Path], bool],
    disk: Disk,
) -> list[str]:
    """Remove staged versions, and of `runs` the published ones that no step names.

    Args:
        layout: where versions live.
        runs: the open runs; versions of other runs are never touched.
        frozen: the versions that the ledger knows.
        in_use: says whether a staged version is somebody's after all.
        disk: makes the removal durable.

    Returns:
        The removed directories, relative to the stages directory.

    Raises:
        StorageError: the disk fails.
    """
    with storage_errors("sweep the stages directory"):
        staged = [each for each in _children(layout.staging) if not in_use(each)]
        orphans = [place for attempt, place in layout.published(runs) if attempt not in frozen]
        for place in (*staged, *orphans):
            remove_tree(str(place))
        for parent in sorted({place.parent for place in orphans}):
            disk.sync_path(str(parent))
            # Other versions of the stage may be there.
            with suppress(OSError):
                os.rmdir(parent)
        return [str(place.relative_to(layout.root)) for place in (*staged, *orphans)]


def _children(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []
