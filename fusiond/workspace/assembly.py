"""Puts the workspace package together for the daemon's bootstrap.

Owns which parts share a runner, a layout and a store. It decides nothing else.
"""

from fusiond.domain.records import dataclass
from fusiond.ports.clock import Clock
from fusiond.workspace.attempts import Attempts
from fusiond.workspace.bases import Bases
from fusiond.workspace.basing import Basing
from fusiond.workspace.checkout.marks import UserCheckout
from fusiond.workspace.code import GitCode
from fusiond.workspace.delivery import GitResults
from fusiond.workspace.disk.layout import Layout
from fusiond.workspace.plumbing.frozen import FrozenObjects
from fusiond.workspace.plumbing.git import Git
from fusiond.workspace.plumbing.objects import ObjectReader
from fusiond.workspace.recording import MAX_FILE_BYTES
from fusiond.workspace.setup_cache import FileSetupCache
from fusiond.workspace.store import Store
from fusiond.workspace.workspace import GitWorkspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """The adapters of `ports.workspace` over one workspace, and what is to be closed with them."""

    workspace: GitWorkspace
    checkout: UserCheckout
    results: GitResults
    setups: FileSetupCache
    code: GitCode
    store: Store
    reader: ObjectReader

    async def close(self) -> None:
        """End the long-lived processes; everything else is closed after each call."""
        await self.store.close()
        await self.reader.close()
        self.code.objects.clear()


def assemble(
    *,
    root: str,
    worktrees: str,
    home: str | None,
    clock: Clock,
    git: Git | None = None,
    max_file_bytes: int = MAX_FILE_BYTES,
) -> Assembly:
    """Make the adapters of one workspace; nothing is run or written yet.

    Args:
        root: real path of the directory that holds `.fusion`.
        worktrees: `$XDG_STATE_HOME/fusion/worktrees/<workspace>`, real path.
        home: the user's home, for their ignore file and identity; None for none.
        clock: dates merge commits.
        git: runs git; the one on PATH where None.
        max_file_bytes: the largest file a revision takes.
    """
    git = git or Git()
    layout = Layout(root=root, worktrees=worktrees)
    store = Store(git, layout)
    bases = Bases(git, layout)
    attempts = Attempts(git, layout, bases, store)
    basing = Basing(git, layout, bases, store, home)
    reader = ObjectReader(git, store.place, store.generation)
    return Assembly(
        workspace=GitWorkspace(
            git=git,
            layout=layout,
            store=store,
            basing=basing,
            attempts=attempts,
            max_file_bytes=max_file_bytes,
        ),
        checkout=UserCheckout(git, layout, home),
        results=GitResults(git=git, layout=layout, store=store, clock=clock, home=home),
        setups=FileSetupCache(git=git, layout=layout, attempts=attempts),
        code=GitCode(git=git, place=store.place, objects=FrozenObjects(reader, layout.making)),
        store=store,
        reader=reader,
    )
