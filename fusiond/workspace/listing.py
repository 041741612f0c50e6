"""Lists what of a directory that an agent filled may be part of a revision.

Owns what is left out, which names are refused, and the search for repositories
inside. git says which files changed and which are ignored, by the daemon's own index
and attributes; no file's content is read here but `.gitignore`, and that by git.

Not part of a revision: what `.gitignore` names, caches that tools leave behind
(`CACHES`), results of setup commands, nested repositories (reported) and empty
directories.
"""

import errno
import os
import re
from collections.abc import Sequence
from dataclasses import field

from fusiond.domain.display import display_safe
from fusiond.domain.records import dataclass
from fusiond.workspace.plumbing.git import Git, Place

CACHES = (
    # Written by tools as a side effect of running, so that running a gate would change the
    # revision that it judges. A repository's own `.gitignore` can take any of them back in.
    "__pycache__/",
    "*.pyc",
    ".pytest_cache/",
    ".mypy_cache/",
    ".ruff_cache/",
    ".hypothesis/",
    ".coverage",
    ".tox/",
    ".nox/",
    "*.egg-info/",
    ".gradle/",
    ".DS_Store",
    # Installed from a lock file, never written by hand.
    "node_modules/",
    ".venv/",
    # A workspace inside the attempt's tree.
    "/.fusion/",
)

MAX_COMPONENTS = 128
"""How deep a revision's files may lie."""

LIST_S = 300.0
"""How long git may take to list a work tree."""

_RULES = frozenset((b".gitignore", b".gitattributes"))

GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL}
"""Errors that say: nothing, or nothing that may be followed, is there (EINVAL: no longer a link)."""

DENIED = {errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ENXIO}
"""Errors that say: something is there and cannot be read."""

_UNREADABLE = re.compile(
    rb"^warning: (?:could not open directory|unable to access) '(.*?)(?:'|$)", re.MULTILINE
)
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_GIT_NAMES = {b".git", b"git~1"}
# What HFS+ does not see in a name; git refuses `.git` with them in it (CVE-2014-9390).
_UNSEEN = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_CACHE_NAMES = frozenset(
    each.rstrip("/").encode() for each in CACHES if each.endswith("/") and "*" not in each
)
_GLOB = "\\*?[#! "


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What git found in a directory, compared with an index.

    Args:
        changed: paths of the index whose file differs or is gone.
        untracked: other files that are not ignored.
        nested: directories that are repositories of their own.
        unreadable: directories that could not be listed.
    """

    changed: tuple[bytes, ...]
    untracked: tuple[bytes, ...]
    nested: tuple[bytes, ...]
    unreadable: tuple[bytes, ...]


async def list_tree(git: Git, place: Place, never: Sequence[str]) -> Listing:
    """Ask git what is tracked, changed and untracked in the work tree of `place`."""
    excluded = [part for pattern in never for part in ("-x", pattern)]
    args = ("ls-files", "-z", "-t", "--modified", "--others", "--exclude-standard")
    ended = await git.run(place, *args, *excluded, timeout_s=LIST_S)
    lines = [line for line in ended.out.split(b"\0") if line]
    others = [line[2:] for line in lines if line.startswith(b"? ")]
    return Listing(
        changed=tuple(line[2:] for line in lines if line.startswith(b"C ")),
        untracked=tuple(path for path in others if not path.endswith(b"/")),
        nested=tuple(path.rstrip(b"/") for path in others if path.endswith(b"/")),
        unreadable=tuple(path.rstrip(b"/") for path in _UNREADABLE.findall(ended.err)),
    )


@dataclass(slots=True)
class Survey:
    """What is to be known of a directory before git may look into it.

    Args:
        holders: directories that hold a `.git` of any kind.
        traps: files that git would open to read rules, and wait for ever: FIFOs and the like.
    """

    holders: list[bytes] = field(default_factory=list)
    traps: list[bytes] = field(default_factory=list)


def survey(root: str, never: frozenset[str]) -> Survey:
    """Look through the directories below `root`.

    Not looked into: directories that hold a `.git`, results of setup, and caches, where
    git still looks if a `.gitignore` takes the cache back in; there its time limit holds.

    Args:
        root: the work tree.
        never: patterns of `path_pattern`.
    """
    found = Survey()
    waiting = [b""]
    while waiting:
        directory = waiting.pop()
        inner = _directories(os.path.join(os.fsencode(root), directory), directory, found)
        for name in inner:
            path = os.path.join(directory, name)
            if name not in _CACHE_NAMES and path_pattern(os.fsdecode(path)) not in never:
                waiting.append(path)
    return found


def _directories(path: bytes, directory: bytes, found: Survey) -> list[bytes]:
    """Return the names of the directories in a directory; none where it is a repository of its own.

    Links are not followed; what cannot be listed is empty here, and git says so.
    """
    inner: list[bytes] = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name == b".git" and directory:
                    found.holders.append(directory)
                    return []
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != b".git":
                        inner.append(entry.name)
                elif entry.name in _RULES and not (
                    entry.is_file(follow_symlinks=False) or entry.is_symlink()
                ):
                    found.traps.append(os.path.join(directory, entry.name))
    except OSError as error:
        if error.errno not in GONE | DENIED:
            raise
    return inner


def path_pattern(path: str) -> str:
    """Return the ignore pattern that names exactly one path, relative to the root."""
    return "/" + "".join(f"\\{each}" if each in _GLOB else each for each in path)


async def not_ignored(git: Git, place: Place, holders: set[bytes], known: set[bytes]) -> tuple[str, ...]:
    """Return `known` and those of `holders` that no rule ignores, displayable and sorted."""
    # With `./` before it no name begins like pathspec magic, which this command alone must be
    # left to look for.
    asked = b"".join(b"./" + each + b"\0" for each in holders - known)
    if asked:
        magic = {"GIT_LITERAL_PATHSPECS": "0"}
        ended = await git.run(place, "check-ignore", "-z", "--stdin", stdin=asked, ok=(0, 1), extra=magic)
        ignored = {each.removeprefix(b"./") for each in ended.out.split(b"\0")}
        known = known | (holders - ignored)
    return tuple(sorted(display_safe(each) for each in known))


def problem_with_name(path: bytes) -> str | None:
    """Say why a revision may not have a file of this name, or return None when it may."""
    try:
        text = path.decode()
    except UnicodeDecodeError:
        return "has a name that is not UTF-8"
    if _CONTROL.search(text):
        return "has a control character in its name"
    components = path.split(b"/")
    if len(components) > MAX_COMPONENTS:
        return f"lies {len(components)} directories deep, the limit is {MAX_COMPONENTS}"
    if any(_reads_as_git(each) for each in components):
        return "has a name that some file systems read as `.git`"
    return None


def _reads_as_git(component: bytes) -> bool:
    if component.isascii():
        return component.lower().rstrip(b". ") in _GIT_NAMES
    return _UNSEEN.sub("", component.decode()).lower() == ".git"
