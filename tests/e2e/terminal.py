"""A terminal with a program on it: keys go in, the screen's text comes out, Ctrl-C interrupts.

Owns the pseudo-terminal and the wait for text. It knows nothing of Fusion.
"""

import contextlib
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.waiting import DEADLINE_S, wait_until

CTRL_C = b"\x03"

# The program must own the terminal, or Ctrl-C reaches nobody. A program of its own does that without a fork
# in this process, which has threads.
_OWNER = (
    "import fcntl, os, sys, termios;"
    "os.setsid();"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


class Terminal:
    """A running program and what it has written so far. Use it with `with`."""

    def __init__(self, command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        self._keys, screen = os.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _OWNER, *command],
            cwd=cwd,
            env=dict(env),
            stdin=screen,
            stdout=screen,
            stderr=screen,
        )
        os.close(screen)
        self.text = ""
        self._taken = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        os.close(self._keys)

    def press(self, keys: bytes) -> None:
        """Type."""
        os.write(self._keys, keys)

    def expect(self, text: str) -> None:
        """Wait until the program writes a text that was not expected before."""

        def seen() -> bool:
            self._read()
            return text in self.text[self._taken :]

        wait_until(seen, f"{text!r} on the terminal, which shows\n{self.text}")
        self._taken = self.text.index(text, self._taken) + len(text)

    def exit_code(self) -> int:
        """Wait for the end of the program and return its exit code."""

        def ended() -> bool:
            self._read()
            return self._process.poll() is not None

        wait_until(ended, "end of the program on the terminal", DEADLINE_S)
        return self._process.returncode

    def _read(self) -> None:
        while select.select([self._keys], [], [], 0)[0]:
            try:
                data = os.read(self._keys, 65536)
            except OSError:
                # What a pseudo-terminal says when nobody has its other side open any more.
                return
            if not data:
                return
            self.text += data.decode(errors="replace")
