"""Which host directories make the programs on a search path work inside the walls.

A pure decision over facts that `toolchain_facts` gathers. Owns what counts as an installation and what
is never shown: the smallest directory that makes a program work, never a home, never a place where
programs keep credentials beside themselves.
"""

from collections.abc import Mapping
from dataclasses import field
from pathlib import PurePosixPath

from fusiond.domain.launch import Mount
from fusiond.domain.records import dataclass
from fusiond.sandbox.mount_rules import ATTEMPT, SHARED, Guarded, exposes

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")

_PROGRAM_DIRECTORIES = ("bin", "sbin", "shims")
_THIRD_PARTY = ("/opt", "/home/linuxbrew", "/snap")
_NEVER_TARGETS = ("/", "/tmp", "/var", "/run")
_NEVER_INSIDE = ("/proc", "/dev", "/sys", "/etc", "/boot", ATTEMPT, SHARED)

# What the top of an installation looks like; one full row is enough.
_INSTALLATIONS = (
    frozenset({"pyvenv.cfg"}),
    frozenset({"conda-meta"}),
    frozenset({"lib", "include"}),
    frozenset({"lib", "share"}),
    frozenset({"lib", "release"}),  # a JDK
    frozenset({"VERSION", "pkg"}),  # GOROOT
    frozenset({"shims", "versions"}),  # pyenv, rbenv, nodenv
    frozenset({"shims", "installs"}),  # mise, asdf
    frozenset({"tools", "log", "bin"}),  # volta
    frozenset({"toolchains", "settings.toml"}),  # rustup
)

