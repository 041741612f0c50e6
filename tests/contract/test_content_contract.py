"""What every content store does: the one suite over the in-memory adapter and the files."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pytest

from fusiond.content.store import FileContentStore
from fusiond.domain.digest import ContentRef, Digest, digest_bytes, ref_of
from fusiond.domain.errors import CorruptError, ErasedError, InvalidError, NotFoundError
from fusiond.domain.ids import RunId, TenantId
from fusiond.domain.steps.after import ContentErased
from fusiond.domain.steps.record import Head
from fusiond.domain.steps.turn import OutputRef
from fusiond.ports.content import ContentStore, Page
from tests.contract.ledger_kits import A, B, batch
from tests.fakes.chains import new_step
from tests.fakes.content import MemoryContent
from tests.fakes.ledger import MemoryDatabase, MemoryLedger, MemorySmallContent
from tests.fakes.payloads import run_started

LOCAL = TenantId("local")
OTHER = TenantId("other")
NOBODYS = RunId("01hzy3v8k00nn")
LARGE = bytes(range(256)) * 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentKit:
    """A store and the ledger whose runs may read from it; A and B are runs of tenant `local`."""

    store: ContentStore
    ledger: MemoryLedger

    def log(self, data: bytes, name: str = "build-1") -> str:
        """Write a live log as a launcher does; return its path."""
        path = self.store.log_path(A, name)
        Path(path).write_bytes(data)
        return path

    async def adopted(self, data: bytes, hole: tuple[int, int] | None = None) -> OutputRef:
        """Return output of run A."""
        return await self.store.adopt(A, self.log(data), hole)

    async def pages(self, output: OutputRef, limit: int) -> list[Page]:
        """Read output from its start to its end."""
        pages = [await self.store.page(LOCAL, A, output, 0, limit)]
        while (end := pages[-1].offset + len(pages[-1].data)) < output.total_bytes:
            pages.append(await self.store.page(LOCAL, A, output, end, limit))
        return pages


def memory(place: Path, small: MemorySmallContent) -> ContentStore:
    """Return the fake."""
    return MemoryContent(place, small)


def files(place: Path, small: MemorySmallContent) -> ContentStore:
    """Return the real one."""
    numbers = count()
    return FileContentStore(place, small, lambda: f"t{next(numbers)}")


@pytest.fixture(params=[memory, files])
async def kit(request: pytest.FixtureRequest, tmp_path: Path) -> ContentKit:
    """Return one adapter over a ledger with two runs."""
    make: Callable[[Path, MemorySmallContent], ContentStore] = request.param
    database = MemoryDatabase()
    ledger = MemoryLedger(database)
    for run in (A, B):
        started = batch(run, Head(), new_step(run_started()), content=(b"small",) if run == A else ())
        await ledger.append(started)
    return ContentKit(store=make(tmp_path, MemorySmallContent(database)), ledger=ledger)


async def test_content_comes_back_as_it_was(kit: ContentKit) -> None:
    for data in (LARGE, b"", b"x"):
        ref = await kit.store.put(A, data)
        assert ref == ref_of(data)
        assert await kit.store.get(LOCAL, A, ref) == data


async def test_same_bytes_are_stored_again_without_complaint(kit: ContentKit) -> None:
    refs = {await kit.store.put(run, LARGE) for run in (A, A, B)}
    assert refs == {ref_of(LARGE)}
    assert await kit.store.get(LOCAL, A, ref_of(LARGE)) == LARGE
    assert await kit.store.get(LOCAL, B, ref_of(LARGE)) == LARGE


async def test_digest_alone_opens_nothing(kit: ContentKit) -> None:
    ref = await kit.store.put(A, LARGE)
    for tenant, run in ((LOCAL, B), (OTHER, A), (OTHER, B), (LOCAL, NOBODYS)):
        with pytest.raises(NotFoundError):
            await kit.store.get(tenant, run, ref)


async def test_output_of_one_run_is_not_paged_by_another(kit: ContentKit) -> None:
    output = await kit.adopted(LARGE)
    for tenant, run in ((LOCAL, B), (OTHER, A), (LOCAL, NOBODYS)):
        with pytest.raises(NotFoundError):
            await kit.store.page(tenant, run, output, 0, 10)


async def test_reference_with_another_size_is_not_served(kit: ContentKit) -> None:
    ref = await kit.store.put(A, LARGE)
    for size in (0, ref.size - 1, ref.size + 1):
        with pytest.raises(CorruptError):
            await kit.store.get(LOCAL, A, replace(ref, size=size))


async def test_small_content_is_found_where_it_was_committed(kit: ContentKit) -> None:
    assert await kit.store.get(LOCAL, A, ref_of(b"small")) == b"small"
    with pytest.raises(NotFoundError):
        await kit.store.get(LOCAL, B, ref_of(b"small"))


async def test_erased_content_is_told_so(kit: ContentKit) -> None:
    steps = await kit.ledger.read(A, after_seq=0, limit=1)
    erased = ContentErased(digests=(digest_bytes(b"small"),), by="me", reason="")
    await kit.ledger.append(batch(A, Head(seq=1, hash=steps[0].hash), new_step(erased)))
    with pytest.raises(ErasedError):
        await kit.store.get(LOCAL, A, ref_of(b"small"))


async def test_unknown_content_is_not_found(kit: ContentKit) -> None:
    with pytest.raises(NotFoundError):
        await kit.store.get(LOCAL, A, ref_of(b"never stored"))
    unknown = OutputRef(content=ref_of(b"never stored"), total_bytes=12)
    with pytest.raises(NotFoundError):
        await kit.store.page(LOCAL, A, unknown, 0, 10)


@pytest.mark.parametrize("name", ["build-1", "a", "build-12-gate_lint", "a" * 200])
async def test_log_has_a_place_of_its_own(kit: ContentKit, name: str) -> None:
    paths = {kit.store.log_path(run, each) for run in (A, B) for each in (name, "other")}
    assert len(paths) == 4
    assert all(Path(path).parent.is_dir() for path in paths)


@pytest.mark.parametrize(
    "name", ["", "../up", "a/b", ".", "A", "a.b", "a b", "a\n", "-a", "a" * 201, "\u00e9", "a\x00"]
)
async def test_log_name_that_is_none_is_refused(kit: ContentKit, name: str) -> None:
    with pytest.raises(InvalidError):
        kit.store.log_path(A, name)


@pytest.mark.parametrize("data", [b"", b"one line\n", LARGE], ids=["empty", "line", "large"])
async def test_finished_log_becomes_content(kit: ContentKit, data: bytes) -> None:
    path = kit.log(data)
    output = await kit.store.adopt(A, path, None)
    assert output == OutputRef(content=ref_of(data), total_bytes=len(data), hole=None)
    assert not Path(path).exists()
    assert await kit.store.get(LOCAL, A, output.content) == data
    assert b"".join(page.data for page in await kit.pages(output, 100_000)) == data


async def test_equal_outputs_are_one_content(kit: ContentKit) -> None:
    first, second = await kit.adopted(b"same"), await kit.adopted(b"same")
    assert first == second
    assert await kit.store.get(LOCAL, A, second.content) == b"same"


@pytest.mark.parametrize(
    "hole", [(100, 5_000), (0, 100), (len(LARGE) - 10, 10), (0, len(LARGE)), (50, 0)], ids=str
)
async def test_bytes_of_the_hole_are_left_out(kit: ContentKit, hole: tuple[int, int]) -> None:
    start, length = hole
    data = LARGE[:start] + b"\0" * length + LARGE[start + length :]
    output = await kit.adopted(data, hole)
    kept = LARGE[:start] + LARGE[start + length :]
    assert output == OutputRef(content=ref_of(kept), total_bytes=len(LARGE), hole=hole)
    assert await kit.store.get(LOCAL, A, output.content) == kept
    for page in await kit.pages(output, 60_000):
        assert page.total == len(LARGE)
        assert page.data == LARGE[page.offset : page.offset + len(page.data)]
    assert b"".join(page.data for page in await kit.pages(output, 60_000)) == kept


async def test_page_never_reaches_over_the_hole(kit: ContentKit) -> None:
    output = await kit.adopted(b"head" + b"\0" * 90 + b"tail!!", (4, 90))
    read = [await kit.store.page(LOCAL, A, output, offset, 50) for offset in (0, 3, 4, 50, 93, 94, 97, 100)]
    assert [(page.offset, page.data) for page in read] == [
        (0, b"head"),
        (3, b"d"),
        (94, b"tail!!"),
        (94, b"tail!!"),
        (94, b"tail!!"),
        (94, b"tail!!"),
        (97, b"l!!"),
        (100, b""),
    ]


async def test_page_keeps_within_its_bounds(kit: ContentKit) -> None:
    output = await kit.adopted(b"0123456789")
    read = [await kit.store.page(LOCAL, A, output, offset, limit) for offset, limit in BOUNDS]
    assert [(page.offset, page.data) for page in read] == [
        (0, b"01"),
        (8, b"89"),
        (10, b""),
        (10, b""),
        (0, b"0123456789"),
        (2, b""),
        (2, b""),
    ]


BOUNDS = [(0, 2), (8, 100), (10, 5), (11, 5), (-5, 100), (2, 0), (2, -1)]


async def test_page_is_at_most_one_mib(kit: ContentKit) -> None:
    output = await kit.adopted(b"x" * (3 * 1024 * 1024))
    assert len((await kit.store.page(LOCAL, A, output, 5, 10**9)).data) == 1024 * 1024


async def test_only_live_logs_are_adopted(kit: ContentKit, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "secret.log"
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(b"not yours")
    inside = Path(kit.store.log_path(A, "build-1")).parent
    for path in (elsewhere, inside / ".." / "elsewhere" / "secret.log", inside):
        with pytest.raises((InvalidError, NotFoundError)):
            await kit.store.adopt(A, str(path), None)
    assert elsewhere.read_bytes() == b"not yours"


async def test_log_that_is_not_there_is_not_found(kit: ContentKit) -> None:
    with pytest.raises(NotFoundError):
        await kit.store.adopt(A, kit.store.log_path(A, "build-1"), None)


@pytest.mark.parametrize("hole", [(0, 11), (10, 1), (11, 0), (-1, 2), (3, -1)], ids=str)
async def test_hole_that_is_not_in_the_log_is_refused(kit: ContentKit, hole: tuple[int, int]) -> None:
    path = kit.log(b"0123456789")
    with pytest.raises(InvalidError):
        await kit.store.adopt(A, path, hole)
    assert Path(path).read_bytes() == b"0123456789"


async def test_sweep_leaves_what_is_finished(kit: ContentKit) -> None:
    ref = await kit.store.put(A, LARGE)
    output = await kit.adopted(b"output")
    path = kit.log(b"of a process that is gone", "test-1")
    assert await kit.store.sweep() == 1
    assert not Path(path).exists()
    assert await kit.store.get(LOCAL, A, ref) == LARGE
    assert (await kit.store.page(LOCAL, A, output, 0, 10)).data == b"output"
    assert await kit.store.sweep() == 0


async def test_reference_made_up_by_somebody_is_not_followed(kit: ContentKit) -> None:
    for digest in ("../" * 5 + "etc/passwd", "", "0" * 63, "G" * 64):
        ref = ContentRef(digest=Digest(digest), size=1)
        with pytest.raises((NotFoundError, InvalidError)):
            await kit.store.get(LOCAL, A, ref)
