"""Watching one directory through watchfiles.

Only the named directory is watched, never a tree: the library filters after
the kernel, so a tree would cost a watch for each of its directories.
"""

from collections.abc import AsyncIterator
from importlib import import_module

STEP_MS = 1
DEBOUNCE_MS = 10


def prepare_watching() -> None:
    """Load what the first watch would load."""
    import_module("watchfiles")
    import_module("anyio._backends._asyncio")


class FileWatcher:
    """The adapter of `ports.watcher.Watcher`."""

    async def changes(self, directory: str) -> AsyncIterator[None]:
        """Yield after each burst of changes; see the port."""
        # Loaded late: a daemon that starts takes up its runs first.
        from watchfiles import awatch

        found = awatch(
            directory,
            watch_filter=None,
            recursive=False,
            step=STEP_MS,
            debounce=DEBOUNCE_MS,
            rust_timeout=500,
        )
        async for _ in found:
            yield
