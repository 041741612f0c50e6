"""Where a workspace is, and where its daemon is met.

Owns the search for `.fusion/`, the workspace's id, the runtime directory's
path and the hint that a running daemon leaves in its lock file. Starts
nothing. Light enough for the blocking client: hashing is loaded only when a
daemon is not where the hint says.
"""

import os
import stat
from collections.abc import Mapping

from fusiond.client.private_dirs import PrivateDirectory, open_private
from fusiond.domain.errors import InvalidError, NotFoundError, RefusedError

MARKER = ".fusion"
LOCK_FILE = "daemon.lock"
CONTROL_SOCKET = "control.sock"

_HINT_BYTES = 8_192
_ID_DIGITS = 12


class Workspace:
    """A directory that holds `.fusion/`; `root` is its real path, `marker` that of `.fusion`."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.marker = f"{root.rstrip('/')}/{MARKER}"

    @property
    def id(self) -> str:
        """The first 12 hex digits of SHA-256 of the real path."""
        import hashlib

        return hashlib.sha256(os.fsencode(self.root)).hexdigest()[:_ID_DIGITS]


def find_workspace(start: str) -> Workspace:
    """Return the workspace that `start` is in: the nearest directory upwards with `.fusion/`.

    Raises:
        NotFoundError: there is none up to the root.
        RefusedError: it belongs to somebody else, whose settings would then be ours.
    """
    place = os.path.realpath(start)
    while True:
        try:
            facts = os.lstat(f"{place.rstrip('/')}/{MARKER}")
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            facts = None
        if facts is not None and stat.S_ISDIR(facts.st_mode):
            check_owner(place, facts.st_uid)
            return Workspace(place)
        if place == "/":
            raise NotFoundError(
                f"no workspace at or above {start}",
                expected="a directory with .fusion/",
                cure="run `fusion init` in your repository",
            )
        place = place.rpartition("/")[0] or "/"


def check_owner(place: str, owner: int) -> None:
    """Refuse a workspace whose `.fusion` belongs to another user than this process. RefusedError."""
    if owner != os.geteuid():
        raise RefusedError(
            f"{place}/{MARKER} belongs to user {owner}",
            expected="a workspace of your own",
            cure="run fusion as that user, or `fusion init` in a clone of your own",
        )


def runtime_base(environ: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return the directory that must exist, and the names of ours below it.

    `$XDG_RUNTIME_DIR/fusion`, else `$XDG_STATE_HOME/fusion/run`, else
    `~/.local/state/fusion/run`; never a directory shared with others.

    Raises:
        InvalidError: a variable is not an absolute path, or there is no home.
    """
    for variable, names in (("XDG_RUNTIME_DIR", ("fusion",)), ("XDG_STATE_HOME", ("fusion", "run"))):
        base = environ.get(variable)
        if base:
            return _absolute(variable, base), names
    return _absolute("HOME", environ.get("HOME", "")), (".local", "state", "fusion", "run")


def _absolute(variable: str, path: str) -> str:
    if not path.startswith("/") or "\n" in path:
        raise InvalidError(f"{variable} is {path!r}", expected="an absolute path", cure=f"set {variable}")
    return path.rstrip("/") or "/"


def runtime_path(workspace: Workspace, environ: Mapping[str, str]) -> str:
    """Return the path of the workspace's runtime directory; it need not exist."""
    base, names = runtime_base(environ)
    return "/".join((base, *names, workspace.id))


def meeting_place(workspace: Workspace, environ: Mapping[str, str]) -> PrivateDirectory | None:
    """Return the directory in which a daemon may be listening, None when there is none.

    The running daemon's hint comes first: it may have been started with another
    environment. A hint is only a path to try, whoever wrote it: a directory that is
    not ours and closed to others is passed over.

    Raises:
        RefusedError: the directory that this environment means is not as it must be.
    """
    hinted = runtime_hint(workspace)
    if hinted is not None:
        try:
            return open_private(hinted)
        except (NotFoundError, RefusedError):
            pass
    try:
        return open_private(runtime_path(workspace, environ))
    except NotFoundError:
        return None


def runtime_hint(workspace: Workspace) -> str | None:
    """Return the runtime directory that the newest daemon wrote into its lock file, if it did."""
    return read_hint(workspace).get("runtime")


def read_hint(workspace: Workspace) -> dict[str, str]:
    """Return the facts in the lock file: `pid`, `runtime`. They are hints, whoever wrote them."""
    try:
        descriptor = os.open(f"{workspace.marker}/{LOCK_FILE}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return {}
    try:
        lines = os.read(descriptor, _HINT_BYTES).decode(errors="surrogateescape").split("\n")
    finally:
        os.close(descriptor)
    facts = (line.partition(" ") for line in lines)
    return {name: value for name, _, value in facts if value}


def hint_text(pid: int, runtime: str) -> str:
    """Return what a daemon writes into its lock file."""
    return f"pid {pid}\nruntime {runtime}\n"
