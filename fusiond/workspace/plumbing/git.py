"""The one way in which the daemon runs git.

Owns the argument vector's head, the environment, exit codes, timeouts and the end
of cancelled processes. Nothing is discovered and nothing inherited: a call names
its repository, index, work tree and object stores in a `Place`, and no file that
an agent or a cloned repository brought is read as configuration. Which commands
are run is for the other modules of this package.
"""

import asyncio
import os
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import field

from fusiond.domain.display import display_safe
from fusiond.domain.errors import FusionError, StorageError, UnsupportedError
from fusiond.domain.records import dataclass

OLDEST = (2, 38)
"""The first git with `merge-tree --write-tree` (`engine.md`, Decided details: merges)."""

NO_REPOSITORY = "/dev/null"
"""A git directory for calls that need none, so that git does not look for one."""

QUICK_S = 120.0
"""Limit for calls whose work is bounded by an index or a few objects, in seconds."""

LONG_S = 3600.0
"""Limit for calls that read a whole history or write a whole checkout, in seconds."""

_ENVIRONMENT = {
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    # `protocol.allow=never` yields to a repository's own `protocol.<name>.allow`; this does not.
    "GIT_ALLOW_PROTOCOL": "",
    "HOME": "/nonexistent",
    "LC_ALL": "C",
}
_OPTIONS = (
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.untrackedCache=false",
    "-c",
    # A shared half of an index would be written where only this call looks for it.
    "core.splitIndex=false",
    "-c",
    "protocol.allow=never",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    # What a step of the ledger names is on disk before the step (`engine.md`, Ledger).
    "-c",
    "core.fsync=committed,reference",
    "-c",
    "core.fsyncMethod=batch",
)
_VERSION = re.compile(rb"git version (\d+)\.(\d+)")
_DISK_TROUBLE = (
    b"No space left on device",
    b"Disk quota exceeded",
    b"Read-only file system",
    b"Input/output error",
    b"Permission denied",
    b"Operation not permitted",
    b"insufficient permission",
)
_STREAM_BYTES = 1 << 20


class GitError(FusionError):
    """A git command that failed for a reason nobody named beforehand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What one call of git sees; every path is absolute.

    Args:
        git_dir: refs, HEAD, configuration, `info/`.
        work_tree: the checkout, for commands that need one.
        index: the index file, where it is not the git directory's own.
        objects: where objects are written, where that is not `git_dir/objects`.
        alternates: object directories that are only read.
    """

    git_dir: str
    work_tree: str | None = None
    index: str | None = None
    objects: str | None = None
    alternates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Author and committer of a commit; `at_s` counts seconds since 1970, written in UTC."""

    name: str
    email: str
    at_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a call ended: exit code and both outputs."""

    code: int
    out: bytes
    err: bytes


NOWHERE = Place(git_dir=NO_REPOSITORY)


