"""Where frozen versions and staged ones lie below the stages directory.

Owns the names: `<run>.<node>/attempt-<n>/{artifacts.json,result.md,outputs/…}`
as in the specification, beside them `chunks/` with the chunk hashes of bodies of
several chunks, and `.staging/` for what is not published yet.
"""

import os
import re
from collections.abc import Container, Iterator
from pathlib import Path

from fusiond.domain.digest import Digest
from fusiond.domain.ids import AttemptId, AttemptNumber, NodeId, RunId, StageId, is_node_id
from fusiond.domain.records import dataclass

OUTPUTS = "outputs"
CHUNKS = "chunks"

_STAGE = re.compile(r"([0-9a-z]{13})\.([a-z][a-z0-9-]*)\Z")
_ATTEMPT = re.compile(r"attempt-([1-9][0-9]{0,8})\Z")


@dataclass(frozen=True, slots=True)
class Layout:
    """The directory that holds all frozen versions of a workspace."""

    root: Path

    @property
    def staging(self) -> Path:
        """Where staged bytes wait; on the same file system as what is published."""
        return self.root / ".staging"

    def stage(self, stage: StageId) -> Path:
        """Return the directory of a stage's versions."""
        return self.root / str(stage)

    def attempt(self, attempt: AttemptId) -> Path:
        """Return the directory of one frozen version."""
        return self.stage(attempt.stage) / f"attempt-{attempt.number}"

    def staged(self, attempt: AttemptId, token: str) -> Path:
        """Return the directory of one staged version."""
        return self.staging / f"{attempt.stage}.{attempt.number}-{token}"

    def published(self, runs: Container[RunId]) -> Iterator[tuple[AttemptId, Path]]:
        """Yield every directory that has the name of a frozen version of one of `runs`, in order.

        Of other runs nothing but the names of their stages is read, so that a start
        does not cost more with every run that was.
        """
        names = sorted(os.listdir(self.root)) if self.root.is_dir() else []
        for name in names:
            stage = _STAGE.match(name)
            if stage is None or stage[1] not in runs or not is_node_id(stage[2]):
                continue
            directory = self.root / name
            for place in sorted(_directories(directory)):
                number = _ATTEMPT.match(place.name)
                if number is not None:
                    stage_id = StageId(RunId(stage[1]), NodeId(stage[2]))
                    yield AttemptId(stage_id, AttemptNumber(int(number[1]))), place


def _directories(parent: Path) -> list[Path]:
    if parent.is_symlink() or not parent.is_dir():
        return []
    return [each for each in parent.iterdir() if each.is_dir() and not each.is_symlink()]


def sidecar_name(chunks: Digest) -> str:
    """Return the file that holds the chunk hashes of bodies with this chunks digest."""
    return f"{CHUNKS}/{chunks}"
