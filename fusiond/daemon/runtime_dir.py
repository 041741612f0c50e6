"""The runtime directory and the control socket in it.

Owns their making and their end: a private directory, a socket bound in it, a
stale one removed. The rule for private directories is `client.private_dirs`,
the paths are `client.discovery`.
"""

import os
import socket
import stat
from collections.abc import Mapping
from pathlib import Path

from fusiond.client.discovery import CONTROL_SOCKET, Workspace, runtime_base
from fusiond.client.private_dirs import PrivateDirectory, make_private
from fusiond.domain.errors import RefusedError, StorageError, TryAgainError

BACKLOG = 128
PROBE_S = 2.0


def make_runtime_directory(workspace: Workspace, environ: Mapping[str, str]) -> PrivateDirectory:
    """Make and judge the workspace's runtime directory.

    Raises:
        RefusedError, StorageError, InvalidError, NotFoundError: what is wrong, and the cure.
    """
    base, names = runtime_base(environ)
    if len(names) > 1:
        # Below the state directory: `fusion` holds other things too, so only its `run` is closed
        # to others, and what leads there is made with the user's own modes.
        place = Path(base, *names[:-1])
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot make {place}: {error.strerror}") from error
        base, names = str(place), names[-1:]
    return make_private(base, (*names, workspace.id))


def bind_control_socket(directory: PrivateDirectory, *, listen: bool = True) -> socket.socket:
    """Return the listening control socket. To be called only by the holder of the workspace's lock.

    Args:
        directory: the runtime directory.
        listen: False leaves it bound only.

    Raises:
        TryAgainError: another process answers there.
        RefusedError: something that is no socket of ours has its name.
        InvalidError: the path is too long to be an address.
        StorageError: it cannot be bound.
    """
    address = directory.socket_address(CONTROL_SOCKET)
    _remove_stale(directory, address)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The directory keeps others out; the mode says so once more.
    before = os.umask(0o177)
    try:
        bound.bind(address)
        if listen:
            bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise StorageError(f"cannot bind {directory.path}/{CONTROL_SOCKET}: {error.strerror}") from error
    finally:
        os.umask(before)
    bound.setblocking(False)
    return bound


def _remove_stale(directory: PrivateDirectory, address: str) -> None:
    name = f"{directory.path}/{CONTROL_SOCKET}"
    try:
        facts = os.stat(CONTROL_SOCKET, dir_fd=directory.descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(facts.st_mode) or facts.st_uid != os.geteuid():
        raise RefusedError(f"{name} is no socket of yours", expected="a socket", cure="remove it")
    if _answers(address):
        raise TryAgainError(
            f"another process answers on {name}, though this daemon holds the workspace's lock",
            expected="a socket that nobody listens on",
            cure="find it with `fuser` and end it; was .fusion removed under a running daemon?",
        )
    os.unlink(CONTROL_SOCKET, dir_fd=directory.descriptor)


def _answers(address: str) -> bool:
    """Say whether anybody listens. Only a refused connection means that nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_S)
        try:
            probe.connect(address)
        except ConnectionRefusedError:
            return False
        except OSError:
            # A full backlog or a listener without time: somebody is there.
            return True
    return True


def remove_control_socket(directory: PrivateDirectory) -> None:
    """Remove the socket's name at the end, so that clients need not try it."""
    try:
        os.unlink(CONTROL_SOCKET, dir_fd=directory.descriptor)
    except FileNotFoundError:
        return
