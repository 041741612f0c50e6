"""A workspace over a real repository, as tests see it.

Owns shorthand for what every test of the package does: attempts, their files, the
user's own git. It asserts nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from fusiond.domain.ids import AttemptId, AttemptNumber, NodeId, RunId, StageId
from fusiond.ports.workspace import CommittedTree, PreparedTree, Revision
from fusiond.workspace.assembly import Assembly, assemble
from tests.integration.workspace.repositories import Files, git, make_repository

RUN = RunId("0123456789abc")
NOW_US = 1_800_000_000_000_000


class StoppedClock:
    """A clock that always says the same."""

    def now_us(self) -> int:
        return NOW_US

    def monotonic_us(self) -> int:
        return 0


def attempt_of(node: str = "build", number: int = 1) -> AttemptId:
    """Return an attempt's id."""
    return AttemptId(StageId(RUN, NodeId(node)), AttemptNumber(number))


@dataclass(frozen=True, slots=True)
class Site:
    """A workspace and its adapters.

    Args:
        root: the user's checkout.
        assembly: the adapters.
        home: the user's home.
        worktrees: where attempts lie.
    """

    root: Path
    assembly: Assembly
    home: Path
    worktrees: Path

    def git(self, *args: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> str:
        """Run the user's own git in their checkout."""
        return git(self.root, *args, stdin=stdin, ok=ok)

    async def base(self) -> Revision:
        """Resolve and pack HEAD."""
        return await self.assembly.workspace.resolve_base(None, include_dirty=False)

    async def prepare(
        self, node: str = "build", number: int = 1, *, start: Revision | None = None, sandboxed: bool = False
    ) -> PreparedTree:
        """Prepare an attempt on HEAD."""
        base = await self.base()
        return await self.assembly.workspace.prepare(
            attempt_of(node, number), base, start or base, sandboxed=sandboxed
        )

    async def committed(
        self, node: str, files: Files, *, base: Revision | None = None, start: Revision | None = None
    ) -> CommittedTree:
        """Prepare an attempt, change files in it, record and commit it."""
        base = base or await self.base()
        workspace, attempt = self.assembly.workspace, attempt_of(node)
        prepared = await workspace.prepare(attempt, base, start or base, sandboxed=False)
        change(Path(prepared.places.tree), files)
        snapshot = await workspace.snapshot(attempt)
        return await workspace.commit(attempt, snapshot.tree, f"work of {node}\n")

    def stored(self, revision: Revision) -> dict[str, str]:
        """Return the mode and blob of every file of a revision, by path."""
        listed = git(self.root / ".fusion/repo.git", "ls-tree", "-r", "-z", revision.tree)
        entries = (entry.partition("\t") for entry in listed.split("\0") if entry)
        return {path: head.split()[0] + " " + head.split()[2] for head, _, path in entries}

    def body(self, revision: Revision, path: str) -> str:
        """Return the text of a file of a revision."""
        return git(self.root / ".fusion/repo.git", "cat-file", "blob", f"{revision.tree}:{path}")


def change(tree: Path, files: Files) -> None:
    """Write and remove files below a directory."""
    for name, body in files.items():
        path = tree / name
        if body is None:
            path.unlink()
        else:
            assert isinstance(body, bytes)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)


@dataclass(slots=True)
class Sites:
    """Makes workspaces and closes them."""

    directory: Path
    made: list[Site] = field(default_factory=list)

    def make(self, history: Iterable[Files], *, name: str = "project", object_format: str = "sha1") -> Site:
        """Make a repository and a workspace over it."""
        root = make_repository(self.directory / name, history, object_format=object_format)
        return self.over(root)

    def over(self, root: Path) -> Site:
        """Make a workspace over what is already there."""
        home = self.directory / "home"
        home.mkdir(exist_ok=True)
        worktrees = self.directory / "state" / root.name
        assembly = assemble(root=str(root), worktrees=str(worktrees), home=str(home), clock=StoppedClock())
        site = Site(root, assembly, home, worktrees)
        self.made.append(site)
        return site

    async def close(self) -> None:
        """End every long-lived process."""
        for site in self.made:
            await site.assembly.close()
