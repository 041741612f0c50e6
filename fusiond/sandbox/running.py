"""The daemon's end of one launcher process: its start, its end, its forced end.

Owns the wait for the process, for its namespace and for its report. Judges nothing.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from fusiond.sandbox.inside import order
from fusiond.sandbox.plumbing import Channels, Plumbing, read_waiting

_BLOCK_BYTES = 4 << 10
_ERROR_BYTES = 8 << 10


class Running:
    """One launcher process, started by making it. `close` it in the end.

    `gone` resolves when the process has ended, every process of its namespace, and whoever could
    still write the report: without a namespace that is the launcher proper, should its warden die
    first.

    Args:
        argv: what to start.
        marker: FUSION_ATTEMPT of the process itself.
        plumbing: its descriptors; closed here, at once or by `close`.
        channels: what they are for.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, argv: Sequence[str], marker: str, plumbing: Plumbing, channels: Channels) -> None:
        self._loop = asyncio.get_running_loop()
        self._plumbing = plumbing
        self._channels = channels
        self._told = b""
        self._reported = b""
        self._namespace: int | None = None
        self._awaited: set[int] = set()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=channels.errors.write,
            pass_fds=plumbing.theirs,
            env={"FUSION_ATTEMPT": marker},
            cwd="/",
            start_new_session=True,
        )
        self._exit = os.pidfd_open(self._process.pid)
        plumbing.ours.append(self._exit)
        plumbing.close_theirs()
        self._listen()

    def ask_to_end(self) -> None:
        """Ask the launcher to cancel the command; one that is no more need not hear it."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._channels.control.write, order.CANCEL)

    def abandon(self) -> None:
        """Close the control pipe: the launcher kills everything at once."""
        self._plumbing.close_ours(self._channels.control.write)

    def kill(self) -> None:
        """Kill the namespace, where there is one, and the launcher's own session."""
        if self._namespace is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._namespace, signal.SIGKILL)
        if self._process.returncode is None:  # not yet waited for, so the number is still its own
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def report(self) -> order.Report | None:
        """Return the launcher's report, None when it wrote none; to be asked when it is gone."""
        try:
            return order.unpack_report(self._reported)
        except (KeyError, ValueError):
            return None

    def complaint(self) -> str:
        """Return the last line that launcher or bubblewrap complained with, "" for none."""
        text = read_waiting(self._channels.errors.read, _ERROR_BYTES).decode("utf-8", "replace")
        return next((line.strip() for line in reversed(text.split("\n")) if line.strip()), "")

    def close(self) -> None:
        """Close every descriptor; a process that could not be ended is left to the system."""
        if self._channels.info is not None:
            self._loop.remove_reader(self._channels.info.read)
        for descriptor in self._awaited:
            self._loop.remove_reader(descriptor)
        self._process.poll()
        self._plumbing.close()

    def _listen(self) -> None:
        self._await(self._exit)
        self._awaited.add(self._channels.report.read)
        self._loop.add_reader(self._channels.report.read, self._on_report)
        if self._channels.info is not None:
            self._loop.add_reader(self._channels.info.read, self._on_info)

    def _await(self, process: int) -> None:
        """Count a process, by its descriptor, among what must end."""
        self._awaited.add(process)
        self._loop.add_reader(process, self._on_end, process)

    def _on_end(self, descriptor: int) -> None:
        """Strike off what has ended. The kernel ends a namespace's first process after all others."""
        self._loop.remove_reader(descriptor)
        if descriptor == self._exit:
            self._process.wait()
        self._awaited.discard(descriptor)
        if not self._awaited:
            self.gone.set_result(None)

    def _on_report(self) -> None:
        block = os.read(self._channels.report.read, _BLOCK_BYTES)
        self._reported += block
        if not block:
            self._on_end(self._channels.report.read)

    def _on_info(self) -> None:
        """Take hold of the namespace's first process, then let the launch begin.

        Nothing of the launch runs before, so its end can be forced and awaited whatever becomes of
        bubblewrap and the launcher.
        """
        assert self._channels.info is not None
        assert self._channels.gate is not None
        block = os.read(self._channels.info.read, _BLOCK_BYTES)
        self._told += block
        if block and b"}" not in block:
            return
        self._loop.remove_reader(self._channels.info.read)
        if self._hold_namespace():
            with contextlib.suppress(BrokenPipeError):
                os.write(self._channels.gate.write, b"\n")

    def _hold_namespace(self) -> bool:
        """Open the namespace's first process; False when bubblewrap has failed before."""
        try:
            pid = int(json.loads(self._told)["child-pid"])
            descriptor = os.pidfd_open(pid)
        except (ValueError, KeyError, ProcessLookupError):
            return False
        self._plumbing.ours.append(descriptor)
        if _parent_of(pid) != self._process.pid:
            return False
        self._namespace = descriptor
        self._await(descriptor)
        return True


def _parent_of(pid: int) -> int | None:
    """Return a process's parent, None when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return next(int(line[5:]) for line in status.split(b"\n") if line.startswith(b"PPid:"))
