"""Attempts that change their outputs while they are frozen.

A directory is swapped with a link to the outside again and again while it is
staged: not one byte from outside may ever be staged. A mapped file is written
while it is copied: what is said about a copy must be true of the copy.
"""

import asyncio
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fusiond.domain.artifacts import ProblemCode
from fusiond.snapshots.disk import remove_tree
from tests.fakes.freezing import ALL, MIB, Attempt, entry, frozen, output

SECRET = b"secret-bytes-from-outside"
HONEST = b"honest-bytes"

RENAME_EXCHANGE = 2
AT_FDCWD = -100


EXCHANGE = f"""
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
names = os.fsencode(sys.argv[1]), os.fsencode(sys.argv[2])
print("ready", flush=True)
while libc.renameat2({AT_FDCWD}, names[0], {AT_FDCWD}, names[1], {RENAME_EXCHANGE}) == 0:
    pass
sys.exit(os.strerror(ctypes.get_errno()))
"""
"""Swaps two names until it is ended."""

STORE = """
import mmap, sys
with open(sys.argv[1], "r+b") as stream, mmap.mmap(stream.fileno(), 0) as memory:
    size, count = len(memory), 0
    print("ready", flush=True)
    while True:
        count += 1
        memory[(count * 4099) % size] = count % 251
"""
"""Writes to a mapped file until it is ended: stores leave no trace in its times."""

GROW = """
import sys
with open(sys.argv[1], "r+b", buffering=0) as stream:
    print("ready", flush=True)
    while True:
        for _ in range(200):
            stream.write(b"x" * 4096)
        stream.truncate(0)
        stream.seek(0)
"""
"""Lets a file grow until it is ended, and starts over from nothing now and then."""


@contextmanager
def meanwhile(script: str, *arguments: Path) -> Iterator[None]:
    """Run a script of the attempt's beside the block, and see that it ran to the end of it."""
    command = [sys.executable, "-I", "-c", script, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield
            assert process.poll() is None, "the other side ended early: there was no race"
        finally:
            process.kill()


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Attempt]:
    """A small tree: `d/x` inside, and a `d` outside that must never be read.

    In memory where there is such a place: some disks need much time to make and
    remove a hundred thousand small trees.
    """
    memory = Path("/dev/shm")
    place = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else tmp_path))
    made = Attempt(place)
    made.put("d/x", HONEST)
    made.put("d/e/y", HONEST)
    outside = place / "outside"
    (outside / "e").mkdir(parents=True)
    (outside / "x").write_bytes(SECRET)
    (outside / "e/y").write_bytes(SECRET)
    yield made
    remove_tree(str(place))


def race(ground: Attempt, tries: int, *, swapped: str, listed: bool) -> dict[str, int]:
    """Stage again and again; return how often what was swapped in was seen, and how often not."""
    seen = {"honest": 0, "refused": 0}
    if listed:
        ground.tell([entry("d/x", HONEST), entry("d/e/y", HONEST)])
        request = ground.request((), supervised=False)
    else:
        request = ground.request((output("x", "d/x"), output("rest", collect="d/e/*", optional=True)))
    link = ground.place / "link"
    link.symlink_to(ground.place / "outside" / Path(swapped).relative_to("d"))

    async def stage_all() -> None:
        for _ in range(tries):
            staged = await ground.snapshots.stage(request)
            for each in staged.artifacts:
                body = (Path(staged.place) / "outputs" / each.path).read_bytes()
                assert body == HONEST, f"bytes from outside were staged as {each.path}"
                assert each.digest == hashlib.sha256(HONEST).hexdigest()
            seen["refused" if staged.problems else "honest"] += 1
            await ground.snapshots.drop(staged)

    with meanwhile(EXCHANGE, ground.outputs / swapped, link):
        asyncio.run(stage_all())
    return seen


CASES = pytest.mark.parametrize(
    "swapped,listed", [("d", True), ("d", False), ("d/e", True), ("d/x", True), ("d/x", False)]
)


@CASES
def test_no_byte_from_outside_is_staged(ground: Attempt, swapped: str, *, listed: bool) -> None:
    seen = race(ground, 400, swapped=swapped, listed=listed)
    assert seen["refused"], "the race was never lost, so nothing was tried"


@pytest.mark.long
@CASES
def test_no_byte_from_outside_is_staged_in_100_000_tries(
    ground: Attempt, swapped: str, *, listed: bool
) -> None:
    seen = race(ground, 20_000, swapped=swapped, listed=listed)
    assert seen["refused"]
    assert seen["honest"]


@pytest.mark.parametrize("size", [5_000, 3 * MIB, 20 * MIB])
def test_what_is_said_about_a_copy_is_true_of_the_copy(tmp_path: Path, size: int) -> None:
    ground = Attempt(tmp_path)
    place = ground.put("x", bytes(size))
    digests: set[str] = set()
    with meanwhile(STORE, place):
        for _ in range(20):
            staged = ground.stage(ground.request(ALL))
            artifact = frozen(staged, "x")
            body = (Path(staged.place) / "outputs/x").read_bytes()
            assert hashlib.sha256(body).hexdigest() == artifact.digest
            assert len(body) == artifact.size == size
            digests.add(artifact.digest)
            assert {each.code for each in staged.problems} <= {ProblemCode.FILE_CHANGED}
            asyncio.run(ground.snapshots.drop(staged))
    assert len(digests) > 1, "the file never changed, so nothing was tried"


def test_a_page_of_such_a_copy_passes_its_check(tmp_path: Path) -> None:
    ground = Attempt(tmp_path)
    ground.put("x", bytes(3 * MIB))
    staged = ground.freeze(ground.request(ALL))
    page = asyncio.run(ground.snapshots.page(staged.attempt, frozen(staged, "x"), MIB + 5, 100))
    assert page.data == bytes(100)


def test_a_file_that_grows_is_never_past_its_bound_and_never_mistaken(tmp_path: Path) -> None:
    bound = 400_000
    ground = Attempt(tmp_path)
    place = ground.put("x", b"")
    with meanwhile(GROW, place):
        for _ in range(100):
            staged = ground.stage(ground.request((output("x", "x", max_size_bytes=bound),)))
            copy = Path(staged.place) / "outputs/x"
            if staged.artifacts:
                body = copy.read_bytes()
                artifact = frozen(staged, "x")
                assert hashlib.sha256(body).hexdigest() == artifact.digest
                assert len(body) == artifact.size <= bound
            else:
                told = {each.code for each in staged.problems}
                assert told & {ProblemCode.SIZE_LIMIT, ProblemCode.FILE_KIND}
                assert not copy.exists() or copy.stat().st_size <= bound + 1
            asyncio.run(ground.snapshots.drop(staged))
