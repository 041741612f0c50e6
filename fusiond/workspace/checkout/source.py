"""The user's repository, read without its configuration.

Owns finding it, judging whether Fusion supports it, and reading settings as data. It
runs no git inside the user's repository; `view` says how that is read.
"""

import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from fusiond.domain.display import display_safe
from fusiond.domain.errors import RefusedError, UnsupportedError
from fusiond.domain.records import dataclass
from fusiond.workspace.disk.layout import Layout
from fusiond.workspace.plumbing.git import NOWHERE, Git

_EXTENSIONS = {"noop", "objectformat", "partialclone", "preciousobjects", "refstorage", "worktreeconfig"}
_TRUE = {"true", "yes", "on", "1", ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The user's repository.

    Args:
        root: its checkout, the workspace.
        git_dir: holds HEAD and index.
        common_dir: holds refs and objects; another one in a linked worktree.
        object_format: `sha1` or `sha256`.
        settings: the repository's own settings over the user's, by lower-case name.
        excludes: the user's own ignore file, where there is one.
    """

    root: str
    git_dir: str
    common_dir: str
    object_format: str
    settings: Mapping[str, str] = field(repr=False)
    excludes: str | None

    @property
    def objects(self) -> str:
        """The user's object directory."""
        return f"{self.common_dir}/objects"


async def find_source(git: Git, layout: Layout, home: str | None) -> Source:
    """Find the user's repository at the workspace's root and judge it.

    Args:
        git: runs git.
        layout: the workspace.
        home: the user's home, for their own ignore file; None for none.

    Raises:
        RefusedError: there is no repository here, or the workspace is below its root.
        UnsupportedError: bare, sparse, shallow, or with extensions we do not know.
    """
    root = os.path.realpath(layout.root)
    git_dir = _git_dir(root)
    common = _common_dir(git_dir)
    settings = await read_settings(git, f"{common}/config")
    if settings.get("extensions.worktreeconfig", "false").lower() in _TRUE:
        settings |= await read_settings(git, f"{git_dir}/config.worktree")
    _judge(root, git_dir, common, settings)
    users = await user_settings(git, home)
    return Source(
        root=root,
        git_dir=git_dir,
        common_dir=common,
        object_format=settings.get("extensions.objectformat", "sha1").lower(),
        settings=users | settings,
        excludes=_user_excludes(users, home),
    )


def _git_dir(root: str) -> str:
    entry = Path(root, ".git")
    if entry.is_dir():
        return str(entry)
    if entry.is_file():
        line = entry.read_text(errors="surrogateescape").strip()
        target = os.path.join(root, line.removeprefix("gitdir:").strip())
        if line.startswith("gitdir:") and os.path.isdir(target):
            return os.path.realpath(target)
        raise RefusedError(
            f"{display_safe(str(entry))} names no git directory", cure="run `git worktree repair` in it"
        )
    if all(os.path.exists(f"{root}/{each}") for each in ("HEAD", "objects", "refs")):
        raise _bare(root)
    for parent in Path(root).parents:
        if os.path.lexists(parent / ".git"):
            raise RefusedError(
                f"{display_safe(root)} is a directory inside the repository {display_safe(str(parent))}",
                expected="the workspace at the repository's root",
                cure=f"run `fusion init` in {display_safe(str(parent))}",
            )
    raise RefusedError(
        f"{display_safe(root)} is no git repository",
        cure='run `git init`, then `git add -A && git commit -m "First commit"`',
    )


def _bare(root: str) -> UnsupportedError:
    return UnsupportedError(
        f"{display_safe(root)} is a bare repository",
        expected="a repository with a checkout",
        cure="make a checkout with `git worktree add` and use that as the workspace",
    )


def _common_dir(git_dir: str) -> str:
    try:
        line = Path(git_dir, "commondir").read_text(errors="surrogateescape").strip()
    except FileNotFoundError:
        return git_dir
    return os.path.realpath(os.path.join(git_dir, line))


async def read_settings(git: Git, path: str, *, includes: bool = False, home: str = "") -> dict[str, str]:
    """Read one configuration file as data; names are lower case, the last value of each counts.

    Args:
        git: runs git.
        path: the file; an absent one is empty.
        includes: follow the file's `include` and `includeIf` sections.
        home: what `~` means in those.
    """
    if not os.path.isfile(path):
        return {}
    args = ("config", "--file", path, "--includes" if includes else "--no-includes", "--null", "--list")
    listed = await git.run(NOWHERE, *args, extra={"HOME": home} if home else None)
    settings: dict[str, str] = {}
    for entry in listed.out.decode(errors="surrogateescape").split("\0"):
        name, _, value = entry.partition("\n")
        section, _, rest = name.partition(".")
        subsection, _, key = rest.rpartition(".")
        settings[".".join(each for each in (section, subsection, key.lower()) if each)] = value
    return settings


async def user_settings(git: Git, home: str | None) -> dict[str, str]:
    """Read the user's own configuration (not the machine's) as data."""
    if home is None:
        return {}
    found: dict[str, str] = {}
    for name in (".config/git/config", ".gitconfig"):
        found |= await read_settings(git, f"{home}/{name}", includes=True, home=home)
    return found


def _user_excludes(users: Mapping[str, str], home: str | None) -> str | None:
    if home is None:
        return None
    named = users.get("core.excludesfile", "~/.config/git/ignore")
    path = f"{home}/{named[2:]}" if named.startswith("~/") else named
    return path if os.path.isabs(path) and os.path.isfile(path) else None


def _judge(root: str, git_dir: str, common: str, settings: Mapping[str, str]) -> None:
    work_tree = settings.get("core.worktree")
    if work_tree is not None and os.path.realpath(os.path.join(git_dir, work_tree)) != root:
        raise UnsupportedError(
            "the repository's checkout is elsewhere (core.worktree)", cure="use that as the workspace"
        )
    if settings.get("core.bare", "false").lower() in _TRUE and git_dir == common:
        raise _bare(root)
    if settings.get("core.sparsecheckout", "false").lower() in _TRUE:
        raise UnsupportedError(
            "the checkout is sparse", expected="a full checkout", cure="run `git sparse-checkout disable`"
        )
    shallow = Path(common, "shallow")
    if shallow.is_file() and shallow.stat().st_size:
        raise UnsupportedError(
            "the repository is a shallow clone",
            expected="its whole history",
            cure="run `git fetch --unshallow`",
        )
    _judge_extensions(settings)


def _judge_extensions(settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        section, _, extension = name.partition(".")
        if section == "extensions" and extension not in _EXTENSIONS:
            raise UnsupportedError(
                f"the repository uses the git extension {display_safe(extension, max_chars=60)}",
                cure="use a repository without it",
            )
        if name == "extensions.refstorage" and value.lower() != "files":
            raise UnsupportedError(
                f"the repository keeps its refs as {display_safe(value, max_chars=60)}",
                expected="refs kept as files",
                cure="run `git refs migrate --ref-format=files`",
            )
