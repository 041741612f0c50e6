"""What the user's checkout and the rules of its `.git` look like, to tell later whether they changed.

Owns which files count: all that git would list, and of `.git` what steers git (HEAD,
refs, hooks, configuration). Objects and the index are left out, since the user's own
`git status` writes those. Nothing is opened; files are only looked at.
"""

import asyncio
import os

from fusiond.ports.workspace import CheckoutMarks, FileMark
from fusiond.workspace.checkout.source import Source, find_source
from fusiond.workspace.checkout.view import viewing
from fusiond.workspace.disk.layout import Layout
from fusiond.workspace.plumbing.git import Git

LOOK_S = 30.0
"""How long git may take to list the checkout; a FIFO named `.gitignore` would keep it for ever."""

_STEERING = ("HEAD", "config", "config.worktree", "packed-refs", "info", "hooks", "refs")


class UserCheckout:
    """The adapter of `ports.workspace.Checkout`.

    Args:
        git: runs git.
        layout: the workspace.
        home: the user's home, for their own ignore file; None for none.
    """

    def __init__(self, git: Git, layout: Layout, home: str | None) -> None:
        self._git = git
        self._layout = layout
        self._home = home

    async def marks(self) -> CheckoutMarks:
        """Look at every file; see the port."""
        source = await find_source(self._git, self._layout, self._home)
        async with viewing(source, self._layout, index=True) as view:
            args = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
            listed = (await self._git.run(view, *args, timeout_s=LOOK_S)).out
        return await asyncio.to_thread(_marks, source, listed.split(b"\0")[:-1])


def _marks(source: Source, names: list[bytes]) -> CheckoutMarks:
    root = os.fsencode(source.root)
    found = {name: _mark(os.path.join(root, name)) for name in names}
    # A linked worktree has a git directory of its own beside the one that all share.
    places = {source.common_dir: b".git(shared)/", source.git_dir: b".git/"}
    for place, prefix in places.items():
        for path in _steering(os.fsencode(place)):
            found[prefix + os.path.relpath(path, os.fsencode(place))] = _mark(path)
    return {os.fsdecode(name): mark for name, mark in found.items() if mark is not None}


def _steering(place: bytes) -> list[bytes]:
    paths: list[bytes] = []
    for name in _STEERING:
        top = os.path.join(place, os.fsencode(name))
        paths.append(top)
        for directory, _, files in os.walk(top):
            paths += [os.path.join(directory, each) for each in files]
    return paths


def _mark(path: bytes) -> FileMark | None:
    try:
        state = os.lstat(path)
    except OSError:
        return None
    if os.path.isdir(path) and not os.path.islink(path):
        # A directory's times move with what is in it, and that is looked at by itself.
        return None
    return (state.st_ino, state.st_mode, state.st_size, state.st_ctime_ns)
