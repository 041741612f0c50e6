"""Entry of `fusiond`: arguments, detaching, telling the starter how it went, exit codes.

Owns the process around `daemon.serving`. Only `main` names the bootstrap, and
loads it late: a daemon that lost the race for the workspace needs none of it.
"""

import argparse
import asyncio
import faulthandler
import gc
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from fusiond.client.discovery import Workspace, find_workspace
from fusiond.client.private_dirs import OWN_DESCRIPTORS
from fusiond.daemon.assembly import Assemble, Assembly, DaemonPlace
from fusiond.daemon.config import Settings, load_settings
from fusiond.daemon.lifecycle import WorkspaceLock, harden
from fusiond.daemon.logs import start_logging
from fusiond.daemon.runtime_dir import make_runtime_directory
from fusiond.daemon.serving import serve
from fusiond.domain.display import display_safe
from fusiond.domain.errors import ErrorCode, FusionError, InvalidError, StorageError
from fusiond.domain.version import PRODUCT_VERSION

EXIT_CODES = {
    ErrorCode.INVALID: os.EX_USAGE,
    ErrorCode.NOT_FOUND: os.EX_USAGE,
    ErrorCode.TRY_AGAIN: os.EX_TEMPFAIL,
    ErrorCode.STORAGE: os.EX_TEMPFAIL,
}
"""Every other code is EX_SOFTWARE."""

LOG_FILE = "daemon.log"
STDERR_FILE = "daemon.stderr"
"""Where a detached daemon's own stderr goes: what no log line could say, such as a crash of Python."""

READY = b"ready\n"
_SENTENCE_BYTES = 16 * 1024
_STDERR_BYTES = 256 * 1024
_BOOT_BYTES = 6


def main() -> None:
    """Run `fusiond`; never returns."""
    sys.exit(run(sys.argv[1:], _assemble))


def run(arguments: Sequence[str], assemble_from: Callable[[], Assemble]) -> int:
    """Run the daemon and return the process's exit code.

    Args:
        arguments: the command line without the program's name.
        assemble_from: loads what makes the daemon's parts; called after the lock is held.
    """
    options = _parser().parse_args(arguments)
    try:
        workspace = find_workspace(options.workspace or str(Path.cwd()))
        _check_text(workspace)
        if options.detach:
            return _detached(workspace, assemble_from)
        _live(workspace, assemble_from, lambda: _say(f"fusiond {PRODUCT_VERSION}: ready"), also_stderr=True)
    except FusionError as error:
        _say(f"fusiond: {display_safe(error.sentence())}")
        return EXIT_CODES.get(error.code, os.EX_SOFTWARE)
    return os.EX_OK


def _assemble() -> Assemble:
    from fusiond.daemon.walls import open_walls

    async def assembled(place: DaemonPlace) -> Assembly:
        # The probe waits for processes of its own, so the rest is loaded meanwhile.
        walled = asyncio.create_task(open_walls(place))
        try:
            assemble = await asyncio.to_thread(_load)
            return await assemble(place, walled=walled)
        finally:
            # Its own clean-up comes to its end before the loop does: a probe is a process.
            walled.cancel()
            await asyncio.wait([walled])

    return assembled


def _load() -> "Callable[..., Awaitable[Assembly]]":
    # What is loaded stays to the end: collecting meanwhile finds nothing and takes a tenth of the start.
    gc.disable()
    try:
        from fusiond.daemon.bootstrap import assemble
    finally:
        gc.freeze()
        gc.enable()
    return assemble


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fusiond", description="The daemon of one Fusion workspace.")
    parser.add_argument("--version", action="version", version=f"fusiond {PRODUCT_VERSION}")
    parser.add_argument("--workspace", metavar="DIR", help="in or below the workspace (default: here)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--foreground", action="store_true", help="stay here and log to stderr too (default)")
    how.add_argument("--detach", action="store_true", help="return when the daemon takes connections")
    return parser


def _check_text(workspace: Workspace) -> None:
    try:
        workspace.root.encode()
    except UnicodeEncodeError as error:
        raise InvalidError(
            f"the path {workspace.root!r} is not UTF-8", expected="a workspace whose path is UTF-8"
        ) from error


