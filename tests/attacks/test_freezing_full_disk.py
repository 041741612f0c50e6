"""Disks that are full, failing or over quota while an attempt is frozen.

Every point at which bytes become durable fails in turn: the outcome is always a
StorageError, nothing is half published, nothing is left behind, and the same
attempt can be frozen once there is room.
"""

import asyncio
import ctypes
import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fusiond.domain.errors import StorageError
from fusiond.snapshots.disk import MAX_SINGLE_SYNCS, Disk
from fusiond.snapshots.kernel import rename_exclusive, sync_file_system
from tests.fakes.freezing import MIB, Attempt

ROOT = Path(__file__).parents[2]


class FailingDisk:
    """A disk on which the n-th call of any kind fails; it counts them all."""

    def __init__(self, fail_at: int, code: int = errno.ENOSPC, *, short: bool = False) -> None:
        self.calls = 0
        self._fail_at = fail_at
        self._code = code
        self._short = short

    def disk(self) -> Disk:
        """Return the calls that fail."""
        return Disk(
            write=self._write,
            fsync=self._fsync,
            sync_file_system=self._sync_file_system,
            rename_exclusive=self._rename,
        )

    def _count(self) -> None:
        self.calls += 1
        if self.calls == self._fail_at:
            raise OSError(self._code, os.strerror(self._code))

    def _write(self, descriptor: int, data: bytes | memoryview) -> int:
        self._count()
        # As a real disk does, fill up in the middle of a write first.
        if self._short and len(data) > 1:
            return os.write(descriptor, data[: len(data) // 2])
        return os.write(descriptor, data)

    def _fsync(self, descriptor: int) -> None:
        self._count()
        os.fsync(descriptor)

    def _sync_file_system(self, descriptor: int) -> bool:
        self._count()
        return sync_file_system(descriptor)

    def _rename(self, source: str, target: str) -> None:
        self._count()
        rename_exclusive(source, target)


def freeze(ground: Attempt) -> None:
    ground.freeze(ground.request())


def few(ground: Attempt) -> None:
    ground.put("d/a.txt", "a")
    ground.put("b.bin", os.urandom(300_000))


def many(ground: Attempt) -> None:
    for index in range(MAX_SINGLE_SYNCS + 1):
        ground.put(f"d/{index}", "x")


def calls_of_a_freeze(place: Path, fill: Callable[[Attempt], None], *, short: bool = False) -> int:
    place.mkdir()
    counter = FailingDisk(0, short=short)
    ground = Attempt(place, disk=counter.disk())
    fill(ground)
    freeze(ground)
    return counter.calls


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
@pytest.mark.parametrize("fill,short", [(few, False), (few, True), (many, False)])
def test_a_failure_at_every_single_point(
    tmp_path: Path, fill: Callable[[Attempt], None], code: int, *, short: bool
) -> None:
    total = calls_of_a_freeze(tmp_path / "count", fill, short=short)
    assert total > 8
    step = max(1, total // 25)
    points = {*range(1, total, step), *range(max(1, total - 12), total + 1)}
    for point in sorted(points):
        place = tmp_path / f"at{point}"
        place.mkdir()
        ground = Attempt(place, disk=FailingDisk(point, code, short=short).disk())
        fill(ground)
        with pytest.raises(StorageError) as caught:
            freeze(ground)
        assert caught.value.fields["errno"] == errno.errorcode[code]
        assert not ground.version().exists(), f"half published at call {point}"
        assert not [*(ground.stages / ".staging").iterdir()], f"left something at call {point}"
        freeze(ground)
        assert ground.version().exists()


def test_a_disk_that_takes_no_bytes_and_says_nothing(tmp_path: Path) -> None:
    ground = Attempt(tmp_path, disk=Disk(write=lambda _descriptor, _data: 0))
    ground.put("a.txt")
    with pytest.raises(StorageError):
        freeze(ground)
    assert ground.leftovers() == [".staging"]


def test_a_check_does_not_need_a_disk(tmp_path: Path) -> None:
    ground = Attempt(tmp_path, disk=FailingDisk(1).disk())
    ground.put("a.txt")
    assert ground.check(ground.request()).problems == ()


@contextmanager
def small_file_system(place: Path, size: int) -> Iterator[bool]:
    """Mount `size` bytes of memory at `place`; say whether this user may."""
    libc = ctypes.CDLL(None, use_errno=True)
    place.mkdir()
    if libc.mount(b"tmpfs", os.fsencode(place), b"tmpfs", 0, f"size={size}".encode()) != 0:
        assert ctypes.get_errno() in (errno.EPERM, errno.EACCES), os.strerror(ctypes.get_errno())
        yield False
        return
    try:
        yield True
    finally:
        assert libc.umount2(os.fsencode(place), 2) == 0


LIMITED = """
import resource, sys
from pathlib import Path
from tests.attacks.test_freezing_full_disk import fills_up
resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
fills_up(Path(sys.argv[1]), Path(sys.argv[2]))
print("done")
"""


def fills_up(place: Path, stages: Path) -> None:
    """Freeze more than there is room for, then something that fits."""
    ground = Attempt(place, stages=stages)
    size = (place / "source").stat().st_size
    (place / "source").rename(ground.outputs / "big.bin")
    assert size > 2 * MIB
    with pytest.raises(StorageError) as caught:
        freeze(ground)
    assert caught.value.fields["errno"] in ("ENOSPC", "EFBIG")
    assert ground.leftovers() == [".staging"]
    ground.put("big.bin", "small now")
    freeze(ground)
    assert (ground.version() / "outputs/big.bin").read_text() == "small now"


def test_a_real_disk_that_fills_up(tmp_path: Path) -> None:
    """On a small file system where this user may mount one, else under a limit on file sizes."""
    place = tmp_path / "attempt"
    place.mkdir()
    (place / "source").write_bytes(os.urandom(3 * MIB))
    with small_file_system(tmp_path / "small", 2 * MIB) as mounted:
        if mounted:
            fills_up(place, tmp_path / "small/stages")
            return
    command = [sys.executable, "-c", LIMITED, str(place), str(tmp_path / "stages")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"


def test_a_file_past_the_largest_allowed_size(tmp_path: Path) -> None:
    """The way without a mount is run everywhere, so that it keeps working."""
    place = tmp_path / "attempt"
    place.mkdir()
    (place / "source").write_bytes(os.urandom(3 * MIB))
    command = [sys.executable, "-c", LIMITED, str(place), str(tmp_path / "stages")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"


def test_staged_bytes_that_vanish_before_they_are_published(tmp_path: Path) -> None:
    ground = Attempt(tmp_path)
    ground.put("a.txt")
    staged = ground.stage(ground.request())
    asyncio.run(ground.snapshots.drop(staged))
    with pytest.raises(StorageError):
        asyncio.run(ground.snapshots.publish(staged))
    assert not ground.version().exists()
