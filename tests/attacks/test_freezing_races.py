"""Attempts that change their outputs while they are frozen.

A directory is swapped with a link to the outside again and again while it is
staged: not one byte from outside may ever be staged. A mapped file is written
while it is copied: what is said about a copy must be true of the copy.
"""

import asyncio
import ctypes
import hashlib
import mmap
import multiprocessing
import os
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


def _exchange_for_ever(one: str, other: str, ready: object) -> None:
    """Swap two names until this process is ended."""
    libc = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    assert hasattr(ready, "set")
    ready.set()
    while True:
        if libc.renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))


@contextmanager
def exchanging(one: Path, other: Path) -> Iterator[None]:
    """Have a process swap two names all the time."""
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_exchange_for_ever, args=(str(one), str(other), ready), daemon=True)
    process.start()
    try:
        assert ready.wait(60), "the exchanging process did not start"
        yield
        assert process.exitcode is None, "the exchanging process ended early: no race was run"
    finally:
        process.kill()
        process.join()


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

    with exchanging(ground.outputs / swapped, link):
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


def _store_for_ever(path: str, ready: object) -> None:
    """Write to a mapped file until this process is ended: stores leave no trace in its times."""
    assert hasattr(ready, "set")
    with open(path, "r+b") as stream, mmap.mmap(stream.fileno(), 0) as memory:
        size, count = len(memory), 0
        ready.set()
        while True:
            count += 1
            memory[(count * 4099) % size] = count % 251


@pytest.mark.parametrize("size", [5_000, 3 * MIB, 20 * MIB])
def test_what_is_said_about_a_copy_is_true_of_the_copy(tmp_path: Path, size: int) -> None:
    ground = Attempt(tmp_path)
    place = ground.put("x", bytes(size))
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_store_for_ever, args=(str(place), ready), daemon=True)
    process.start()
    digests: set[str] = set()
    try:
        assert ready.wait(60), "the storing process did not start"
        for _ in range(20):
            staged = ground.stage(ground.request(ALL))
            artifact = frozen(staged, "x")
            body = (Path(staged.place) / "outputs/x").read_bytes()
            assert hashlib.sha256(body).hexdigest() == artifact.digest
            assert len(body) == artifact.size == size
            digests.add(artifact.digest)
            assert {each.code for each in staged.problems} <= {ProblemCode.FILE_CHANGED}
            asyncio.run(ground.snapshots.drop(staged))
        assert process.exitcode is None
    finally:
        process.kill()
        process.join()
    assert len(digests) > 1, "the file never changed, so nothing was tried"


def test_a_page_of_such_a_copy_passes_its_check(tmp_path: Path) -> None:
    ground = Attempt(tmp_path)
    ground.put("x", bytes(3 * MIB))
    staged = ground.freeze(ground.request(ALL))
    page = asyncio.run(ground.snapshots.page(staged.attempt, frozen(staged, "x"), MIB + 5, 100))
    assert page.data == bytes(100)


def _append_for_ever(path: str, ready: object) -> None:
    """Let a file grow until this process is ended, and start over from nothing now and then."""
    assert hasattr(ready, "set")
    with open(path, "r+b", buffering=0) as stream:
        ready.set()
        while True:
            stream.writelines(b"x" * 4096 for _ in range(200))
            stream.truncate(0)
            stream.seek(0)


def test_a_file_that_grows_is_never_past_its_bound_and_never_mistaken(tmp_path: Path) -> None:
    bound = 400_000
    ground = Attempt(tmp_path)
    place = ground.put("x", b"")
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_append_for_ever, args=(str(place), ready), daemon=True)
    process.start()
    try:
        assert ready.wait(60), "the growing process did not start"
        for _ in range(100):
            staged = ground.stage(ground.request((output("x", "x", max_size_bytes=bound),)))
            copy = Path(staged.place) / "outputs/x"
            if staged.artifacts:
                body = copy.read_bytes()
                artifact = frozen(staged, "x")
                assert hashlib.sha256(body).hexdigest() == artifact.digest
                assert len(body) == artifact.size <= bound
            elif copy.exists():
                assert copy.stat().st_size <= bound + 1
            if not staged.artifacts:
                assert {each.code for each in staged.problems} & {
                    ProblemCode.SIZE_LIMIT,
                    ProblemCode.FILE_KIND,
                }
            asyncio.run(ground.snapshots.drop(staged))
        assert process.exitcode is None
    finally:
        process.kill()
        process.join()