# Shared by many programs, or by programs and their secrets: parts of them may be shown, they may not.
_NEVER_WHOLE = (".local", ".local/share", ".local/state", ".local/lib", ".cargo", ".cache")
_NEVER_PART = (".config", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store")
_CREDENTIALS = frozenset(
    {
        ".aws", ".config", ".docker", ".env", ".git-credentials", ".gnupg", ".netrc", ".npmrc", ".pypirc",
        ".ssh", "auth.json", "credentials", "credentials.json", "credentials.toml",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PathEntry:
    """One directory of a search path.

    Args:
        named: as the search path names it.
        real: its real path.
        parent_real: the real path of what `named` says is its parent.
        programs: names in it.
        targets: real paths of programs in it that are links to outside of it.
    """

    named: str
    real: str
    parent_real: str
    programs: frozenset[str] = frozenset()
    targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """The top of a directory that may be an installation.

    Args:
        names: what is in it.
        base: for a virtual environment, the directory of the interpreter that it stands on, as its
            configuration names it, and that directory's real path.
    """

    names: frozenset[str]
    base: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFacts:
    """What the disk says about a search path.

    Args:
        home: real path of the user's home directory.
        prefixes: every directory that may be an installation, by real path.
        rustup_home: where rustup keeps its toolchains, as a real path; empty when there are none.
        goroot: GOROOT of the launch's environment, as a real path; empty when it is not set.
    """

    entries: tuple[PathEntry, ...]
    prefixes: Mapping[str, Prefix]
    home: str
    rustup_home: str = ""
    goroot: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchains:
    """The decision.

    Args:
        mounts: read-only, none inside another.
        variables: what programs need to find themselves when HOME is another one inside.
        refused: directory and reason, for `fusion doctor`.
    """

    mounts: tuple[Mount, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class _Draft:
    """A decision in the making."""

    facts: ToolFacts
    guarded: Guarded
    shown: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def show(self, real: str, named: str = "") -> bool:
        """Show a real path, also under the name by which it is known; say whether it may be."""
        if inside(real, *SYSTEM):
            return True
        if reason := self.obstacle(real):
            self.refused[real] = reason
            return False
        for target in {real, named or real}:
            if inside(target, *_NEVER_INSIDE) or target in _NEVER_TARGETS:
                self.refused[target] = "this place belongs to the sandbox itself"
            else:
                self.shown[target] = real
        return True

    def obstacle(self, real: str) -> str:
        """Return why a real path may not be shown, "" when it may."""
        home = self.facts.home
        if exposes(real, self.guarded) or inside(home, real):
            return "it holds the home directory or what must stay hidden"
        if real in {f"{home}/{name}" for name in _NEVER_WHOLE}:
            return "it is shared with files that may be private"
        if inside(real, *(f"{home}/{name}" for name in _NEVER_PART)):
            return "it is where credentials are kept"
        return ""

    def installation(self, program_directory: str) -> str:
        """Return the installation that a directory of programs belongs to, "" when it is none."""
        path = PurePosixPath(program_directory)
        prefix = self.facts.prefixes.get(str(path.parent))
        if path.name not in _PROGRAM_DIRECTORIES or prefix is None:
            return ""
        if prefix.names & _CREDENTIALS or self.obstacle(str(path.parent)):
            return ""
        known = any(row <= prefix.names for row in _INSTALLATIONS)
        third_party = inside(str(path.parent.parent), *_THIRD_PARTY)
        return str(path.parent) if known or third_party else ""


def inside(path: str, *trees: str) -> bool:
    """Say whether a path is one of the trees or below one."""
    return any(PurePosixPath(path).is_relative_to(tree) for tree in trees)


def decide_toolchains(facts: ToolFacts, guarded: Guarded) -> Toolchains:
    """Return what to show so that the programs on the search path work.

    Args:
        facts: what the disk says.
        guarded: what no mount may show.
    """
    draft = _Draft(facts, guarded)
    variables: dict[str, str] = {}
    for entry in facts.entries:
        if inside(entry.named, ATTEMPT, SHARED):
            continue
        _show_entry(draft, entry)
        for target in entry.targets:
            _show_target(draft, target)
        if facts.rustup_home and "rustup" in entry.programs and draft.show(facts.rustup_home):
            variables["RUSTUP_HOME"] = facts.rustup_home
    if facts.goroot:
        draft.show(facts.goroot)
    return Toolchains(
        mounts=_outermost(draft),
        variables=tuple(sorted(variables.items())),
        refused=tuple(sorted(draft.refused.items())),
    )


def _show_entry(draft: _Draft, entry: PathEntry) -> None:
    """Show the entry's installation, else the entry alone."""
    if inside(entry.real, *SYSTEM):
        draft.show(entry.real)
        return
    prefix = draft.installation(entry.real)
    if not prefix:
        draft.show(entry.real, entry.named)
        return
    if entry.parent_real == prefix:
        draft.show(prefix, str(PurePosixPath(entry.named).parent))
    else:
        draft.show(prefix)
        draft.show(entry.real, entry.named)
    _show_base(draft, prefix)


def _show_target(draft: _Draft, target: str) -> None:
    """Show the installation that a linked program belongs to, else the program's file alone."""
    if inside(target, *SYSTEM) or inside(target, *draft.shown.values()):
        return
    path = PurePosixPath(target)
    if "node_modules" in path.parts:
        depth = path.parts.index("node_modules") + 1
        draft.show(str(PurePosixPath(*path.parts[:depth])))
        return
    prefix = draft.installation(str(path.parent))
    draft.show(prefix or target)
    if prefix:
        _show_base(draft, prefix)


def _show_base(draft: _Draft, prefix: str) -> None:
    """Show what a virtual environment stands on, and what that stands on."""
    seen: set[str] = set()
    while prefix not in seen:
        seen.add(prefix)
        base = draft.facts.prefixes[prefix].base
        if base is None or inside(base[1], *SYSTEM):
            return
        below = draft.installation(base[1])
        if not below:
            draft.show(base[1], base[0])
            return
        draft.show(below, str(PurePosixPath(base[0]).parent))
        prefix = below


def _outermost(draft: _Draft) -> tuple[Mount, ...]:
    """Return what is shown without what another mount shows already.

    A mount whose target lies in another that shows something else there is left out: its point may not
    exist in a read-only tree, and one failing mount fails every launch.
    """
    kept: dict[str, str] = {}
    for target in sorted(draft.shown):
        source = draft.shown[target]
        if not any(inside(target, outer) for outer in kept):
            kept[target] = source
            continue
        outer = next(outer for outer in kept if inside(target, outer))
        if str(PurePosixPath(kept[outer]) / PurePosixPath(target).relative_to(outer)) != source:
            draft.refused[target] = f"it lies in {outer}, which shows something else"
    return tuple(Mount(source=source, target=target) for target, source in kept.items())
