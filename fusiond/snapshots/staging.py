"""The copy of an attempt's outputs that is judged and may become its frozen version.

Owns what a staged directory holds beside the copies: the manifest of what was
really found, the summary, and what the supervisor injects.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from fusiond.codec.manifest import manifest_bytes
from fusiond.codec.summary import supervisor_summary
from fusiond.domain.artifacts import FrozenArtifact
from fusiond.domain.digest import digest_bytes
from fusiond.domain.errors import StorageError
from fusiond.ports.snapshots import FreezeRequest, InjectedArtifact, Staged
from fusiond.snapshots.copying import chunks_digest, pass_over
from fusiond.snapshots.disk import READ_FILE, Disk, opened, remove_tree, storage_errors
from fusiond.snapshots.examine import Budgets, examine
from fusiond.snapshots.layout import Layout
from fusiond.snapshots.report import write_report
from fusiond.snapshots.target import Target

_ANY_SIZE = 2**62


def stage(
    layout: Layout,
    request: FreezeRequest,
    token: str,
    budgets: Budgets,
    disk: Disk,
    abandoned: Callable[[], bool],
) -> Staged:
    """Copy, hash and judge an attempt into a fresh directory below `layout.staging`.

    Args:
        layout: where versions live.
        request: what to freeze.
        token: makes the directory's name unique.
        budgets: bounds.
        disk: writes.
        abandoned: asked between files.

    Raises:
        StorageError: the disk fails; nothing is left behind.
        AbandonedError: `abandoned` said so; nothing is left behind.
    """
    place = layout.staged(request.attempt, token)
    with storage_errors(f"stage {request.attempt}"):
        layout.staging.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            return _stage_into(place, request, budgets, disk, abandoned)
        except BaseException:
            remove_tree(str(place))
            raise


def _stage_into(
    place: Path, request: FreezeRequest, budgets: Budgets, disk: Disk, abandoned: Callable[[], bool]
) -> Staged:
    target = Target(place, disk)
    try:
        examined = examine(request, budgets, disk, target=target, abandoned=abandoned)
        injected = [_inject(each, target, disk) for each in request.injected]
        artifacts = tuple(sorted((*examined.artifacts, *injected), key=lambda each: each.path))
        manifest = manifest_bytes(artifacts, examined.recorded_by)
        summary = examined.summary
        if summary is None:
            summary = supervisor_summary(request.attempt, artifacts)
        write_report(disk, target.place, manifest, summary)
    finally:
        target.close()
    return Staged(
        attempt=request.attempt,
        problems=examined.problems,
        outputs=examined.outputs,
        artifacts=artifacts,
        recorded_by=examined.recorded_by,
        manifest=digest_bytes(manifest),
        summary=digest_bytes(summary),
        place=str(place),
    )


def _inject(artifact: InjectedArtifact, target: Target, disk: Disk) -> FrozenArtifact:
    """Copy a file of the supervisor's own."""
    with opened(artifact.source, READ_FILE) as source:
        status = os.fstat(source)
        if not stat.S_ISREG(status.st_mode):
            raise StorageError(f"{artifact.source} is no regular file", expected="the file to add")
        descriptor = target.outputs.create(artifact.path, 0)
        try:
            copied = pass_over(source, status, _ANY_SIZE, descriptor, None, disk)
        finally:
            if descriptor is not None:
                os.close(descriptor)
    chunks = chunks_digest(copied.chunk_hashes) if copied.chunk_hashes else None
    if chunks is not None:
        target.keep_chunks(chunks, copied.chunk_hashes)
    return FrozenArtifact(
        output=artifact.output,
        path=artifact.path,
        media_type=artifact.media_type,
        size=copied.size,
        digest=copied.digest,
        chunks=chunks,
    )
