"""Which mounts a launch may ask for, and the check of mount points that lie inside `/attempt`.

Owns the rules on sources and targets (`governance.md`, Sandbox); the first half is pure, the second
looks at the disk. Builds no command line.
"""

import os
import stat
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from fusiond.domain.launch import Mount
from fusiond.domain.records import dataclass

ATTEMPT = "/attempt"
SHARED = "/fusion"
LAUNCHER = "/fusion/launcher"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """Host directories that no mount may show, as real paths.

    Args:
        whole: may not be shown as a whole, though parts of them may: the home directory.
        entirely: nothing of them may be shown: the runtime directory with its sockets.
    """

    whole: tuple[str, ...] = ()
    entirely: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What is known of one mount's source.

    Args:
        real: its real path; None when it is not there or its last component is a link.
        directory: it is one.
        mountable: it is a directory, a file or a socket.
    """

    mount: Mount
    real: str | None
    directory: bool = False
    mountable: bool = False


def target_problem(mounts: Iterable[Mount]) -> str | None:
    """Return the first fault in the mounts' targets, None when there is none.

    Targets are `/attempt`, what lies below it (a submount, whose point is checked on disk before the
    launch), and names below `/fusion/`. No target lies inside another mount but that of `/attempt`:
    an agent could have made its parent a link.
    """
    seen: list[PurePosixPath] = []
    targets = [mount.target for mount in mounts]
    for text in targets:
        path = PurePosixPath(text)
        if str(path) != text or ".." in path.parts or "\0" in text:
            return f"the mount target {text!r} is not a plain absolute path"
        if not _may_be_target(path):
            return f"the mount target {text!r} is neither {ATTEMPT} nor below it or {SHARED}/"
        if path.is_relative_to(ATTEMPT) and text != ATTEMPT and ATTEMPT not in targets:
            return f"the mount target {text!r} lies in {ATTEMPT}, which is not mounted"
        for other in seen:
            if fault := _overlap(path, other):
                return fault
        seen.append(path)
    return None


def _may_be_target(path: PurePosixPath) -> bool:
    if path.is_relative_to(LAUNCHER):
        return False
    return path.is_relative_to(ATTEMPT) or (path.is_relative_to(SHARED) and str(path) != SHARED)


def _overlap(path: PurePosixPath, other: PurePosixPath) -> str | None:
    if path == other:
        return f"the mount target {str(path)!r} is named twice"
    upper, lower = (other, path) if path.is_relative_to(other) else (path, other)
    if lower.is_relative_to(upper) and str(upper) != ATTEMPT:
        return f"the mount target {str(lower)!r} lies inside another mount"
    return None


def source_problem(sources: Iterable[Source], guarded: Guarded) -> str | None:
    """Return the first fault in the mounts' sources, None when there is none."""
    for source in sources:
        name = repr(source.mount.source)
        if source.real is None:
            return f"the mount source {name} is not there or is a link"
        if not source.mountable:
            return f"the mount source {name} is neither directory, file nor socket"
        if exposes(source.real, guarded):
            return f"the mount source {name} would show what must stay hidden"
        if is_submount(source.mount) and not source.directory:
            return f"the mount source {name} is no directory, as mounts inside {ATTEMPT} must be"
    return None


def exposes(real: str, guarded: Guarded) -> bool:
    """Say whether showing a real path would show a guarded directory, or `/`."""
    path = PurePosixPath(real)
    if str(path) == "/":
        return True
    hidden = (*guarded.whole, *guarded.entirely)
    return any(PurePosixPath(each).is_relative_to(path) for each in hidden) or any(
        path.is_relative_to(each) for each in guarded.entirely
    )


def is_submount(mount: Mount) -> bool:
    """Say whether a mount lies inside `/attempt`."""
    return mount.target.startswith(ATTEMPT + "/")


def look(mount: Mount) -> Source:
    """Return what the disk says of a mount's source."""
    path = Path(mount.source)
    try:
        mode = path.lstat().st_mode
        real = str(path.resolve(strict=True))
    except (OSError, ValueError):
        return Source(mount=mount, real=None)
    if stat.S_ISLNK(mode) or not path.is_absolute():
        return Source(mount=mount, real=None)
    directory = stat.S_ISDIR(mode)
    mountable = directory or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)
    return Source(mount=mount, real=real, directory=directory, mountable=mountable)


def is_real_directory(root: str, relative: str) -> bool:
    """Say whether `relative` names a directory below `root` without passing any link.

    Every component is opened from the one before and never followed, so a link that
    an agent left on the way is an answer of False, whatever it points at.

    Args:
        root: real path of a directory.
        relative: path below it without `..`.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(root, flags)
    try:
        for name in PurePosixPath(relative).parts:
            below = os.open(name, flags, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def mount_problem(mounts: tuple[Mount, ...], guarded: Guarded) -> str | None:
    """Return the first reason why these mounts are refused, None when they may be made."""
    if fault := target_problem(mounts):
        return fault
    sources = [look(mount) for mount in mounts]
    if fault := source_problem(sources, guarded):
        return fault
    roots = [source.real for source in sources if source.mount.target == ATTEMPT]
    for mount in mounts:
        below = mount.target.removeprefix(ATTEMPT + "/")
        if is_submount(mount) and not is_real_directory(roots[0] or "", below):
            return f"the mount point {mount.target!r} is not a real directory of the worktree"
    return None
