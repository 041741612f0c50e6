"""From a staged version to the published, read-only one, or to nothing.

Owns durability and the rename. A crash at any point leaves a staged directory
or a published one that no step names; `sweep` removes both.
"""

import errno
import os
from pathlib import Path

from fusiond.domain.artifacts import FrozenArtifact
from fusiond.domain.contract import MANIFEST, SUMMARY
from fusiond.domain.errors import ConflictError, StorageError
from fusiond.domain.paths import parents_of
from fusiond.ports.snapshots import Staged
from fusiond.snapshots.disk import (
    DIRECTORY,
    MAX_SINGLE_SYNCS,
    READ_ONLY_DIRECTORY,
    Disk,
    opened,
    remove_tree,
    storage_errors,
)
from fusiond.snapshots.layout import OUTPUTS, Layout, sidecar_name


def publish(layout: Layout, staged: Staged, disk: Disk) -> None:
    """Publish a staged version durably; afterwards it is there whole, or not at all.

    Every file and directory is synchronised before the rename, and the directory
    that then names the version after it: when this returns, a power cut cannot take
    the version back. Few files are synchronised one by one; many by synchronising
    the file system, which costs 1.6 times the bare copy where one `fsync` a file
    costs eight times, and also waits for what others have written. Where the kernel
    does not offer that, each file gets its own.

    Directories become 0555; files were created 0444 or 0555. Modes stop mistakes,
    not an owner: what keeps a version true is its digests.

    Raises:
        ConflictError: there is a version of this attempt already.
        StorageError: the disk fails; what was staged is gone.
    """
    place, final = Path(staged.place), layout.attempt(staged.attempt)
    try:
        with storage_errors(f"publish {staged.attempt}"):
            _make_durable(place, staged.artifacts, disk)
            _make_parent(final.parent, disk)
            _rename(place, final, disk)
    except (ConflictError, StorageError):
        _forget(place)
        raise


def _make_durable(place: Path, artifacts: tuple[FrozenArtifact, ...], disk: Disk) -> None:
    chunks = {sidecar_name(each.chunks) for each in artifacts if each.chunks is not None}
    files = [MANIFEST, SUMMARY, *sorted(chunks), *(f"{OUTPUTS}/{each.path}" for each in artifacts)]
    directories = sorted(parents_of(files), key=len, reverse=True)
    with opened(str(place), DIRECTORY) as root:
        for each in directories:
            os.chmod(each, READ_ONLY_DIRECTORY, dir_fd=root)
        if len(files) > MAX_SINGLE_SYNCS and disk.sync_file_system(root):
            return
        for each in (*files, *directories):
            disk.sync_path(each, dir_fd=root)
        disk.fsync(root)


def _make_parent(parent: Path, disk: Disk) -> None:
    try:
        parent.mkdir(mode=0o755)
    except FileExistsError:
        return
    # The stages directory may be as new as the stage's.
    disk.sync_path(str(parent.parent))
    disk.sync_path(str(parent.parent.parent))


def _rename(place: Path, final: Path, disk: Disk) -> None:
    try:
        disk.rename_exclusive(str(place), str(final))
    except FileExistsError as error:
        raise ConflictError(
            f"{final} is there already", expected="a version that was never frozen"
        ) from error
    try:
        # Only now: a directory that may not be written cannot be given another parent.
        final.chmod(READ_ONLY_DIRECTORY)
        disk.sync_path(str(final.parent))
    except OSError:
        # Its name may not survive a power cut, so nobody may be told that it does.
        _forget(final)
        raise


def _forget(place: Path) -> None:
    """Remove what failed to be published; what a failing disk will not let go is swept at start."""
    try:
        remove_tree(str(place))
    except OSError as error:
        if error.errno not in (errno.EIO, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOENT):
            raise


def drop(layout: Layout, staged: Staged) -> None:
    """Remove what was staged; nothing happens where it is gone or published.

    Raises:
        StorageError: the disk fails.
    """
    place = Path(staged.place)
    if place.parent != layout.staging:
        raise ValueError(f"{place} is not below {layout.staging}")
    with storage_errors(f"drop {staged.attempt}"):
        remove_tree(str(place))
