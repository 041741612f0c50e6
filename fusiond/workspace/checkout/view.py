"""A view of the user's repository, and what is asked through it.

Owns the view: a git directory of our own whose refs and objects are the user's, so
that neither hooks, filters, file system monitors, fetches nor ownership rules of the
user's repository take part in reading it. Owns the questions: which commit a name
means, what is uncommitted, which filter a path has. It writes nothing to the user's
`.git`; only `delivery` does.
"""

import asyncio
import os
import re
import shutil
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fusiond.domain.display import display_safe
from fusiond.domain.errors import InvalidError, RefusedError
from fusiond.domain.ids import CommitId, is_object_id
from fusiond.workspace.checkout.source import Source
from fusiond.workspace.disk.layout import Layout, configuration, storing
from fusiond.workspace.disk.removal import remove_tree
from fusiond.workspace.plumbing.git import Git, GitError, Place

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
_REVISION = re.compile(r"[^\x00-\x1f\x7f]{1,1024}\Z")


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
