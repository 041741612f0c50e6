"""A program for `test_workspace_recording`: records a tree with unreadable files.

Prints the paths that the refusal names. Root can read everything, so it becomes nobody
first; by then it must have imported whatever it needs, for a Python in root's home is
out of reach after that.
"""

import asyncio
import concurrent.futures.thread
import os
import sys
from pathlib import Path

from fusiond.domain.errors import RefusedError
from tests.integration.workspace.repositories import make_repository
from tests.integration.workspace.site import Sites, attempt_of, change

NOBODY = 65534
PRELOADED = (concurrent.futures.thread,)


def become_nobody(place: Path) -> None:
    """Give a directory away and go with it."""
    os.chown(place, NOBODY, NOBODY)
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    os.environ["GIT_CONFIG_GLOBAL"] = "/dev/null"


async def refused_paths(place: Path) -> str:
    """Make an attempt, close files and directories in it, and return what is refused."""
    make_repository(place / "project", [{"README.md": b"x\n", "src/app.py": b"x\n"}])
    sites = Sites(place)
    site = sites.over(place / "project")
    try:
        tree = Path((await site.prepare()).places.tree)
        change(tree, {"sealed.txt": b"x\n", "closed/inside.txt": b"x\n"})
        (tree / "sealed.txt").chmod(0)
        (tree / "closed").chmod(0)
        (tree / "src").chmod(0)
        try:
            await site.assembly.workspace.snapshot(attempt_of())
        except RefusedError as error:
            await site.assembly.workspace.discard(attempt_of())
            assert not tree.exists()
            return error.fields["paths"]
        return "nothing was refused"
    finally:
        await sites.close()


if __name__ == "__main__":
    where = Path(sys.argv[1])
    if os.getuid() == 0:
        become_nobody(where)
    print(asyncio.run(refused_paths(where)))  # noqa: T201
