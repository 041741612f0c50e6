"""The port through which a process is launched behind walls."""

from typing import Literal, Protocol

from fusiond.domain.launch import Isolation, LaunchResult, LaunchSpec


class CancelSignal(Protocol):
    """Set once to ask for an end; `asyncio.Event` is one."""

    def is_set(self) -> bool:
        """Say whether the end was asked for."""
        ...

    async def wait(self) -> Literal[True]:
        """Wait until it is."""
        ...


class Launcher(Protocol):
    """Launches one process and stays until nothing of it is alive."""

    @property
    def isolation(self) -> Isolation:
        """Which walls this launcher puts up."""
        ...

    async def launch(self, spec: LaunchSpec, cancel: CancelSignal) -> LaunchResult:
        """Run `spec` to its end; when `cancel` is set, end it (TERM, grace, KILL).

        Returns only after every process of the launch is gone. Never raises for
        what the process did; a launcher that could not start it returns
        `LaunchEnd.SANDBOX_FAILURE`. A cancelled call (CancelledError) kills first.
        """
        ...

    def inside(self, host_path: str, target: str) -> str:
        """Return the path by which a mounted host path is seen: `target` or `host_path`."""
        ...

    async def end_leftovers(self, marker_prefix: str) -> int:
        """Kill processes of an earlier daemon whose FUSION_ATTEMPT starts so; return how many."""
        ...
