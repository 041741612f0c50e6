"""The content store's files: layout, links, damage, a full disk, and what a crash leaves."""

import asyncio
import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from fusiond.content.store import FileContentStore
from fusiond.domain.digest import ContentRef, ref_of
from fusiond.domain.errors import CorruptError, FusionError, InvalidError, StorageError
from fusiond.domain.ids import RunId, TenantId
from fusiond.domain.steps.record import Head
from fusiond.domain.steps.turn import OutputRef
from tests.contract.ledger_kits import A, B, batch
from tests.fakes.chains import new_step
from tests.fakes.ledger import MemoryDatabase, MemoryLedger, MemorySmallContent
from tests.fakes.payloads import run_started

LOCAL = TenantId("local")
DATA = bytes(range(256)) * 2_000
REF = ref_of(DATA)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A `.fusion` directory with a store in it; A and B are runs."""

    marker: Path
    store: FileContentStore

    def whole(self, ref: ContentRef) -> Path:
        """Return the file of a digest."""
        return self.marker / "content" / "sha256" / ref.digest[:2] / ref.digest[2:]

    def linked(self, run: RunId, ref: ContentRef) -> Path:
        """Return the name by which a run reads it."""
        return self.marker / "content" / "runs" / run / ref.digest

    def unfinished(self) -> list[str]:
        """Return what is left of unfinished writes."""
        return os.listdir(self.marker / "content" / "tmp")

    def files(self) -> set[str]:
        """Return every file below the content directory."""
        content = self.marker / "content"
        return {str(path.relative_to(content)) for path in content.rglob("*") if not path.is_dir()}

    def log(self, data: bytes) -> Path:
        """Write a live log of run A."""
        path = Path(self.store.log_path(A, "build-1"))
        path.write_bytes(data)
        return path

    async def read(self, run: RunId, ref: ContentRef = REF) -> bytes:
        """Read content of a run."""
        return await self.store.get(LOCAL, run, ref)

    async def page(self, output: OutputRef) -> bytes:
        """Read the first bytes of output of run A."""
        return (await self.store.page(LOCAL, A, output, 0, 10)).data


@pytest.fixture
async def place(tmp_path: Path) -> Place:
    """Return an empty store."""
    database = MemoryDatabase()
    for run in (A, B):
        await MemoryLedger(database).append(batch(run, Head(), new_step(run_started())))
    numbers = count()
    small = MemorySmallContent(database)
    return Place(marker=tmp_path, store=FileContentStore(tmp_path, small, lambda: f"t{next(numbers)}"))


@contextmanager
def no_file_may_grow_past(size: int) -> Iterator[None]:
    """Let every write of this process beyond `size` bytes fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def overwrite(path: Path, data: bytes) -> None:
    """Change a stored file, as a failing disk would."""
    path.chmod(0o600)
    path.write_bytes(data)
    path.chmod(0o400)


async def test_bytes_are_stored_once_and_linked_for_each_run(place: Place) -> None:
    for run in (A, B, A):
        await place.store.put(run, DATA)
    assert place.files() == {
        f"sha256/{REF.digest[:2]}/{REF.digest[2:]}",
        f"runs/{A}/{REF.digest}",
        f"runs/{B}/{REF.digest}",
    }
    facts = place.whole(REF).stat()
    assert (facts.st_nlink, stat.S_IMODE(facts.st_mode)) == (3, 0o400)
    assert place.linked(A, REF).samefile(place.linked(B, REF))


async def test_only_the_owner_sees_the_directories(place: Place) -> None:
    await place.store.put(A, DATA)
    content = place.marker / "content"
    modes = {stat.S_IMODE(path.stat().st_mode) for path in content.rglob("*") if path.is_dir()}
    assert modes == {0o700}
    assert stat.S_IMODE((place.marker / "live").stat().st_mode) == 0o700


async def test_many_store_the_same_bytes_at_once(place: Place) -> None:
    await asyncio.gather(*(place.store.put(run, DATA) for run in (A, B) * 10))
    assert len(place.files()) == 3
    assert await place.read(A) == await place.read(B) == DATA


async def test_log_is_moved_not_copied(place: Place) -> None:
    log = place.log(DATA)
    node = log.stat().st_ino
    output = await place.store.adopt(A, str(log), None)
    assert place.whole(output.content).stat().st_ino == node
    assert stat.S_IMODE(place.whole(output.content).stat().st_mode) == 0o400


async def test_hole_of_a_sparse_log_takes_no_room(place: Place) -> None:
    log = place.log(b"head")
    with log.open("r+b") as stream:
        stream.seek(10 * 1024 * 1024)
        stream.write(b"tail")
    output = await place.store.adopt(A, str(log), (4, 10 * 1024 * 1024 - 4))
    assert place.whole(output.content).read_bytes() == b"headtail"
    assert output == OutputRef(
        content=ref_of(b"headtail"), total_bytes=10 * 1024 * 1024 + 4, hole=(4, 10 * 1024 * 1024 - 4)
    )
    assert not place.unfinished()


