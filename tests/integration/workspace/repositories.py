"""Real repositories for tests, made fast: one `git fast-import` whatever the number of commits.

Owns building and looking at repositories with the git on PATH. It knows nothing of the
package under test.
"""

import hashlib
import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

FILE = "100644"
EXECUTABLE = "100755"
LINK = "120000"
GITLINK = "160000"

EPOCH_S = 1_700_000_000


@dataclass(frozen=True, slots=True)
class Stored:
    """A file of a commit that is not a plain one."""

    mode: str
    data: bytes


Files = Mapping[str, bytes | Stored | None]
"""Changes of one commit by path; None removes."""


def git(directory: Path, *args: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> str:
    """Run the test's own git and return what it wrote."""
    ended = subprocess.run(["git", *args], cwd=directory, input=stdin, capture_output=True, check=False)
    assert ended.returncode in ok, f"git {args}: {ended.stderr.decode(errors='replace')}"
    return ended.stdout.decode(errors="surrogateescape").strip()


def make_repository(
    path: Path, history: Iterable[Files], *, branch: str = "main", object_format: str = "sha1"
) -> Path:
    """Make a repository with one commit for each entry of `history`, checked out."""
    path.mkdir(parents=True, exist_ok=True)
    kind = (f"--object-format={object_format}", f"--initial-branch={branch}")
    git(path, "init", "--quiet", "--template=", *kind, ".")
    add_commits(path, branch, history)
    git(path, "reset", "--quiet", "--hard")
    return path


def add_commits(path: Path, branch: str, history: Iterable[Files], *, onto: str | None = None) -> None:
    """Add commits to a branch, without touching the checkout."""
    stream = bytearray()
    for number, files in enumerate(history):
        stream += f"commit refs/heads/{branch}\ncommitter A <a@b> {EPOCH_S + number} +0000\n".encode()
        message = f"commit {number} of {branch}".encode()
        stream += b"data %d\n%s\n" % (len(message), message)
        if number == 0 and onto is not None:
            stream += f"from {onto}\n".encode()
        for name, change in files.items():
            stream += _line(name, change)
    git(path, "fast-import", "--quiet", "--force", stdin=bytes(stream))


def _line(name: str, change: bytes | Stored | None) -> bytes:
    quoted = f'"{name}"'.encode(errors="surrogateescape")
    match change:
        case None:
            return b"D %s\n" % quoted
        case bytes():
            return b"M 100644 inline %s\ndata %d\n%s\n" % (quoted, len(change), change)
        case Stored(mode="160000"):
            return b"M 160000 %s %s\n" % (change.data, quoted)
        case _:
            mode = change.mode.encode()
            return b"M %s inline %s\ndata %d\n%s\n" % (mode, quoted, len(change.data), change.data)


def thousand_files() -> dict[str, bytes]:
    """Return 1,000 files of about 2 KiB in 100 directories."""
    text = b"".join(b"line %d of a file that looks like source code\n" % line for line in range(45))
    return {f"src/d{n % 100:02}/file_{n:04}.py": b"# %d\n%s" % (n, text) for n in range(1000)}


def long_history(commits: int) -> list[Files]:
    """Return a history over `thousand_files` in which each commit changes one file."""
    first = thousand_files()
    names = sorted(first)
    later = [{names[n % len(names)]: b"# changed in %d\n" % n + first[names[0]]} for n in range(1, commits)]
    return [first, *later]


def all_objects(path: Path) -> set[str]:
    """Return the id of every object that a repository can read, also from alternates."""
    listed = git(path, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    return set(listed.split())


def reachable(path: Path, *revisions: str) -> set[str]:
    """Return the id of every object reachable from revisions."""
    return {line.split()[0] for line in git(path, "rev-list", "--objects", *revisions).splitlines()}


def fingerprint(directory: Path) -> dict[str, tuple[str, int, int]]:
    """Return digest, mode and modification time of everything below a directory, `.fusion` left out."""
    found: dict[str, tuple[str, int, int]] = {}
    for parent, directories, files in os.walk(directory):
        if Path(parent) == directory and ".fusion" in directories:
            directories.remove(".fusion")
        for name in (*directories, *files):
            path = Path(parent, name)
            state = path.lstat()
            if path.is_symlink():
                body = os.readlink(path).encode()
            else:
                body = path.read_bytes() if path.is_file() else b""
            key = str(path.relative_to(directory))
            moved = 0 if path == directory else state.st_mtime_ns
            found[key] = (hashlib.sha256(body).hexdigest(), state.st_mode, moved)
    return found
