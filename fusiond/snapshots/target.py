"""New directories while they are filled: a staged version, an inputs directory.

Owns layout and modes of what is written there, and the files of chunk hashes.
Names that come here have been judged.
"""

import os
import stat
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from fusiond.domain.digest import Digest
from fusiond.snapshots.disk import (
    DIRECTORY,
    MAX_SINGLE_SYNCS,
    NEW_FILE,
    READ_ONLY,
    READ_ONLY_EXECUTABLE,
    Disk,
)
from fusiond.snapshots.layout import CHUNKS, OUTPUTS


class NewTree:
    """A directory of our own that is filled with read-only files. Close it."""

    def __init__(self, root: int) -> None:
        """Fill the open directory `root`, which the caller closes after this."""
        self._root = root
        self._parent = ""
        self._parent_fd = root
        # By wanted mode: whether the process's mask leaves it whole.
        self._unmasked: dict[int, bool] = {}

    def close(self) -> None:
        """Close what is open, without `root`."""
        if self._parent_fd != self._root:
            os.close(self._parent_fd)
        self._parent, self._parent_fd = "", self._root

    def create(self, path: str, mode: int) -> int | None:
        """Create a read-only file and return a descriptor that writes to it.

        Args:
            path: a judged relative path.
            mode: of the source; what its owner may execute stays executable.

        Returns:
            None where another name is the same one to this file system: such a
            collision is a problem already, and nothing of it is published.
        """
        wanted = READ_ONLY_EXECUTABLE if mode & stat.S_IXUSR else READ_ONLY
        parent, _, name = path.rpartition("/")
        try:
            if parent != self._parent:
                self._enter(parent)
            descriptor = os.open(name, NEW_FILE, wanted, dir_fd=self._parent_fd)
        except (FileExistsError, NotADirectoryError):
            return None
        if not self._unmasked.get(wanted):
            self._set_mode(descriptor, wanted)
        return descriptor

    def _set_mode(self, descriptor: int, wanted: int) -> None:
        """Set the mode that the process's mask has no say in, and note whether it ever changes one."""
        if wanted not in self._unmasked:
            self._unmasked[wanted] = stat.S_IMODE(os.fstat(descriptor).st_mode) == wanted
        os.fchmod(descriptor, wanted)

    def _enter(self, parent: str) -> None:
        self.close()
        current = os.dup(self._root)
        for name in parent.split("/") if parent else []:
            try:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=current)
                below = os.open(name, DIRECTORY, dir_fd=current)
            finally:
                os.close(current)
            current = below
        self._parent, self._parent_fd = parent, current


class Target:
    """A staged version: `place` is its open directory, `outputs` what it freezes. Close it."""

    def __init__(self, place: Path, disk: Disk) -> None:
        """Create `place`, which must not be there yet."""
        place.mkdir(mode=0o700)
        self._disk = disk
        self.place = os.open(place, DIRECTORY)
        os.mkdir(OUTPUTS, 0o700, dir_fd=self.place)
        self._outputs_fd = os.open(OUTPUTS, DIRECTORY, dir_fd=self.place)
        self.outputs = NewTree(self._outputs_fd)
        self._syncing: Future[bool] | None = None

    def start_sync(self, files: int) -> None:
        """Begin to make what was copied durable, so that judging it costs no extra time.

        Args:
            files: how many were copied; a few are synchronised when they are published.
        """
        if files > MAX_SINGLE_SYNCS:
            lane = ThreadPoolExecutor(1)
            self._syncing = lane.submit(self._disk.sync_file_system, self.place)
            lane.shutdown(wait=False)

    def close(self) -> None:
        """Close what is open, once nothing is being synchronised any more.

        Raises:
            OSError: the disk fails.
        """
        try:
            if self._syncing is not None:
                self._syncing.result()
        finally:
            self.outputs.close()
            os.close(self._outputs_fd)
            os.close(self.place)

    def keep_chunks(self, chunks: Digest, chunk_hashes: bytes) -> None:
        """Write the chunk hashes of one body; equal bodies share them."""
        with suppress(FileExistsError):
            os.mkdir(CHUNKS, 0o700, dir_fd=self.place)
        with suppress(FileExistsError):
            self._disk.write_file(f"{CHUNKS}/{chunks}", chunk_hashes, dir_fd=self.place)
