"""Code evidence: files and directories of frozen trees, for readers outside a run.

Owns the rule on paths and the walk from a tree id to a file, one component at a
time, by object ids alone (`engine.md`, Evidence of code and artifacts). A path never
becomes part of a revision name, no ref is ever read, links are not followed.
"""

import re
from collections.abc import Sequence

from fusiond.domain.display import display_safe
from fusiond.domain.errors import NotFoundError, RefusedError, TooLargeError
from fusiond.domain.paths import DEFAULT_MEDIA_TYPE, media_type_by_suffix
from fusiond.domain.records import dataclass
from fusiond.ports.content import Page
from fusiond.ports.workspace import CodeEntry, CodeEvidence, EntryKind, Revision
from fusiond.workspace.plumbing.frozen import FrozenObjects, TreeEntry
from fusiond.workspace.plumbing.git import LONG_S, Git, Place

MAX_PAGE_BYTES = 256 * 1024
"""The largest page; a larger limit is taken down to this."""

MAX_DIFF_BYTES = 64 * 1024 * 1024
"""The largest diff that is returned, in bytes."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# Forms that only git would understand: `HEAD`, `refs/…`, full object ids, also with `:path`, `@{1}`, `~2`.
_REVISION = re.compile(r"(?:[A-Z_]*HEAD|refs/[^:]*|[0-9a-f]{40}|[0-9a-f]{64})(?:[:@^~].*)?\Z")
_MEDIA_TYPES = {
    EntryKind.DIRECTORY: "inode/directory",
    EntryKind.SYMLINK: "inode/symlink",
    EntryKind.SUBMODULE: "inode/submodule",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GitCode(CodeEvidence):
    """Reads frozen trees from the daemon's own repository.

    Args:
        git: runs git, for diffs.
        place: the repository.
        objects: its trees and blobs.
    """

    git: Git
    place: Place
    objects: FrozenObjects

    async def entries(self, revision: Revision, path: str) -> Sequence[CodeEntry]:
        """List one directory; see the port. Paths are whole, names that are no UTF-8 are shown escaped.

        Raises:
            RefusedError: not a plain path, or not a directory.
            NotFoundError: nothing is there.
        """
        components = plain_components(path, allow_root=True)
        tree = revision.tree if not components else await self._directory(revision, components)
        prefix = f"{path}/" if components else ""
        return [await self._described(entry, prefix) for entry in await self.objects.tree(tree)]

    async def page(self, revision: Revision, path: str, offset: int, limit: int) -> Page:
        """Read a page of a file's body; see the port.

        Args:
            revision: the frozen tree.
            path: a plain path.
            offset: where the page starts, in bytes.
            limit: how many bytes are wanted; at most `MAX_PAGE_BYTES` are given.

        Raises:
            RefusedError: not a plain path, not a file, or a negative offset or limit.
            NotFoundError: nothing is there.
        """
        if offset < 0 or limit < 0:
            raise RefusedError("a page with a negative offset or limit", expected="0 or more")
        entry = await self._entry(revision, plain_components(path))
        if entry.kind is not EntryKind.FILE:
            raise RefusedError(
                f"{display_safe(path)} is a {entry.kind}, not a file", expected="the path of a file"
            )
        part = await self.objects.part(entry.object_id, offset, min(limit, MAX_PAGE_BYTES))
        return Page(offset=offset, total=part.total, data=part.data)

    async def diff(self, old: Revision, new: Revision, path: str) -> bytes:
        """Return the unified diff between two frozen trees; see the port.

        Raises:
            RefusedError: not a plain path.
            NotFoundError: a tree is not there.
            TooLargeError: the diff is larger than `MAX_DIFF_BYTES`.
        """
        plain_components(path, allow_root=True)
        for each in (old, new):
            await self.objects.tree(each.tree)
        args = ("diff-tree", "-r", "-p", "--full-index", "--find-renames", "--no-ext-diff", "--no-textconv")
        below = ("--", path) if path else ()
        ended = await self.git.run(self.place, *args, old.tree, new.tree, *below, timeout_s=LONG_S)
        if len(ended.out) > MAX_DIFF_BYTES:
            raise TooLargeError(
                f"the diff has {len(ended.out)} bytes",
                expected=f"{MAX_DIFF_BYTES} at most",
                cure="ask for the diff of one path",
            )
        return ended.out

    async def _directory(self, revision: Revision, components: Sequence[bytes]) -> str:
        entry = await self._entry(revision, components)
        if entry.kind is not EntryKind.DIRECTORY:
            raise RefusedError(
                f"{display_safe(b'/'.join(components))} is a {entry.kind}, not a directory",
                expected="the path of a directory",
            )
        return entry.object_id

    async def _entry(self, revision: Revision, components: Sequence[bytes]) -> TreeEntry:
        tree: str = revision.tree
        walked: list[bytes] = []
        for component in components[:-1]:
            entry = await self._child(tree, component, walked)
            walked.append(component)
            if entry.kind in {EntryKind.SYMLINK, EntryKind.SUBMODULE}:
                raise RefusedError(
                    f"{display_safe(b'/'.join(walked))} is a {entry.kind}, which is not followed",
                    expected="a path through directories of the tree",
                )
            if entry.kind is EntryKind.FILE:
                raise _absent(walked, components[len(walked)])
            tree = entry.object_id
        return await self._child(tree, components[-1], walked)

    async def _child(self, tree: str, name: bytes, walked: Sequence[bytes]) -> TreeEntry:
        for entry in await self.objects.tree(tree):
            if entry.name == name:
                return entry
        raise _absent(walked, name)

    async def _described(self, entry: TreeEntry, prefix: str) -> CodeEntry:
        path = prefix + entry.name.decode(errors="backslashreplace")
        if entry.kind is EntryKind.SUBMODULE or entry.kind is EntryKind.DIRECTORY:
            return CodeEntry(
                path=path, kind=entry.kind, size=0, media_type=_MEDIA_TYPES[entry.kind], digest=None
            )
        facts = await self.objects.facts(entry.object_id)
        if entry.kind is EntryKind.SYMLINK:
            media_type = _MEDIA_TYPES[entry.kind]
        else:
            media_type = media_type_by_suffix(path)
            if media_type == DEFAULT_MEDIA_TYPE and facts.is_text:
                media_type = "text/plain"
        return CodeEntry(
            path=path, kind=entry.kind, size=facts.size, media_type=media_type, digest=facts.digest
        )


def plain_components(path: str, *, allow_root: bool = False) -> list[bytes]:
    """Split a path into its components, or raise RefusedError for anything but a plain path.

    Plain is: relative, `/` between components, none of them empty, `.`, `..` or
    `.git`, no control characters, no pathspec magic, nothing that git would read as
    a revision or an object id.
    """
    if not path and allow_root:
        return []
    problem = _problem(path)
    if problem is not None:
        raise RefusedError(
            f"{display_safe(path, max_chars=200)!r} {problem}", expected="a plain path in the tree"
        )
    return path.encode().split(b"/")


def _problem(path: str) -> str | None:
    if not path:
        return "is empty"
    if _CONTROL.search(path):
        return "has a control character or is not UTF-8"
    if path.startswith("/"):
        return "is absolute"
    if path.startswith(":"):
        return "begins like pathspec magic"
    if _REVISION.match(path):
        return "reads as a revision"
    for component in path.split("/"):
        if component in {"", ".", ".."}:
            return f"has a component {component!r}"
        if component.lower() == ".git":
            return "leads into a repository"
    return None


def _absent(walked: Sequence[bytes], name: bytes) -> NotFoundError:
    where = display_safe(b"/".join(walked)) or "the root"
    return NotFoundError(f"there is no {display_safe(name)} in {where}", cure="list the directory")
