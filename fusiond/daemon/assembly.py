"""What `daemon.main` needs of `daemon.bootstrap`: the seam between process and parts.

Owns no part. Everything behind the seam is made by `assemble`, which alone
knows adapters; everything before it (lock, socket, server) knows none.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from fusiond.client.discovery import Workspace
from fusiond.daemon.config import Settings
from fusiond.daemon.output_follow import OutputStreams
from fusiond.daemon.registry import Handlers, KeyedResults
from fusiond.daemon.subscriptions import StepReader
from fusiond.domain.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonPlace:
    """Where this daemon is.

    Args:
        workspace: whose it is.
        runtime: path of its runtime directory, private and verified.
        settings: its configuration.
        environ: the environment it was started with.
        boot: a fresh id of this process, part of its workers' names.
        last_alive_us: when an earlier daemon here was last known to be alive, UTC; 0 for never.
    """

    workspace: Workspace
    runtime: str
    settings: Settings
    environ: Mapping[str, str]
    boot: str
    last_alive_us: int = 0


class Assembly(Protocol):
    """The parts of a running daemon."""

    @property
    def handlers(self) -> Handlers:
        """Every method but those of the daemon itself (`daemon.about`)."""
        ...

    @property
    def steps(self) -> StepReader:
        """The ledger, for subscriptions."""
        ...

    @property
    def outputs(self) -> OutputStreams:
        """Output of attempts, for following."""
        ...

    @property
    def keyed(self) -> KeyedResults:
        """Results of mutations by key."""
        ...

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return lines for `daemon.status`."""
        ...

    async def start(self, announce: Callable[[int], None]) -> None:
        """Begin to work; `announce` takes the ledger's position after every commit."""
        ...

    async def drain(self) -> None:
        """Begin nothing new; return when what runs has reached a recorded point. May be cancelled."""
        ...

    async def close(self) -> None:
        """End what still runs and close everything. Called once, after `drain` or instead of it."""
        ...


Assemble = Callable[[DaemonPlace], Awaitable[Assembly]]
"""Makes the parts. Raises FusionError with what is wrong; `close` is not called then."""