def _live(
    workspace: Workspace,
    assemble_from: Callable[[], Assemble],
    ready: Callable[[], None],
    *,
    also_stderr: bool,
) -> None:
    """Be the daemon, from lock to end."""
    harden()
    settings = load_settings(workspace.marker, os.environ)
    lock = WorkspaceLock.acquire(workspace)
    try:
        handler = _log_handler(workspace, settings, also_stderr=also_stderr)
        with make_runtime_directory(workspace, os.environ) as directory:
            place = DaemonPlace(
                workspace=workspace,
                runtime=directory.path,
                settings=settings,
                environ=dict(os.environ),
                last_alive_us=lock.last_alive_us,
                boot=os.urandom(_BOOT_BYTES).hex(),
            )
            asyncio.run(serve(place, lock, directory, assemble_from(), ready))
        handler.close()
    finally:
        lock.release()


def _log_handler(workspace: Workspace, settings: Settings, *, also_stderr: bool) -> logging.Handler:
    path = f"{workspace.marker}/{LOG_FILE}"
    try:
        return start_logging(
            path,
            level=settings.log_level.upper(),
            max_bytes=settings.log_max_bytes,
            keep=settings.log_keep,
            also_stderr=also_stderr,
        )
    except OSError as error:
        raise StorageError(f"cannot open {path}: {error.strerror}") from error


def _detached(workspace: Workspace, assemble_from: Callable[[], Assemble]) -> int:
    """Fork; the child becomes the daemon, the parent waits for its word and passes it on."""
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.close(ours)
        return _child(workspace, assemble_from, theirs)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        said = pipe.read(_SENTENCE_BYTES)
    code = _passed_on(workspace, said)
    # Whoever started this waits for its end, and taking an interpreter with all of this loaded
    # apart takes 70 ms. Nothing here needs it: what was said is written.
    os._exit(code)


def _passed_on(workspace: Workspace, said: bytes) -> int:
    """Say what the child said, and return the exit code for it."""
    if said == READY:
        return os.EX_OK
    code, _, sentence = said.decode(errors="replace").partition(" ")
    if not code.isdecimal():
        _say(f"fusiond: the daemon ended without a word; look into {workspace.marker}/{STDERR_FILE}")
        return os.EX_SOFTWARE
    _say(f"fusiond: {sentence}")
    return int(code)


def _child(workspace: Workspace, assemble_from: Callable[[], Assemble], pipe: int) -> int:
    """Be the daemon, cut off from terminal, directory and descriptors of whoever started it."""
    os.setsid()
    os.chdir("/")
    told = False

    def tell(word: bytes) -> None:
        nonlocal told
        if not told:
            told = True
            os.write(pipe, word)
            os.close(pipe)

    try:
        _cut_streams(workspace, pipe)
        _live(workspace, assemble_from, lambda: tell(READY), also_stderr=False)
    except FusionError as error:
        code = EXIT_CODES.get(error.code, os.EX_SOFTWARE)
        _say(f"fusiond: {display_safe(error.sentence())}")
        tell(f"{code} {display_safe(error.sentence())}".encode()[:_SENTENCE_BYTES])
        return code
    except Exception:
        # The boundary of the process: its file and its starter are all that can still be told.
        sys.excepthook(*sys.exc_info())
        tell(f"{os.EX_SOFTWARE} internal error; look into {workspace.marker}/{STDERR_FILE}".encode())
        return os.EX_SOFTWARE
    return os.EX_OK


def _cut_streams(workspace: Workspace, keep: int) -> None:
    path = f"{workspace.marker}/{STDERR_FILE}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        written = os.open(path, flags, 0o600)
    except OSError as error:
        raise StorageError(f"cannot open {path}: {error.strerror}") from error
    if os.fstat(written).st_size > _STDERR_BYTES:
        os.ftruncate(written, 0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(written, 1)
    os.dup2(written, 2)
    # A descriptor of the starter that stays open here could hold a lock or a pipe of somebody else's.
    for descriptor in sorted(int(each.name) for each in Path(OWN_DESCRIPTORS).iterdir()):
        if descriptor > 2 and descriptor != keep:
            # Of these, the listing's own is closed already; a range of one says nothing of that.
            os.closerange(descriptor, descriptor + 1)
    faulthandler.enable()


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
