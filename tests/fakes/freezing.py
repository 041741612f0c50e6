"""An attempt's directories on disk, and what is asked of a freeze, for tests of snapshots."""

import asyncio
import hashlib
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from fusiond.domain.artifacts import FrozenArtifact, ProblemCode
from fusiond.domain.flow import OutputSpec, PinnedFile
from fusiond.domain.ids import AttemptId, AttemptNumber, NodeId, OutputName, RunId, StageId
from fusiond.ports.snapshots import Checked, FreezeRequest, InjectedArtifact, Staged
from fusiond.snapshots.disk import Disk, remove_tree
from fusiond.snapshots.examine import Budgets
from fusiond.snapshots.layout import Layout
from fusiond.snapshots.store import FileSnapshots

T = TypeVar("T")

RUN = RunId("01hzzzzzzzzzz")
OTHER_RUN = RunId("01j0000000000")
NODE = NodeId("build")
MIB = 1024 * 1024


def attempt(number: int = 1, *, run: RunId = RUN, node: NodeId = NODE) -> AttemptId:
    """Return the id of an attempt."""
    return AttemptId(StageId(run, node), AttemptNumber(number))


def output(
    name: str,
    path: str | None = None,
    *,
    collect: str | None = None,
    media_type: str | None = None,
    max_size_bytes: int = 64 * MIB,
    schema: bool = False,
    optional: bool = False,
) -> OutputSpec:
    """Return a declared output."""
    return OutputSpec(
        name=OutputName(name),
        path=path,
        collect=collect,
        media_type=media_type,
        max_size_bytes=max_size_bytes,
        schema=PinnedFile(path=f"schemas/{name}.json") if schema else None,
        optional=optional,
    )


ALL = (output("files", collect="**"),)
"""A contract that takes whatever there is."""


def entry(
    path: str, data: bytes, name: str | None = None, media_type: str = "application/octet-stream"
) -> dict[str, object]:
    """Return a true manifest entry."""
    return {
        "output": name,
        "path": path,
        "media_type": media_type,
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def tokens() -> Callable[[], str]:
    """Return a source of words that never repeat."""
    counter = itertools.count(1)
    return lambda: f"t{next(counter)}"


class Attempt:
    """One attempt's outputs and report directories, beside a stages directory."""

    def __init__(
        self,
        place: Path,
        *,
        disk: Disk | None = None,
        budgets: Budgets | None = None,
        stages: Path | None = None,
    ) -> None:
        self.place = place
        self.outputs = place / "outputs"
        self.report = place / "report"
        self.stages = stages or place / "stages"
        self.layout = Layout(self.stages)
        self.outputs.mkdir()
        self.report.mkdir()
        self.snapshots = FileSnapshots(self.stages, token=tokens(), disk=disk, budgets=budgets)

    def put(self, path: str, data: bytes | str = b"content") -> Path:
        """Write a file below the outputs directory."""
        place = self.outputs / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data.encode() if isinstance(data, str) else data)
        return place

    def tell(self, entries: Sequence[object] | None, summary: str | None = "Done.") -> None:
        """Write manifest and summary as an agent would."""
        if entries is not None:
            (self.report / "artifacts.json").write_text(json.dumps({"artifacts": entries}))
        if summary is not None:
            (self.report / "result.md").write_text(summary)

    def request(
        self,
        contract: Sequence[OutputSpec] = ALL,
        *,
        number: int = 1,
        supervised: bool = True,
        schemas: Sequence[tuple[OutputName, bytes]] = (),
        injected: Sequence[InjectedArtifact] = (),
    ) -> FreezeRequest:
        """Ask for a check or a freeze of what is there."""
        return FreezeRequest(
            attempt=attempt(number),
            outputs=str(self.outputs),
            report=str(self.report),
            contract=tuple(contract),
            schemas=tuple(schemas),
            supervised=supervised,
            injected=tuple(injected),
        )

    def check(self, request: FreezeRequest) -> Checked:
        """Check, outside of an event loop."""
        return asyncio.run(self.snapshots.check(request))

    def stage(self, request: FreezeRequest) -> Staged:
        """Stage, outside of an event loop."""
        return asyncio.run(self.snapshots.stage(request))

    def freeze(self, request: FreezeRequest) -> Staged:
        """Stage what must have no problem, and publish it."""
        staged = self.stage(request)
        assert staged.problems == ()
        asyncio.run(self.snapshots.publish(staged))
        return staged

    def version(self, number: int = 1) -> Path:
        """Return the directory of a frozen version."""
        return self.layout.attempt(attempt(number))

    def leftovers(self) -> list[str]:
        """Return everything below the stages directory."""
        return sorted(str(each.relative_to(self.stages)) for each in self.stages.rglob("*"))

    def remove(self) -> None:
        """Remove everything, read-only directories too."""
        remove_tree(str(self.place))


def frozen(staged: Staged, path: str) -> FrozenArtifact:
    """Return the artifact at a path."""
    return next(each for each in staged.artifacts if each.path == path)


def codes(found: Checked | Staged) -> list[tuple[ProblemCode, str]]:
    """Return what is wrong, by code and place."""
    return [(each.code, each.where) for each in found.problems]
