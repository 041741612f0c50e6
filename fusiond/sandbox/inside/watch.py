"""Watches one command from its start until nothing of it is alive, and writes the report.

Owns deadlines, cancelling and the order of the end: main process first, then its survivors, then what
is left in the pipe. Waits for the process, never for the pipe's end, which a survivor can hold open.
"""

import os
import select
import time

from fusiond.sandbox.inside import command, kernel, order
from fusiond.sandbox.inside.capture import Capture, Punch, open_pipe
from fusiond.sandbox.inside.family import Family

_KILL_ROUND_S = 0.1


class Watch:
    """One command under watch.

    Args:
        task: what was ordered.
        family: this process's descendants.
        guard: a pipe whose end means that the warden is dead; None without one.
        punch: gives blocks of the log back; see `kernel.punch_hole`.
    """

    def __init__(
        self, task: order.Order, family: Family, guard: int | None, punch: Punch = kernel.punch_hole
    ) -> None:
        self._task = task
        self._family = family
        self._guard = guard
        self._started = time.monotonic()
        self._deadline = self._started + task.timeout_us / 1e6
        self._end = order.EXITED
        self._main = 0
        self._abandoned = ""
        self._poll = select.poll()
        read_end, self._write_end = open_pipe()
        self._capture = Capture(read_end, task.log, task.cap_bytes, punch)

    def run(self) -> order.Report:
        """Start the command, stay to its end and report."""
        try:
            os.chdir(self._task.cwd)
            self._main = command.start(self._task.argv, self._task.env, self._write_end)
        except command.CommandRefusedError as refusal:
            os.write(self._write_end, str(refusal).encode())
            return self._finish(refusal.exit_code << 8)
        except OSError as error:
            return order.Report(end=order.SANDBOX_FAILURE, trouble=f"cannot start the command: {error}")
        os.close(self._write_end)
        self._register()
        while self._main not in self._family.ended:
            self._wait()
            self._family.reap()
        return self._finish(self._family.ended[self._main])

    def _register(self) -> None:
        self._poll.register(self._capture.pipe, select.POLLIN)
        self._poll.register(self._task.control, select.POLLIN)
        self._poll.register(self._family.bell.descriptor, select.POLLIN)
        if self._guard is not None:
            self._poll.register(self._guard, 0)

    def _wait(self) -> None:
        """Wait for output, a child, the daemon or the deadline, and answer whichever came."""
        left_ms = max(0.0, (self._deadline - time.monotonic()) * 1000)
        for descriptor, _event in self._poll.poll(min(left_ms + 1, 60_000)):
            if descriptor == self._capture.pipe:
                self._take_output()
            elif descriptor == self._family.bell.descriptor:
                self._family.bell.silence()
            else:
                self._hear(descriptor)
        if time.monotonic() >= self._deadline:
            self._pass_deadline()

    def _take_output(self) -> None:
        if not self._capture.pump():
            self._poll.unregister(self._capture.pipe)
        if self._capture.trouble:
            self._begin_end(order.SANDBOX_FAILURE)
        elif self._capture.over_limit:
            self._begin_end(order.OUTPUT_LIMIT)

    def _hear(self, descriptor: int) -> None:
        """Take a word from the daemon, or notice that daemon or warden is gone: then kill at once."""
        if descriptor == self._task.control and os.read(descriptor, 64):
            self._begin_end(order.CANCELLED)
            return
        self._poll.unregister(descriptor)
        above = "daemon" if descriptor == self._task.control else "warden"
        self._abandoned = self._abandoned or f"the {above} is gone or has given up"
        self._end = order.SANDBOX_FAILURE
        self._pass_deadline()

    def _begin_end(self, end: str) -> None:
        """Ask everything to end and leave it the grace; the first reason stands."""
        if self._end != order.EXITED:
            return
        self._end = end
        self._family.signal(kernel.SIGTERM)
        self._deadline = time.monotonic() + self._task.grace_us / 1e6

    def _pass_deadline(self) -> None:
        if self._end == order.EXITED:
            self._begin_end(order.TIMED_OUT)
        else:
            self._family.kill()
            self._deadline = time.monotonic() + _KILL_ROUND_S

    def _finish(self, status: int) -> order.Report:
        survivors, all_gone = self._family.end()
        self._capture.drain()
        report = order.Report(end=self._end, status=status, trouble=self._abandoned or self._capture.trouble)
        if not all_gone:
            report.end, report.trouble = order.SANDBOX_FAILURE, "a process could not be ended"
        elif self._capture.trouble:
            report.end = order.SANDBOX_FAILURE
        report.output_bytes = self._capture.total
        report.hole = self._capture.hole
        report.survivors = survivors
        report.duration_us = int((time.monotonic() - self._started) * 1e6)
        return report
