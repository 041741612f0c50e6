"""The user's repository, read without its configuration.

Owns finding it, judging whether Fusion supports it, and a *view*: a git directory of
our own whose refs and objects are the user's, so that neither hooks, filters, file
system monitors, fetches nor ownership rules of the user's repository take part in
reading it. Owns the list of uncommitted changes. It writes nothing to the user's
`.git`; only `delivery` does.
"""

import asyncio
import os
import re
import shutil
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fusiond.domain.display import display_safe
from fusiond.domain.errors import InvalidError, RefusedError, UnsupportedError
from fusiond.domain.ids import CommitId, is_object_id
from fusiond.workspace.disk.layout import Layout, configuration, storing
from fusiond.workspace.disk.removal import remove_tree
from fusiond.workspace.plumbing.git import NOWHERE, Git, GitError, Place

MAX_LISTED = 20
"""How many paths a refusal names; the rest is counted."""

# Settings that change what a checkout's bytes mean, and that name no program.
_CHECKOUT_SETTINGS = (
    "core.autocrlf",
    "core.checkstat",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.sharedrepository",
    "core.symlinks",
    "core.trustctime",
)
_EXTENSIONS = {"noop", "objectformat", "partialclone", "preciousobjects", "refstorage", "worktreeconfig"}
_TRUE = {"true", "yes", "on", "1", ""}
_REVISION = re.compile(r"[^\x00-\x1f\x7f]{1,1024}\Z")


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

    def is_set(self, name: str) -> bool:
        """Say whether a Boolean setting is on."""
        return self.settings.get(name, "false").lower() in _TRUE


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


@asynccontextmanager
async def viewing(source: Source, layout: Layout, *, index: bool = False) -> AsyncIterator[Place]:
    """Make a view of the user's repository for the duration of a block.

    Args:
        source: the user's repository.
        layout: where the view stands meanwhile.
        index: copy the user's index into it, and name the checkout.
    """
    path = layout.fresh("view")
    try:
        with storing("a view of the repository"):
            await asyncio.to_thread(_make_view, source, path, index=index)
        yield Place(
            git_dir=path,
            work_tree=source.root if index else None,
            # git makes temporary files even where it only reads; they are made here.
            objects=f"{path}/objects",
            alternates=(source.objects,),
        )
    finally:
        await asyncio.to_thread(remove_tree, path)


def _make_view(source: Source, path: str, *, index: bool) -> None:
    for each in ("info", "logs", "objects/pack"):
        os.makedirs(f"{path}/{each}")
    Path(path, "HEAD").write_bytes(read_head(source))
    Path(path, "config").write_text(_view_configuration(source), errors="surrogateescape")
    Path(path, "info/exclude").write_text(_view_excludes(source), errors="surrogateescape")
    os.symlink(f"{source.common_dir}/refs", f"{path}/refs")
    os.symlink(f"{source.common_dir}/packed-refs", f"{path}/packed-refs")
    os.symlink(f"{source.common_dir}/logs/refs", f"{path}/logs/refs")
    os.symlink(f"{source.git_dir}/logs/HEAD", f"{path}/logs/HEAD")
    attributes = f"{source.common_dir}/info/attributes"
    if os.path.isfile(attributes):
        shutil.copyfile(attributes, f"{path}/info/attributes")
    if index:
        # git moves the times of a shared index that it reads, so that one is copied as well.
        for shared in Path(source.git_dir).glob("sharedindex.*"):
            copy_index(str(shared), f"{path}/{shared.name}")
        copy_index(f"{source.git_dir}/index", f"{path}/index")


def _view_configuration(source: Source) -> str:
    options = {
        name.removeprefix("core."): source.settings[name]
        for name in _CHECKOUT_SETTINGS
        if name in source.settings
    }
    logged = source.settings.get("core.logallrefupdates", "true")
    options |= {"bare": "false", "logAllRefUpdates": logged}
    if source.excludes is not None:
        options["excludesFile"] = source.excludes
    return configuration(source.object_format, options)


def _view_excludes(source: Source) -> str:
    own = Path(source.common_dir, "info/exclude")
    text = own.read_text(errors="surrogateescape") if own.is_file() else ""
    return f"{text}\n/.fusion/\n"


