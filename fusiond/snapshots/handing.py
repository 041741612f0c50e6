"""Frozen versions laid as an attempt's inputs.

Owns the form of the inputs directory: `<name>` is a file where an input is one
artifact and a directory of artifacts under their own paths where it may be several;
`inputs.json` says what everything is. Copies, never links: a link would let an
attempt write into a frozen version.
"""

import os
from collections import Counter
from collections.abc import Sequence

from fusiond.codec.canonical import JsonValue, canonical
from fusiond.domain.artifacts import ArtifactKey, artifact_id
from fusiond.domain.errors import CorruptError, InvalidError
from fusiond.domain.ids import AttemptId, RunId, StageId, is_name
from fusiond.domain.paths import parents_of, problem_with
from fusiond.domain.steps.attempt import LaidInput
from fusiond.snapshots.copying import SourceError, pass_over
from fusiond.snapshots.disk import (
    DIRECTORY,
    READ_ONLY_DIRECTORY,
    Disk,
    empty_directory,
    opened,
    storage_errors,
)
from fusiond.snapshots.layout import OUTPUTS, Layout
from fusiond.snapshots.target import NewTree
from fusiond.snapshots.walk import RefusedFileError, UntrustedTree

INPUTS = "inputs.json"


def hand_over(layout: Layout, run: RunId, inputs: Sequence[LaidInput], target: str, disk: Disk) -> None:
    """Lay read-only copies of frozen artifacts, hashed while they are copied.

    What the directory held before is removed, so that this can be done again
    after a crash. The directory itself stays writable for the supervisor, which
    lays the run's own inputs beside these; what is below is read-only.

    Args:
        layout: where versions live.
        run: whose versions.
        inputs: what to lay; several with one name make a directory.
        target: the inputs directory on the host; made if it is not there.
        disk: writes.

    Raises:
        CorruptError: an artifact is gone or not the one that was frozen.
        InvalidError: a recorded name is not one that can be laid.
        StorageError: the disk fails.
    """
    places = _places(inputs)
    with storage_errors("lay the inputs"):
        os.makedirs(target, mode=0o755, exist_ok=True)
        with opened(target, DIRECTORY) as directory:
            empty_directory(directory)
            os.fchmod(directory, 0o755)
            _lay_all(layout, run, inputs, places, directory, disk)


def _places(inputs: Sequence[LaidInput]) -> list[str]:
    """Return where each input goes below the inputs directory."""
    uses = Counter(each.name for each in inputs)
    places: list[str] = []
    for each in inputs:
        if not is_name(each.name) or problem_with(each.path) is not None:
            raise InvalidError(f"input {each.name!r} of {each.path!r}", expected="recorded, judged names")
        alone = uses[each.name] == 1 and not each.many
        places.append(each.name if alone else f"{each.name}/{each.path}")
    return places


def _lay_all(
    layout: Layout, run: RunId, inputs: Sequence[LaidInput], places: list[str], directory: int, disk: Disk
) -> None:
    trees: dict[AttemptId, UntrustedTree] = {}
    into = NewTree(directory)
    entries: list[JsonValue] = []
    try:
        for laid, place in zip(inputs, places, strict=True):
            attempt = AttemptId(StageId(run, laid.node), laid.attempt)
            if attempt not in trees:
                trees[attempt] = _frozen_tree(layout, attempt, laid)
            size = _lay(trees[attempt], attempt, laid, place, into, disk)
            entries.append(_identity(run, laid, place, size))
    finally:
        into.close()
        for tree in trees.values():
            tree.close()
    for each in sorted(parents_of(places), key=len, reverse=True):
        os.chmod(each, READ_ONLY_DIRECTORY, dir_fd=directory)
    disk.write_file(INPUTS, canonical({"inputs": entries}), dir_fd=directory)


def _frozen_tree(layout: Layout, attempt: AttemptId, laid: LaidInput) -> UntrustedTree:
    try:
        return UntrustedTree(str(layout.attempt(attempt) / OUTPUTS))
    except RefusedFileError as error:
        raise _corrupt(attempt, laid, f"its version is {error.kind.value}") from error


def _lay(
    tree: UntrustedTree, attempt: AttemptId, laid: LaidInput, place: str, into: NewTree, disk: Disk
) -> int:
    """Copy one artifact and return its size."""
    try:
        source, status = tree.open_file(laid.path)
    except RefusedFileError as error:
        raise _corrupt(attempt, laid, f"{error.blame} is {error.kind.value}") from error
    target = None
    try:
        target = into.create(place, status.st_mode)
        if target is None:
            raise InvalidError(f"two inputs at {place!r}", expected="names that differ on every system")
        copied = pass_over(source, status, status.st_size, target, None, disk)
    except SourceError as error:
        raise _corrupt(attempt, laid, f"it cannot be read: {error}") from error
    finally:
        os.close(source)
        if target is not None:
            os.close(target)
    if copied.digest != laid.digest:
        raise _corrupt(attempt, laid, f"its bytes have SHA-256 {copied.digest}")
    return copied.size


def _identity(run: RunId, laid: LaidInput, place: str, size: int) -> dict[str, JsonValue]:
    key = ArtifactKey(
        run=run,
        node=laid.node,
        attempt=laid.attempt,
        output=laid.output,
        path=laid.path,
        digest=laid.digest,
    )
    return {
        "artifact": artifact_id(key),
        "attempt": laid.attempt,
        "file": place,
        "name": laid.name,
        "node": laid.node,
        "output": laid.output,
        "path": laid.path,
        "sha256": laid.digest,
        "size": size,
    }


def _corrupt(attempt: AttemptId, laid: LaidInput, found: str) -> CorruptError:
    return CorruptError(
        f"frozen artifact {laid.path} of {attempt}: {found}",
        expected=f"bytes with SHA-256 {laid.digest}",
        state="the identity in the ledger",
        cure="restore the stages directory from a backup, or run the stage again",
        fields={"attempt": str(attempt), "path": laid.path},
    )
