"""Where the workspace package keeps things, and how its own small files are written.

Owns paths below `.fusion/` and below the state directory, the bare skeleton of a
git directory, and the stamp that says a directory is complete. It runs no git.
"""

import errno
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fusiond.domain.display import display_safe
from fusiond.domain.errors import FusionError, RefusedError, StorageError
from fusiond.domain.ids import AttemptId, CommitId
from fusiond.domain.records import dataclass
from fusiond.ports.workspace import AttemptPlaces
from fusiond.workspace.disk.removal import opened, remove_tree

STAMP = "ready"
"""Name of the file that is written last; without it a directory is half-made."""

EXACT_ATTRIBUTES = "* -text -eol -ident -filter -working-tree-encoding\n"
"""Bytes are stored and laid as they are (`flow.md`, Code between nodes)."""

_PLACES = ("tree", "outputs", "report", "session", "inputs", "feedback", "home")
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Paths of one workspace.

    Args:
        root: the directory that holds `.fusion`, a git root.
        worktrees: `$XDG_STATE_HOME/fusion/worktrees/<workspace>`.
    """

    root: str
    worktrees: str

    @property
    def fusion(self) -> str:
        """`.fusion` itself."""
        return f"{self.root}/.fusion"

    @property
    def repo(self) -> str:
        """The daemon's own repository: pins and results."""
        return f"{self.fusion}/repo.git"

    @property
    def objects(self) -> str:
        """Object directory of the daemon's own repository."""
        return f"{self.repo}/objects"

    @property
    def bases(self) -> str:
        """Packed base histories."""
        return f"{self.fusion}/bases"

    @property
    def setups(self) -> str:
        """Results of setup commands."""
        return f"{self.fusion}/setup"

    @property
    def making(self) -> str:
        """What is being made and not yet in its place; swept at start."""
        return f"{self.fusion}/making"

    @property
    def trash(self) -> str:
        """What is being removed, on the file system of the attempts; swept at start."""
        return f"{self.worktrees}/.trash"

    def base(self, commit: CommitId) -> str:
        """Return the packed history of a base."""
        return f"{self.bases}/{commit}.git"

    def attempt(self, attempt: AttemptId) -> str:
        """Return the directory of an attempt."""
        return f"{self.worktrees}/{attempt.stage}/attempt-{attempt.number}"

    def places(self, attempt: AttemptId) -> AttemptPlaces:
        """Return the host directories of an attempt."""
        root = self.attempt(attempt)
        return AttemptPlaces(root=root, **{name: f"{root}/{name}" for name in _PLACES})

    def create(self) -> None:
        """Make the directories that everything else stands in; safe to repeat.

        Raises:
            RefusedError: `.fusion/worktrees` is something else than our link.
            StorageError: the disk refused.
        """
        with storing("the workspace's directories"):
            os.makedirs(self.fusion, mode=0o700, exist_ok=True)
            ignore = Path(self.fusion, ".gitignore")
            if not ignore.exists():
                write_file(str(ignore), "# Fusion's own; never part of a revision.\n*\n")
            for each in (self.bases, self.setups, self.making, self.worktrees, self.trash):
                os.makedirs(each, mode=0o700, exist_ok=True)
            self._link_worktrees()

    def _link_worktrees(self) -> None:
        link = f"{self.fusion}/worktrees"
        if os.path.lexists(link) and not os.path.islink(link):
            raise RefusedError(
                f"{display_safe(link)} is no link",
                expected=f"a link to {display_safe(self.worktrees)}",
                cure="move it away and start again",
            )
        if not os.path.islink(link) or os.readlink(link) != self.worktrees:
            aside = self.fresh("link")
            os.symlink(self.worktrees, aside)
            os.rename(aside, link)

    def fresh(self, what: str) -> str:
        """Return an unused path for something being made; nothing is created."""
        return f"{self.making}/{what}-{secrets.token_hex(8)}"

    def discard(self, path: str) -> None:
        """Remove a directory so that a crash never leaves it half there under its own name."""
        doomed = f"{self.trash}/{secrets.token_hex(8)}"
        try:
            os.rename(path, doomed)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise StorageError(f"{display_safe(path)} cannot be moved away: {error.strerror}") from error
            doomed = path
        remove_tree(doomed)


@contextmanager
def storing(what: str, kind: type[FusionError] = StorageError) -> Iterator[None]:
    """Turn what the operating system refuses inside the block into a FusionError.

    Args:
        what: what is being written, for the message.
        kind: the error for anything but a full or failing disk.
    """
    try:
        yield
    except OSError as error:
        raised = StorageError if error.errno in _FULL else kind
        where = f" at {display_safe(os.fsdecode(error.filename))}" if error.filename else ""
        raise raised(
            f"{what} cannot be written: {error.strerror}{where}",
            cure="make room, check permissions, and start again",
        ) from error


def write_file(path: str, text: str | bytes, *, mode: int = 0o644) -> None:
    """Write a new file durably under its final name, all at once or not at all."""
    aside = f"{path}.{secrets.token_hex(4)}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(aside, flags, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(text.encode() if isinstance(text, str) else text)
            file.flush()
            os.fsync(file.fileno())
        os.rename(aside, path)
    except BaseException:
        os.unlink(aside)
        raise


def sync_directory(path: str) -> None:
    """Make the names in a directory durable."""
    with opened(path) as fd:
        os.fsync(fd)


def write_stamp(directory: str, facts: Mapping[str, str]) -> None:
    """Mark a directory complete; `facts` are read back by `read_stamp`. No value holds a line feed."""
    lines = [f"{name} {value}\n" for name, value in sorted(facts.items())]
    write_file(f"{directory}/{STAMP}", "fusion 1\n" + "".join(lines))


def read_stamp(directory: str) -> dict[str, str] | None:
    """Return what `write_stamp` kept, or None where the directory is absent or half-made."""
    try:
        text = Path(directory, STAMP).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    head, *lines = text.split("\n")
    if head != "fusion 1":
        return None
    return dict(line.split(" ", 1) for line in lines if line)


def git_directory(path: str, *, object_format: str, head: str, options: Mapping[str, str]) -> None:
    """Make the skeleton of a git directory without running git.

    Args:
        path: a directory that is not there yet.
        object_format: `sha1` or `sha256`.
        head: full name of the ref that HEAD stands for.
        options: lines of the section `core`.
    """
    for each in ("info", "objects/info", "objects/pack", "refs/heads"):
        os.makedirs(f"{path}/{each}")
    Path(path, "HEAD").write_text(f"ref: {head}\n")
    Path(path, "config").write_text(configuration(object_format, options))
    Path(path, "info/attributes").write_text(EXACT_ATTRIBUTES)


def configuration(object_format: str, options: Mapping[str, str]) -> str:
    """Return the text of a repository's configuration file, every value quoted."""
    version = "1" if object_format != "sha1" else "0"
    core = {"repositoryFormatVersion": version} | dict(options)
    lines = ["[core]\n", *(f"\t{name} = {_quoted_value(value)}\n" for name, value in core.items())]
    if object_format != "sha1":
        lines += ["[extensions]\n", f"\tobjectFormat = {object_format}\n"]
    return "".join(lines)


def _quoted_value(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def write_ref(git_dir: str, ref: str, commit: CommitId) -> None:
    """Write a loose ref into a repository that nobody else can see yet."""
    path = Path(git_dir, ref)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{commit}\n")
