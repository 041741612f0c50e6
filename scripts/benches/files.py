"""Output capture, spawning and freezing, beside the least that the machine must do."""

import asyncio
import hashlib
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from fusiond.domain.digest import Digest
from fusiond.domain.flow import OutputSpec
from fusiond.domain.ids import AttemptId, AttemptNumber, NodeId, OutputName, RunId, StageId
from fusiond.domain.launch import LaunchSpec
from fusiond.ports.snapshots import FreezeRequest
from fusiond.sandbox.host import this_host
from fusiond.sandbox.launcher import SandboxLauncher
from fusiond.sandbox.probe import open_launcher
from fusiond.snapshots.store import FileSnapshots
from scripts.benches.measuring import Figure, at_least, at_most, in_turn, pace

GIGABYTE = 1 << 30
SMALL_FILES = 10_000
PRODUCER = "seq 1 120000000 | head -c 1073741824"
WRITER = "head -c 1073741824 /dev/zero"
CHUNK = 1024 * 1024


def capture() -> list[Figure]:
    """Measure 1 GiB of output into its log, beside `cmd | cat > file`."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="fb-") as place:
        launcher = asyncio.run(_launcher(place))
        for name, command, share in (("a real producer", PRODUCER, 0.8), ("a bare writer", WRITER, 0.5)):
            found = in_turn(
                {
                    "floor": partial(_piped, place, command),
                    "candidate": partial(_capture_burst, launcher, place, command),
                },
                bursts=5,
            )
            figures.append(at_least(f"capture of 1 GiB from {name}", "MB/s", share, found))
    return figures


async def _launcher(place: str) -> SandboxLauncher:
    launcher, _ = await open_launcher(this_host(Path(place, "home"), Path(place, "run")))
    return launcher


def _piped(place: str, command: str) -> float:
    target = Path(place, "piped")
    began = time.perf_counter()
    subprocess.run(["/bin/sh", "-c", f"{{ {command}; }} | cat > {target}"], check=True)
    elapsed = time.perf_counter() - began
    target.unlink()
    return GIGABYTE / elapsed / 1e6


def _capture_burst(launcher: SandboxLauncher, place: str, command: str) -> float:
    return asyncio.run(_captured(launcher, place, command))


async def _captured(launcher: SandboxLauncher, place: str, command: str) -> float:
    log = Path(place, f"log-{time.monotonic_ns()}")
    began = time.perf_counter()
    result = await launcher.launch(_spec(log, command), asyncio.Event())
    elapsed = time.perf_counter() - began
    assert result.output_bytes == GIGABYTE, result
    log.unlink()
    return GIGABYTE / elapsed / 1e6


def _spec(log: Path, command: str) -> LaunchSpec:
    return LaunchSpec(
        argv=("/bin/sh", "-c", command),
        cwd="/",
        env=(("PATH", "/usr/bin:/bin"),),
        mounts=(),
        network=False,
        timeout_us=600_000_000,
        log_path=str(log),
        marker="bench/1",
        output_cap_bytes=2 * GIGABYTE,
    )


def spawn() -> list[Figure]:
    """Measure launching `true` behind walls, beside posix_spawn and the launcher's interpreter."""
    with tempfile.TemporaryDirectory(prefix="fb-") as place:
        launcher = asyncio.run(_launcher(place))
        found = in_turn(
            {
                "floor": _spawned,
                "candidate": lambda: asyncio.run(_launched(launcher, place)),
                "pace": pace,
            }
        )
    return [at_most("launch of `true` behind walls", "ms", 1.3, found, extra=40)]


def _spawned() -> float:
    began = time.perf_counter()
    for _ in range(20):
        pid = os.posix_spawn("/bin/true", ["true"], {})
        os.waitpid(pid, 0)
    return (time.perf_counter() - began) / 20 * 1e3


async def _launched(launcher: SandboxLauncher, place: str) -> float:
    began = time.perf_counter()
    for number in range(10):
        log = Path(place, f"true-{time.monotonic_ns()}-{number}")
        await launcher.launch(_spec(log, "true"), asyncio.Event())
    return (time.perf_counter() - began) / 10 * 1e3


def freeze() -> list[Figure]:
    """Measure freezing one file of 1 GiB, and 10,000 small ones, durably."""
    return [_freeze_large(), _freeze_small()]


def _freeze_large() -> Figure:
    with tempfile.TemporaryDirectory(prefix="fb-") as place:
        outputs = Path(place, "outputs")
        outputs.mkdir()
        with (outputs / "large.bin").open("wb") as stream:
            block = secrets.token_bytes(CHUNK)
            for _ in range(GIGABYTE // CHUNK):
                stream.write(block)
        spec = OutputSpec(name=OutputName("large"), path="large.bin", max_size_bytes=2 * GIGABYTE)
        found = in_turn(
            {
                "floor": lambda: _single_pass(outputs / "large.bin", Path(place, "copy")),
                "candidate": lambda: GIGABYTE / _frozen(place, outputs, spec) / 1e6,
            },
            bursts=5,
        )
    return at_least("freeze of one 1 GiB file", "MB/s", 0.8, found)


def _single_pass(source: Path, target: Path) -> float:
    began = time.perf_counter()
    state = hashlib.sha256()
    with source.open("rb", buffering=0) as read, target.open("wb", buffering=0) as write:
        while data := read.read(CHUNK):
            state.update(data)
            write.write(data)
        os.fsync(write.fileno())
    elapsed = time.perf_counter() - began
    target.unlink()
    return GIGABYTE / elapsed / 1e6


def _freeze_small() -> Figure:
    with tempfile.TemporaryDirectory(prefix="fb-") as place:
        outputs = Path(place, "outputs")
        for number in range(SMALL_FILES):
            path = outputs / f"d{number % 100}" / f"f{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x" * (1_000 + number % 2_000))
        spec = OutputSpec(name=OutputName("many"), collect="**/*.txt", max_size_bytes=GIGABYTE)
        found = in_turn(
            {
                "floor": lambda: _copied(outputs, Path(place, f"copy-{time.monotonic_ns()}")),
                "candidate": lambda: _frozen(place, outputs, spec),
            },
            bursts=5,
        )
    return at_most(f"freeze of {SMALL_FILES:,} small files", "s", 1.3, found)


def _copied(source: Path, target: Path) -> float:
    """Copy and hash on one thread, one sync of the file system at the end."""
    began = time.perf_counter()
    for path in source.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            hashlib.sha256(data).digest()
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(data)
    os.sync()
    return time.perf_counter() - began


def _frozen(place: str, outputs: Path, spec: OutputSpec) -> float:
    stages = Path(place, f"stages-{time.monotonic_ns()}")
    report = Path(place, f"report-{time.monotonic_ns()}")
    report.mkdir()
    elapsed = asyncio.run(_freeze(stages, outputs, report, spec, lambda: secrets.token_hex(4)))
    shutil.rmtree(stages, ignore_errors=True)
    return elapsed


async def _freeze(
    stages: Path, outputs: Path, report: Path, spec: OutputSpec, token: Callable[[], str]
) -> float:
    snapshots = FileSnapshots(stages, token=token)
    attempt = AttemptId(StageId(RunId("0" * 13), NodeId("bench")), AttemptNumber(1))
    request = FreezeRequest(
        attempt=attempt, outputs=str(outputs), report=str(report), contract=(spec,), supervised=True
    )
    began = time.perf_counter()
    staged = await snapshots.stage(request)
    assert not staged.problems, staged.problems
    assert staged.manifest != Digest("")
    await snapshots.publish(staged)
    return time.perf_counter() - began
