"""The port of watching a directory for changes."""

from collections.abc import AsyncIterator
from typing import Protocol


class Watcher(Protocol):
    """Tells when files in a directory change."""

    def changes(self, directory: str) -> AsyncIterator[None]:
        """Yield after each burst of changes in `directory` itself, not below it, until closed."""
        ...