@pytest.mark.parametrize(
    "damage", [DATA[:-1], DATA + b"x", b"", b"x" + DATA[1:]], ids=["cut", "longer", "empty", "other"]
)
async def test_damaged_content_is_never_handed_out(place: Place, damage: bytes) -> None:
    await place.store.put(A, DATA)
    output = await place.store.adopt(A, str(place.log(b"some output")), None)
    assert await place.page(output) == b"some outpu"
    overwrite(place.whole(REF), damage)
    with pytest.raises(CorruptError, match="damaged"):
        await place.read(A)
    overwrite(place.whole(output.content), b"same output")
    with pytest.raises(CorruptError, match="damaged"):
        await place.page(output)


async def test_storing_again_mends_what_was_damaged(place: Place) -> None:
    await place.store.put(A, DATA)
    overwrite(place.whole(REF), DATA[:-1] + b"?")
    await place.store.put(A, DATA)
    assert await place.read(A) == DATA
    await place.store.put(B, DATA)
    assert await place.read(B) == DATA
    assert not place.unfinished()


async def test_link_in_the_place_of_content_is_not_followed(place: Place) -> None:
    await place.store.put(A, DATA)
    output = OutputRef(content=REF, total_bytes=len(DATA))
    outside = place.marker / "outside"
    outside.write_bytes(DATA)
    place.linked(A, REF).unlink()
    place.linked(A, REF).symlink_to(outside)
    with pytest.raises(StorageError):
        await place.read(A)
    with pytest.raises(StorageError):
        await place.page(output)


async def test_link_in_the_place_of_a_log_is_not_followed(place: Place) -> None:
    outside = place.marker / "outside"
    outside.write_bytes(b"secret")
    log = Path(place.store.log_path(A, "build-1"))
    log.symlink_to(outside)
    with pytest.raises(StorageError):
        await place.store.adopt(A, str(log), None)
    assert place.files() == set()
    assert stat.S_IMODE(outside.stat().st_mode) != 0o400


async def test_fifo_in_the_place_of_a_log_is_refused_at_once(place: Place) -> None:
    log = Path(place.store.log_path(A, "build-1"))
    os.mkfifo(log)
    with pytest.raises(InvalidError, match="no regular file"):
        await place.store.adopt(A, str(log), None)


async def test_full_disk_leaves_nothing_half_stored(place: Place) -> None:
    before = place.files()
    with no_file_may_grow_past(100_000):
        for _ in range(2):
            with pytest.raises(StorageError) as caught:
                await place.store.put(A, DATA)
            assert caught.value.state == "nothing was stored"
    assert place.files() == before
    assert await place.store.put(A, DATA) == REF
    assert await place.read(A) == DATA


async def test_full_disk_leaves_a_log_where_it_is(place: Place) -> None:
    log = place.log(DATA)
    hole = (300_000, 10)
    with no_file_may_grow_past(100_000), pytest.raises(StorageError):
        await place.store.adopt(A, str(log), hole)
    assert log.read_bytes() == DATA
    assert place.files() == set()
    assert (await place.store.adopt(A, str(log), hole)).hole == hole


async def test_directory_that_is_gone_is_a_storage_error(place: Place) -> None:
    (place.marker / "content" / "tmp").rmdir()
    with pytest.raises(StorageError):
        await place.store.put(A, DATA)


async def test_sweep_removes_what_a_crash_left(place: Place) -> None:
    await place.store.put(A, DATA)
    kept = place.files()
    temporary = place.marker / "content" / "tmp"
    (temporary / "t77").write_bytes(b"half")
    (temporary / "t78.spare").write_bytes(b"other half")
    place.log(b"of a process that is gone")
    assert await place.store.sweep() == 3
    assert place.files() == kept
    assert os.listdir(place.marker / "live") == []


async def test_crash_between_the_two_links_is_mended_by_storing_again(place: Place) -> None:
    await place.store.put(A, DATA)
    place.linked(A, REF).unlink()
    with pytest.raises(FusionError):
        await place.read(A)
    await place.store.put(A, DATA)
    assert await place.read(A) == DATA


async def test_store_opens_where_there_is_one_already(place: Place) -> None:
    await place.store.put(A, DATA)
    database = MemoryDatabase()
    await MemoryLedger(database).append(batch(A, Head(), new_step(run_started())))
    again = FileContentStore(place.marker, MemorySmallContent(database), lambda: "t")
    assert await again.get(LOCAL, A, REF) == DATA
