"""What must hold after a crash and a restart, whatever the moment of the crash was."""

import asyncio
import hashlib
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from fusiond.domain.fold import fold
from fusiond.domain.ids import RunId
from fusiond.domain.state import RunState
from fusiond.domain.steps.kinds import StepKind
from fusiond.domain.steps.record import Step
from fusiond.domain.steps.turn import ToolReturned
from fusiond.ledger.database import open_database
from fusiond.ledger.sqlite_ledger import SqliteLedger
from tests.crash.ground import Ground


@dataclass(frozen=True, slots=True)
class Ending:
    """What a run came to: the same for every crash of one flow.

    Args:
        outcome: of the run.
        stages: outcome of each stage.
        artifacts: node, output, path and digest of everything that was frozen.
        result_tree: the tree that `fusion merge` would deliver.
    """

    outcome: str
    stages: tuple[tuple[str, str], ...]
    artifacts: tuple[tuple[str, str, str, str], ...]
    result_tree: str | None


@dataclass(frozen=True, slots=True)
class Aftermath:
    """The ledger of a ground after its run has ended."""

    runs: int
    steps: tuple[Step, ...]
    state: RunState

    @property
    def ending(self) -> Ending:
        """Return what the run came to."""
        stages = self.state.stages.values()
        artifacts = [
            (stage.plan.node, each.output or "", each.path, each.digest)
            for stage in stages
            if stage.frozen is not None
            for each in stage.frozen.artifacts
        ]
        return Ending(
            outcome=str(self.state.outcome),
            stages=tuple((stage.plan.node, str(stage.outcome)) for stage in stages),
            artifacts=tuple(sorted(artifacts)),
            result_tree=self.state.result_tree,
        )


def read_ledger(ground: Ground, run: str) -> Aftermath:
    """Read the ledger as it is on disk, verifying the chain and folding it."""
    return asyncio.run(_read(ground, RunId(run)))


async def _read(ground: Ground, run: RunId) -> Aftermath:
    database = await open_database(ground.repository / ".fusion" / "state.db", new_epoch="unused", check=True)
    try:
        ledger = SqliteLedger(database)
        rows = await ledger.runs(None, open_only=False, limit=100)
        steps = await ledger.read(run, after_seq=0, limit=100_000)
        await ledger.close()
        return Aftermath(runs=len(rows), steps=tuple(steps), state=fold(run, steps))
    finally:
        await database.close()


def complaints(ground: Ground, after: Aftermath, expected: Ending) -> list[str]:
    """Return everything that is not as it must be."""
    found = [] if after.runs == 1 else [f"{after.runs} runs for one submission"]
    if after.ending != expected:
        found.append(f"ended as {after.ending}, expected {expected}")
    return [*found, *_doubled(after), *_left_over(ground)]


def _doubled(after: Aftermath) -> list[str]:
    """Find facts that may be recorded once and are recorded twice."""
    once = {StepKind.RUN_STARTED, StepKind.RUN_FINISHED, StepKind.STAGE_FINISHED, StepKind.ATTEMPT_FROZEN}
    counted = Counter((step.kind, step.node) for step in after.steps if step.kind in once)
    found = [
        f"{kind} of {node} recorded {times} times" for (kind, node), times in counted.items() if times > 1
    ]
    returned = Counter(
        (step.node, step.attempt, step.payload.call)
        for step in after.steps
        if isinstance(step.payload, ToolReturned)
    )
    found += [f"call {place} returned {times} times" for place, times in returned.items() if times > 1]
    return found


def _left_over(ground: Ground) -> list[str]:
    """Find processes and directories that outlived the run."""
    marker = f"FUSION_ATTEMPT={ground.workspace.id}/".encode()
    found = [
        f"process {pid} is alive" for pid in os.listdir("/proc") if pid.isdecimal() and _has(pid, marker)
    ]
    worktrees = ground.place / "state" / "fusion" / "worktrees" / ground.workspace.id
    fusion = ground.repository / ".fusion"
    for place in (worktrees, fusion / "live", fusion / "stages" / ".staging", fusion / "making"):
        if place.is_dir():
            found += [f"left over: {each}" for each in place.iterdir() if not _empty_tree(each)]
    return found


def _empty_tree(path: Path) -> bool:
    return path.is_dir() and not any(each.is_file() for each in path.rglob("*"))


def _has(pid: str, marker: bytes) -> bool:
    try:
        return marker in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def fingerprint(repository: Path) -> str:
    """Return a digest over every file of the user's checkout and `.git`, names, modes and bytes."""
    state = hashlib.sha256()
    for path in sorted(repository.rglob("*")):
        relative = path.relative_to(repository)
        if relative.parts[0] == ".fusion":
            continue
        facts = path.lstat()
        body = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        state.update(f"{relative} {facts.st_mode} {len(body)}\n".encode() + body)
    return state.hexdigest()