@dataclass(slots=True)
class Git:
    """Runs one program called git.

    Args:
        program: name or path of the program.
        search_path: value of PATH for it; the daemon's own where None.
    """

    program: str = "git"
    search_path: str | None = None
    _checked: bool = field(default=False, init=False)

    async def run(
        self,
        place: Place,
        *args: str | bytes,
        stdin: bytes = b"",
        stdin_fd: int | None = None,
        stdout_fd: int | None = None,
        ok: Sequence[int] = (0,),
        timeout_s: float = QUICK_S,
        sign: Signature | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> Ended:
        """Run `git <args>` in `place` to its end.

        Args:
            place: what it sees.
            args: the command and its arguments.
            stdin: what it reads, unless `stdin_fd` is given.
            stdin_fd: an open file to read instead.
            stdout_fd: an open file to write to; `Ended.out` is empty then.
            ok: exit codes that are answers.
            timeout_s: after how many seconds it is killed.
            sign: identity and date of commits and reflog entries.
            extra: variables beside the fixed ones.

        Raises:
            UnsupportedError: git is missing or older than 2.38.
            StorageError: the disk refused.
            GitError: any other exit code, or the timeout.
        """
        await self.check()
        process = await self.start(
            place, *args, stdin_fd=stdin_fd, stdout_fd=stdout_fd, sign=sign, extra=extra
        )
        try:
            async with asyncio.timeout(timeout_s):
                out, err = await process.communicate(None if stdin_fd is not None else stdin)
        except TimeoutError:
            await end(process)
            raise GitError(
                f"git {_verb(args)} did not end within {timeout_s:g} s",
                cure="look for a FIFO or a stalled file system below the repository",
            ) from None
        except BaseException:
            await end(process)
            raise
        assert process.returncode is not None
        ended = Ended(code=process.returncode, out=out or b"", err=err)
        if ended.code not in ok:
            raise failure(args, ended)
        return ended

    async def start(
        self,
        place: Place,
        *args: str | bytes,
        stdin_fd: int | None = None,
        stdout_fd: int | None = None,
        sign: Signature | None = None,
        extra: Mapping[str, str] | None = None,
        mute: bool = False,
    ) -> asyncio.subprocess.Process:
        """Start `git <args>` for a dialogue through pipes; the caller ends it with `end`.

        With `mute` its complaints go nowhere: nobody reads them during a long dialogue,
        and a full pipe would stop it.
        """
        pipe = asyncio.subprocess.PIPE
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                self.program,
                *_OPTIONS,
                *args,
                stdin=pipe if stdin_fd is None else stdin_fd,
                stdout=pipe if stdout_fd is None else stdout_fd,
                stderr=asyncio.subprocess.DEVNULL if mute else pipe,
                env=self._environment(place, sign, extra or {}),
                cwd=place.work_tree or "/",
                # A group of its own, so that git's own children end with it.
                start_new_session=True,
                limit=_STREAM_BYTES,
            )
        )
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # asyncio itself would kill the one process, leave its children, and wait for their pipes.
            await end(await starting)
            raise
        except FileNotFoundError as error:
            if place.work_tree is not None and not os.path.isdir(place.work_tree):
                raise GitError(f"the directory {display_safe(place.work_tree)} is gone") from error
            raise _unusable(f"git is not there ({display_safe(str(error))})") from error

    async def check(self) -> None:
        """Check once that git can be run and is not too old; raise UnsupportedError."""
        if self._checked:
            return
        process = await self.start(NOWHERE, "version")
        try:
            out, _ = await process.communicate()
        except BaseException:
            await end(process)
            raise
        found = _VERSION.match(out)
        if found is None or (int(found[1]), int(found[2])) < OLDEST:
            raise _unusable(f"{self.program} says {display_safe(out.strip(), max_chars=80)!r}")
        self._checked = True

    def _environment(self, place: Place, sign: Signature | None, extra: Mapping[str, str]) -> dict[str, str]:
        env = {
            "PATH": os.environ.get("PATH", os.defpath) if self.search_path is None else self.search_path,
            **_ENVIRONMENT,
            "GIT_DIR": place.git_dir,
        }
        if place.work_tree is not None:
            env["GIT_WORK_TREE"] = place.work_tree
        if place.index is not None:
            env["GIT_INDEX_FILE"] = place.index
        if place.objects is not None:
            env["GIT_OBJECT_DIRECTORY"] = place.objects
        if place.alternates:
            env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = ":".join(map(quoted, place.alternates))
        if sign is not None:
            for role in ("AUTHOR", "COMMITTER"):
                env[f"GIT_{role}_NAME"] = sign.name
                env[f"GIT_{role}_EMAIL"] = sign.email
                env[f"GIT_{role}_DATE"] = f"@{sign.at_s} +0000"
        return env | dict(extra)


async def end(process: asyncio.subprocess.Process) -> None:
    """Kill a process of `Git.start` with all its children and wait until it is gone."""
    if process.returncode is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    if process.stdin is not None:
        process.stdin.close()
    # Reads the pipes to their ends; without that their transports outlive the process.
    await process.communicate()


def failure(args: Sequence[str | bytes], ended: Ended) -> FusionError:
    """Return the error for a call that ended with an exit code nobody expected."""
    said = " ".join(display_safe(ended.err, max_chars=600, multiline=True).split())
    found = f"git {_verb(args)} ended with {ended.code}" + (f": {said}" if said else "")
    if any(each in ended.err for each in _DISK_TROUBLE):
        return StorageError(found, cure="make room on the disk and start again")
    return GitError(found, fields={"exit_code": str(ended.code)})


def quoted(path: str) -> str:
    """Return a path as git reads it in lists of alternates."""
    if not any(each in path for each in ':"\n\\'):
        return path
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _verb(args: Sequence[str | bytes]) -> str:
    return display_safe(args[0], max_chars=40) if args else ""


def _unusable(found: str) -> UnsupportedError:
    oldest = ".".join(map(str, OLDEST))
    return UnsupportedError(
        found, expected=f"git {oldest} or newer", cure=f"install git {oldest} or newer and put it on PATH"
    )
