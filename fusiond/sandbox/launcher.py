"""The one launcher of Fusion: the port's adapter over a launcher process, with or without walls.

Owns the course of a launch: check, start, stay, force the end, say what happened. The walls are
`bubblewrap`'s, the work inside them is `inside`'s. The daemon moves no output: it only waits.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from fusiond.domain.errors import InvalidError, IsolationError, UnsupportedError
from fusiond.domain.launch import STORAGE_DETAIL, Isolation, LaunchEnd, LaunchResult, LaunchSpec
from fusiond.ports.launcher import CancelSignal
from fusiond.sandbox.bubblewrap import survey_host
from fusiond.sandbox.host import LauncherHost, Walls
from fusiond.sandbox.inside import order
from fusiond.sandbox.leftovers import end_marked
from fusiond.sandbox.mount_rules import mount_problem
from fusiond.sandbox.running import Running
from fusiond.sandbox.starting import Setting, start
from fusiond.sandbox.toolchain_facts import ToolchainFinder
from fusiond.sandbox.toolchains import Toolchains

_PATIENCE_S = 15.0
_ABANDONED_S = 3.0
_KILLED_S = 10.0

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class SandboxLauncher:
    """Launches processes; the adapter of `ports.launcher.Launcher`.

    Args:
        host: this host.
        walls: bubblewrap as a probe found it to work, or None to go without.
        patience_s: how much longer than the launcher's own deadline the daemon waits before it takes
            the launcher for stuck: an interpreter's start and the last of the output.

    Raises:
        UnsupportedError: this is not Linux.
    """

    def __init__(self, host: LauncherHost, walls: Walls | None, *, patience_s: float = _PATIENCE_S) -> None:
        if sys.platform != "linux":
            raise UnsupportedError(
                f"processes cannot be launched on {sys.platform}", expected="Linux", cure="use Linux or WSL2"
            )
        self._host = host
        self._walls = walls
        self._patience_s = patience_s
        self._tree = survey_host()
        self._finder = ToolchainFinder(host.home, host.guarded)

    @property
    def walls(self) -> Walls | None:
        """How bubblewrap is used, None when it is not."""
        return self._walls

    @property
    def isolation(self) -> Isolation:
        """Which walls this launcher puts up."""
        return Isolation.SUBREAPER if self._walls is None else Isolation.BUBBLEWRAP

    def toolchains(self, env: Mapping[str, str]) -> Toolchains:
        """Return what an environment's search path shows inside, and which variables it then needs."""
        return self._finder.find(env)

    def inside(self, host_path: str, target: str) -> str:
        """Return the path by which a mounted host path is seen."""
        return host_path if self._walls is None else target

    async def end_leftovers(self, marker_prefix: str) -> int:
        """Kill processes of an earlier daemon whose FUSION_ATTEMPT starts so; return how many.

        Raises:
            InvalidError: the prefix is empty, which would mean everybody's.
        """
        if not marker_prefix:
            raise InvalidError("the marker prefix is empty", expected="how a workspace's markers start")
        return await asyncio.to_thread(end_marked, lambda marker: marker.startswith(marker_prefix))

    async def launch(self, spec: LaunchSpec, cancel: CancelSignal) -> LaunchResult:
        """Run `spec` to its end; see the port.

        Raises:
            IsolationError: called outside the main thread. The parent-death signal fires when the
                starting thread ends, so a worker thread's end would kill the launch.
        """
        if threading.current_thread() is not threading.main_thread():
            raise IsolationError("a launch was asked for in a worker thread", expected="the main thread")
        if fault := self._fault(spec):
            return self._failure(fault)
        try:
            log = os.open(spec.log_path, _NEW_FILE, 0o600)
        except OSError as error:
            return self._failure(f"{STORAGE_DETAIL} the output log cannot be created: {error}")
        if cancel.is_set():
            os.close(log)
            return LaunchResult(end=LaunchEnd.CANCELLED, isolation=self.isolation)
        try:
            running = start(self._setting(spec), spec, log)
        except (OSError, ValueError) as error:
            return self._failure(f"the launcher cannot be started: {error}")
        try:
            forced = await self._stay(running, spec, cancel)
            return self._result(running, spec, forced)
        finally:
            running.close()

    def _fault(self, spec: LaunchSpec) -> str | None:
        """Return why a spec cannot be launched as it is, None when it can be tried."""
        if not spec.argv:
            return "the command is empty"
        if not spec.marker:
            return "the marker is empty"
        if any(not name or "=" in name for name, _value in spec.env):
            return "a variable's name is empty or holds an equals sign"
        return None if self._walls is None else mount_problem(spec.mounts, self._host.guarded)

    def _setting(self, spec: LaunchSpec) -> Setting:
        found = self._finder.find(dict(spec.env))
        return Setting(host=self._host, walls=self._walls, tree=self._tree, toolchains=found)

    async def _stay(self, running: Running, spec: LaunchSpec, cancel: CancelSignal) -> LaunchEnd | None:
        """Wait until nothing of the launch is alive, and see to it when the launcher does not.

        The launcher keeps the deadline; the daemon's own, some seconds later, is for a launcher that
        hangs, was stopped or was killed.

        Returns:
            Why the daemon ended it, None when it ended by itself.
        """
        asked = asyncio.ensure_future(cancel.wait())
        grace = spec.grace_us / 1e6 + self._patience_s
        try:
            await _first(running.gone, asked, within=spec.timeout_us / 1e6 + grace)
            forced = None
            if not running.gone.done():
                forced = LaunchEnd.CANCELLED if asked.done() else LaunchEnd.TIMED_OUT
            if asked.done() and not running.gone.done():
                running.ask_to_end()
                await _first(running.gone, within=grace)
        finally:
            asked.cancel()
            await _uninterrupted(
                asyncio.ensure_future(_end(running, spec.marker, walled=self._walls is not None))
            )
        return forced

    def _result(self, running: Running, spec: LaunchSpec, forced: LaunchEnd | None) -> LaunchResult:
        if not running.gone.done():
            return self._failure("a process could not be ended")
        report = running.report()
        if report is not None:
            result = result_of(report, self.isolation)
        else:
            result = self._failure(running.complaint() or "the launcher was killed")
        failed = result.end is LaunchEnd.SANDBOX_FAILURE and not result.detail.startswith(STORAGE_DETAIL)
        if forced is None or not failed:
            return result
        # A command may stop its launcher; that must not turn an end that we decided into our failure.
        return replace(
            result,
            end=forced,
            output_bytes=max(_size(spec.log_path), result.output_bytes),
            detail="its launcher did not answer and was ended",
        )

    def _failure(self, detail: str) -> LaunchResult:
        return LaunchResult(
            end=LaunchEnd.SANDBOX_FAILURE, isolation=self.isolation, detail=" ".join(detail.split())
        )


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        # Without walls a command can remove its own log.
        return 0


