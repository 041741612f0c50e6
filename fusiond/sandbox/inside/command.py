"""Starts the command: where it is found, what it inherits, and what a shell would say if it cannot.

Owns the search and the start. Knows nothing of walls, deadlines or output.
"""

# pathlib would double the launcher's start.

import errno
import os

from fusiond.sandbox.inside import kernel

NOT_EXECUTABLE = 126
NOT_FOUND = 127
_DEFAULT_PATH = b"/usr/local/bin:/usr/bin:/bin"
_SHELL = b"/bin/sh"


class CommandRefusedError(Exception):
    """The command cannot be started; the text is one line for the log.

    Args:
        exit_code: 126 or 127, as POSIX has a shell say it (XCU 2.8.2).
        text: the line.
    """

    def __init__(self, exit_code: int, text: str) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def start(argv: list[bytes], env: dict[bytes, bytes], output: int) -> int:
    """Start `argv` in a session of its own, silent on input, both outputs into one pipe.

    Args:
        argv: the program, searched in the PATH of `env` unless it names a path, and its arguments.
        env: the whole environment.
        output: write end of the pipe.

    Returns:
        The process id.

    Raises:
        CommandRefusedError: not found or not executable.
        OSError: the system cannot start processes at all.
    """
    refusal = errno.ENOENT
    for path in candidates(argv[0], env.get(b"PATH", _DEFAULT_PATH)):
        try:
            return _spawn(path, argv, env, output)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.ENOMEM):
                raise
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                refusal = error.errno or errno.EACCES
    code = NOT_FOUND if refusal == errno.ENOENT else NOT_EXECUTABLE
    name = ascii(argv[0].decode("utf-8", "replace"))
    raise CommandRefusedError(code, f"fusion: cannot run {name}: {os.strerror(refusal)}\n")


def candidates(program: bytes, search: bytes) -> list[bytes]:
    """Return the paths to try, in order.

    An empty entry of the search path, which old shells take for the working directory, is skipped: the
    working directory is the agent's.
    """
    if not program:
        return []
    if b"/" in program:
        return [program]
    return [entry + b"/" + program for entry in search.split(b":") if entry.startswith(b"/")]


def _spawn(path: bytes, argv: list[bytes], env: dict[bytes, bytes], output: int) -> int:
    try:
        return _exec(path, argv, env, output)
    except OSError as error:
        if error.errno != errno.ENOEXEC or not _is_text(path):
            raise
    return _exec(_SHELL, [_SHELL, path, *argv[1:]], env, output)


def _exec(path: bytes, argv: list[bytes], env: dict[bytes, bytes], output: int) -> int:
    return os.posix_spawn(
        path,
        argv,
        env,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, b"/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_DUP2, output, 2),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=kernel.EVERY_SIGNAL,
    )


def _is_text(path: bytes) -> bool:
    """Say whether a file without an interpreter line is a shell script, the way shells guess it."""
    try:
        with open(path, "rb", buffering=0) as file:
            return b"\0" not in file.read(128).split(b"\n", 1)[0]
    except OSError:
        return False