def copy_index(source: str, target: str) -> None:
    """Copy an index with its times: git judges by them which files it must look at again."""
    try:
        shutil.copyfile(source, target)
        state = os.stat(source)
    except FileNotFoundError:
        return
    os.utime(target, ns=(state.st_atime_ns, state.st_mtime_ns))


def read_head(source: Source) -> bytes:
    """Return the bytes of the user's HEAD; an old-fashioned link is read as the ref it names."""
    path = f"{source.git_dir}/HEAD"
    if stat.S_ISLNK(os.lstat(path).st_mode):
        return b"ref: " + os.fsencode(os.readlink(path)) + b"\n"
    return Path(path).read_bytes()


async def resolve_commit(git: Git, view: Place, revision: str) -> CommitId:
    """Resolve a name to a full commit id.

    Raises:
        InvalidError: not a name.
        RefusedError: it names no commit here, or HEAD is unborn.
    """
    if not _REVISION.match(revision):
        raise InvalidError(f"{display_safe(revision)!r} is no revision", expected="a branch, tag or commit")
    args = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    ended = await git.run(view, *args, ok=(0, 1, 128))
    commit = ended.out.decode().strip()
    if ended.code == 0 and is_object_id(commit):
        return CommitId(commit)
    if revision == "HEAD":
        raise RefusedError(
            "the repository has no commit yet on its current branch",
            cure='run `git add -A && git commit -m "First commit"`',
        )
    raise RefusedError(
        f"{display_safe(revision, max_chars=100)!r} names no commit in this repository",
        expected="a branch, tag or commit",
        cure="run `git log --oneline --all` to see what there is",
    )


async def uncommitted(git: Git, view: Place, *, every_file: bool = False) -> list[str]:
    """List the paths of the checkout that differ from HEAD, staged, unstaged or untracked.

    Args:
        git: runs git.
        view: made with `index=True`.
        every_file: name each untracked file; else a directory without tracked files is
            named once, with a slash at its end.
    """
    untracked = f"--untracked-files={'all' if every_file else 'normal'}"
    args = ("status", "--porcelain=v1", "-z", untracked, "--no-renames", "--ignore-submodules=all")
    ended = await git.run(view, *args)
    paths = (entry[3:] for entry in ended.out.decode(errors="surrogateescape").split("\0") if entry)
    return sorted(path for path in paths if path.split("/")[0] != ".fusion")


def listed(paths: list[str] | tuple[str, ...]) -> str:
    """Return paths as one displayable line, the first `MAX_LISTED` of them by name."""
    shown = ", ".join(display_safe(path, max_chars=200) for path in paths[:MAX_LISTED])
    more = len(paths) - MAX_LISTED
    return f"{shown} and {more} more" if more > 0 else shown


async def is_ancestor(git: Git, place: Place, old: CommitId, new: CommitId) -> bool:
    """Say whether `old` is `new` or an ancestor of it; False where `old` is not even there."""
    ended = await git.run(place, "merge-base", "--is-ancestor", old, new, ok=(0, 1, 128))
    if ended.code == 128 and b"Not a valid commit" not in ended.err and b"bad object" not in ended.err:
        raise GitError(f"the history cannot be read: {display_safe(ended.err, max_chars=300)}")
    return ended.code == 0


async def filter_attributes(git: Git, place: Place, commit: CommitId, paths: list[str]) -> dict[str, str]:
    """Return the `filter` attribute that a commit's own rules give to paths.

    Args:
        git: runs git.
        place: a repository with the commit; its `index` is a path where nothing is yet.
        commit: whose `.gitattributes` count.
        paths: which paths.
    """
    assert place.index is not None
    try:
        await git.run(place, "read-tree", commit)
        asked = b"".join(path.encode(errors="surrogateescape") + b"\0" for path in paths)
        ended = await git.run(place, "check-attr", "--cached", "-z", "--stdin", "filter", stdin=asked)
    finally:
        Path(place.index).unlink(missing_ok=True)
    fields = ended.out.decode(errors="surrogateescape").split("\0")
    return dict(zip(fields[0::3], fields[2::3], strict=False))
