"""A launcher that starts nothing: it plays what a process would have done, and remembers the specs.

Keeps the port's promises that others rely on: the log is new and never followed, offsets stay true,
cancelling ends what lasts. Isolates nothing and takes no time.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from fusiond.domain.errors import InvalidError
from fusiond.domain.launch import Isolation, LaunchEnd, LaunchResult, LaunchSpec
from fusiond.ports.launcher import CancelSignal


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What a process would do.

    Args:
        output: what it writes.
        exit_code: how it exits, unless it ends otherwise.
        signal: number of the signal that ends it.
        until_cancelled: it lasts until it is cancelled.
        end: another end, such as TIMED_OUT, reached at once.
        survivors: processes that it leaves behind.
        detail: for SANDBOX_FAILURE.
        does: is called with the spec first, to write files where the mounts' sources are.
    """

    output: bytes = b""
    exit_code: int = 0
    signal: int | None = None
    until_cancelled: bool = False
    end: LaunchEnd | None = None
    survivors: int = 0
    detail: str = ""
    does: Callable[[LaunchSpec], None] | None = None


@dataclass(slots=True)
class FakeLauncher:
    """Plays acts instead of launching.

    Args:
        plays: returns the act for a spec; by default everything succeeds silently.
        isolation: the walls it claims.
        leftovers: markers of processes that an earlier daemon left.
        launched: every spec that was launched, in order.
    """

    plays: Callable[[LaunchSpec], Act] = lambda _spec: Act()
    isolation: Isolation = Isolation.BUBBLEWRAP
    leftovers: list[str] = field(default_factory=list)
    launched: list[LaunchSpec] = field(default_factory=list)

    async def launch(self, spec: LaunchSpec, cancel: CancelSignal) -> LaunchResult:
        self.launched.append(spec)
        if not spec.argv or not spec.marker:
            return self._failure("the command or the marker is empty")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            log = os.open(spec.log_path, flags, 0o600)
        except OSError as error:
            return self._failure(str(error))
        try:
            if cancel.is_set():
                return LaunchResult(end=LaunchEnd.CANCELLED, isolation=self.isolation)
            return await self._play(spec, cancel, log)
        finally:
            os.close(log)

    def inside(self, host_path: str, target: str) -> str:
        return target if self.isolation is Isolation.BUBBLEWRAP else host_path

    async def end_leftovers(self, marker_prefix: str) -> int:
        if not marker_prefix:
            raise InvalidError("the marker prefix is empty")
        ended = [marker for marker in self.leftovers if marker.startswith(marker_prefix)]
        self.leftovers = [marker for marker in self.leftovers if marker not in ended]
        return len(ended)

    async def _play(self, spec: LaunchSpec, cancel: CancelSignal, log: int) -> LaunchResult:
        act = self.plays(spec)
        if act.does is not None:
            act.does(spec)
        hole = write_capped(log, act.output, spec.output_cap_bytes)
        end = act.end
        if act.until_cancelled:
            await cancel.wait()
            end = LaunchEnd.CANCELLED
        if end is None:
            end = LaunchEnd.EXITED if act.signal is None else LaunchEnd.SIGNALLED
        return LaunchResult(
            end=end,
            exit_code=act.exit_code if end is LaunchEnd.EXITED else None,
            signal=act.signal if end is LaunchEnd.SIGNALLED else None,
            output_bytes=len(act.output),
            hole=hole,
            survivors=act.survivors,
            isolation=self.isolation,
            detail=act.detail,
        )

    def _failure(self, detail: str) -> LaunchResult:
        return LaunchResult(end=LaunchEnd.SANDBOX_FAILURE, isolation=self.isolation, detail=detail)


def write_capped(log: int, output: bytes, cap: int) -> tuple[int, int] | None:
    """Write head and tail of an output at their true offsets; return the hole between them."""
    if len(output) <= cap:
        os.pwrite(log, output, 0)
        return None
    head, tail = cap // 2, cap - cap // 2
    os.pwrite(log, output[:head], 0)
    os.pwrite(log, output[-tail:], len(output) - tail)
    return head, len(output) - cap
