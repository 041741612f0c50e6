"""A crash in the middle of a write: what was acknowledged is there, whatever became of the rest."""

import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from fusiond.domain.steps.record import Head
from tests.contract.ledger_kits import A
from tests.integration.ledger.ledger_places import begin, copy, open_ledger, steps_in, turns, wal_of

ACKNOWLEDGED = 25
MORE = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """Files as a crash left them.

    Args:
        path: the copied database.
        synced: length of the write-ahead log when the acknowledged steps were on disk.
        hashes: of all steps, acknowledged or not.
    """

    path: Path
    synced: int
    hashes: tuple[str, ...]

    @property
    def wal(self) -> Path:
        """Return the write-ahead log."""
        return wal_of(self.path)


@pytest.fixture
async def crash(tmp_path: Path) -> Crash:
    """Return a ledger that stopped while steps were being written after the acknowledged ones."""
    path = tmp_path / "state.db"
    async with open_ledger(path) as ledger:
        head = await turns(ledger, await begin(ledger), ACKNOWLEDGED - 1)
        synced = wal_of(path).stat().st_size
        await turns(ledger, head, MORE)
        steps = await ledger.read(A, after_seq=0, limit=1_000)
        copied = copy(path, tmp_path / "copy")
    return Crash(path=copied, synced=synced, hashes=tuple(step.hash for step in steps))


async def surviving(crash: Crash) -> int:
    """Open what is left; return how many steps there are after checking that they are the first ones."""
    steps = await steps_in(crash.path)
    assert tuple(step.hash for step in steps) == crash.hashes[: len(steps)]
    return len(steps)


@pytest.mark.parametrize("part", range(8))
async def test_acknowledged_steps_survive_a_log_cut_anywhere_behind_them(crash: Crash, part: int) -> None:
    whole = crash.wal.read_bytes()
    chance = random.Random(part)
    behind = len(whole) - crash.synced
    cuts = sorted(crash.synced + behind * part // 8 + chance.randrange(behind // 8 + 1) for _ in range(3))
    cuts += [crash.synced, crash.synced + 1, len(whole) - 1] if part == 0 else []
    for cut in cuts:
        restore(crash, whole[:cut])
        assert ACKNOWLEDGED <= await surviving(crash) <= ACKNOWLEDGED + MORE


@pytest.mark.parametrize("part", range(4))
async def test_acknowledged_steps_survive_noise_behind_them(crash: Crash, part: int) -> None:
    whole = crash.wal.read_bytes()
    chance = random.Random(part)
    at = crash.synced + chance.randrange(len(whole) - crash.synced)
    flipped = bytes([whole[at] ^ 0x40])
    for torn in (
        whole[:at] + flipped + whole[at + 1 :],
        whole[:at] + bytes(len(whole) - at),
        whole[: crash.synced] + chance.randbytes(len(whole) - crash.synced),
    ):
        restore(crash, torn)
        assert ACKNOWLEDGED <= await surviving(crash) <= ACKNOWLEDGED + MORE


@pytest.mark.parametrize("share", [0, 1, 3, 6, 9])
async def test_even_a_log_that_lost_acknowledged_bytes_opens_with_a_whole_beginning(
    crash: Crash, share: int
) -> None:
    """Nothing can bring back what a lying disk lost; the chain up to there still holds."""
    whole = crash.wal.read_bytes()
    # From the first step on: before it there is no ledger yet.
    restore(crash, whole[: crash.synced * share // 10])
    assert await surviving(crash) <= ACKNOWLEDGED


async def test_ledger_goes_on_after_a_torn_write(crash: Crash) -> None:
    restore(crash, crash.wal.read_bytes()[: crash.synced + 100])
    async with open_ledger(crash.path, check=True) as ledger:
        steps = await ledger.read(A, after_seq=0, limit=1_000)
        assert len(steps) == ACKNOWLEDGED
        head = await turns(ledger, Head(seq=len(steps), hash=steps[-1].hash), 5)
        assert await ledger.head() == ACKNOWLEDGED + 5
    assert len(await steps_in(crash.path)) == head.seq


def restore(crash: Crash, wal: bytes) -> None:
    """Bring the copy back to the crash, with another write-ahead log."""
    base = crash.path.with_name("base")
    if not base.exists():
        base.write_bytes(crash.path.read_bytes())
    crash.path.write_bytes(base.read_bytes())
    crash.path.with_name(f"{crash.path.name}-shm").unlink(missing_ok=True)
    crash.wal.write_bytes(wal)
