"""Starting the daemon of a workspace, exactly once however many clients ask.

Owns the start lock, the daemon's command line and the wait for its answer.
The daemon detaches by itself (`fusiond --detach`) and its parent process says
how that went: exit code 0 when it takes connections, else one sentence.
"""

import fcntl
import os
import sys
from collections.abc import Mapping, Sequence

from fusiond.client.blocking import Connection, connect
from fusiond.client.discovery import Workspace
from fusiond.domain.errors import StorageError, TryAgainError, UnreachableError

START_LOCK = "start.lock"
START_S = 30.0

_SENTENCE_CHARS = 4_000

# -P: a module of the directory the user stands in must not be taken for one of ours.
DAEMON_COMMAND: Sequence[str] = (sys.executable, "-P", "-m", "fusiond.daemon.main")


def connect_or_start(
    workspace: Workspace,
    environ: Mapping[str, str],
    *,
    product: str,
    client: str = "cli",
    command: Sequence[str] = DAEMON_COMMAND,
) -> Connection:
    """Connect to the workspace's daemon, starting it when none is running.

    Raises:
        UnreachableError: it could not be started; the text is the daemon's own.
        TryAgainError: it was not ready in time.
    """
    try:
        return connect(workspace, environ, product=product, client=client)
    except UnreachableError:
        start_daemon(workspace, environ, product=product, command=command)
    return connect(workspace, environ, product=product, client=client)


def start_daemon(
    workspace: Workspace,
    environ: Mapping[str, str],
    *,
    product: str,
    command: Sequence[str] = DAEMON_COMMAND,
) -> bool:
    """Start the daemon unless it is running; return whether this call started it.

    Everybody who asks at the same time waits for the one who starts.

    Raises:
        UnreachableError, TryAgainError: as for `connect_or_start`.
        StorageError: the lock file cannot be made.
    """
    lock = _open_lock(workspace)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _answers(workspace, environ, product):
            return False
        _run_starter([*command, "--detach", "--workspace", workspace.root], environ)
        return True
    finally:
        os.close(lock)


def _open_lock(workspace: Workspace) -> int:
    path = f"{workspace.marker}/{START_LOCK}"
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except OSError as error:
        raise StorageError(f"cannot open {path}: {error.strerror}") from error


def _answers(workspace: Workspace, environ: Mapping[str, str], product: str) -> bool:
    try:
        connect(workspace, environ, product=product, client="starter").close()
    except UnreachableError:
        return False
    return True


def _run_starter(command: Sequence[str], environ: Mapping[str, str]) -> None:
    # Loaded here: only a client that starts a daemon needs it.
    import subprocess

    try:
        done = subprocess.run(
            command,
            check=False,
            cwd="/",
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            timeout=START_S,
        )
    except subprocess.TimeoutExpired as error:
        raise TryAgainError(
            f"the daemon was not ready within {START_S:g} s", cure="look into .fusion/daemon.log"
        ) from error
    except OSError as error:
        raise UnreachableError(f"the daemon cannot be started: {error}") from error
    if done.returncode != os.EX_OK:
        said = done.stderr.decode(errors="replace").strip()[-_SENTENCE_CHARS:]
        raise UnreachableError(
            f"the daemon did not start: {said or f'exit code {done.returncode}, nothing was said'}",
            fields={"exit_code": str(done.returncode)},
        )