def result_of(report: order.Report, isolation: Isolation) -> LaunchResult:
    """Return the port's result for a launcher's report."""
    end = LaunchEnd(report.end)
    exit_code = number = None
    if end is LaunchEnd.EXITED and report.status is not None:
        if os.WIFSIGNALED(report.status):
            end, number = LaunchEnd.SIGNALLED, os.WTERMSIG(report.status)
        else:
            exit_code = os.WEXITSTATUS(report.status)
    return LaunchResult(
        end=end,
        exit_code=exit_code,
        signal=number,
        output_bytes=report.output_bytes,
        hole=report.hole,
        survivors=report.survivors,
        duration_us=report.duration_us,
        isolation=isolation,
        detail=" ".join(report.trouble.split()),
    )


async def _end(running: Running, marker: str, *, walled: bool) -> None:
    """End a launch that did not end by itself: let the launcher kill, else kill the launcher.

    A report says that its writer left nothing alive, and behind walls nothing outlives the namespace.
    Only when neither can be said are processes looked for by their marker: others of the same attempt
    carry it too.
    """
    if running.gone.done() and running.report() is not None:
        return
    running.abandon()
    await _first(running.gone, within=_ABANDONED_S)
    if not running.gone.done():
        running.kill()
        await _first(running.gone, within=_KILLED_S)
    if not running.gone.done() or (not walled and running.report() is None):
        await asyncio.to_thread(end_marked, lambda found: found == marker)


async def _first(*futures: asyncio.Future[None] | asyncio.Task[Literal[True]], within: float) -> None:
    """Wait for one of several, at most so many seconds; cancels none."""
    await asyncio.wait(futures, timeout=within, return_when=asyncio.FIRST_COMPLETED)


async def _uninterrupted(task: asyncio.Future[None]) -> None:
    """Wait for a task to its end; a cancellation that comes meanwhile is raised afterwards."""
    interrupted = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            interrupted = True
    task.result()
    if interrupted:
        raise asyncio.CancelledError
