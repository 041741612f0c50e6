"""Reads from the disk what `toolchains` decides over, and keeps the decision while nothing changed.

Owns the reading and the cache; no rule about what may be shown.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from fusiond.sandbox.mount_rules import Guarded
from fusiond.sandbox.toolchains import (
    SYSTEM,
    PathEntry,
    Prefix,
    Toolchains,
    ToolFacts,
    decide_toolchains,
    inside,
)

_CONFIGURATION_BYTES = 16 << 10
_Key = tuple[tuple[str, int], ...]


class ToolchainFinder:
    """Finds the toolchains of a launch's environment.

    Args:
        home: the user's home directory on the host.
        guarded: what no mount may show.
    """

    def __init__(self, home: Path, guarded: Guarded) -> None:
        self._home = home
        self._guarded = guarded
        self._key: tuple[_Key, Mapping[str, str]] | None = None
        self._found = Toolchains()

    def find(self, env: Mapping[str, str]) -> Toolchains:
        """Return what to show for an environment's search path.

        Args:
            env: PATH, GOROOT and RUSTUP_HOME of it matter.
        """
        entries = _entries(env.get("PATH", ""))
        variables = {name: env.get(name, "") for name in ("GOROOT", "RUSTUP_HOME")}
        key = (tuple((str(entry), _changed_at(entry)) for entry in entries), variables)
        if key != self._key:
            facts = read_facts(entries, variables, self._home)
            self._found = decide_toolchains(facts, self._guarded)
            self._key = key
        return self._found


def _entries(search: str) -> list[Path]:
    """Return the directories of a search path outside the system's, each once."""
    named = [Path(entry) for entry in dict.fromkeys(search.split(":")) if entry.startswith("/")]
    return [path for path in named if not inside(str(path), *SYSTEM)]


def _changed_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def read_facts(entries: list[Path], variables: Mapping[str, str], home: Path) -> ToolFacts:
    """Return what the disk says about the directories of a search path."""
    read = [entry for path in entries if (entry := _read_entry(path)) is not None]
    waiting = [str(Path(entry.real).parent) for entry in read]
    waiting += [str(Path(target).parent.parent) for entry in read for target in entry.targets]
    prefixes: dict[str, Prefix] = {}
    while waiting:
        path = waiting.pop()
        if path in prefixes or (prefix := _read_prefix(Path(path))) is None:
            continue
        prefixes[path] = prefix
        if prefix.base:
            waiting.append(str(Path(prefix.base[1]).parent))
    return ToolFacts(
        entries=tuple(read),
        prefixes=prefixes,
        home=os.path.realpath(home),
        rustup_home=_real_directory(variables.get("RUSTUP_HOME") or str(home / ".rustup")),
        goroot=_real_directory(variables.get("GOROOT", "")),
    )


def _real_directory(text: str) -> str:
    path = Path(text)
    return str(path.resolve()) if path.is_absolute() and path.is_dir() else ""


def _read_entry(path: Path) -> PathEntry | None:
    """Return one directory's facts; None where there is none that we may read."""
    try:
        real = path.resolve(strict=True)
        with os.scandir(real) as listing:
            items = list(listing)
    except OSError:
        return None
    linked = {os.path.realpath(item.path) for item in items if item.is_symlink()}
    outside = {target for target in linked if not inside(target, str(real), *SYSTEM)}
    return PathEntry(
        named=str(path),
        real=str(real),
        parent_real=os.path.realpath(path.parent),
        programs=frozenset(item.name for item in items),
        targets=tuple(sorted(target for target in outside if Path(target).is_file())),
    )


def _read_prefix(path: Path) -> Prefix | None:
    try:
        names = frozenset(item.name for item in path.iterdir())
    except OSError:
        return None
    base = _venv_base(path / "pyvenv.cfg") if "pyvenv.cfg" in names else None
    return Prefix(names=names, base=base)


def _venv_base(configuration: Path) -> tuple[str, str] | None:
    """Return the interpreter's directory that a `pyvenv.cfg` (PEP 405) names, and its real path."""
    try:
        with configuration.open("rb") as file:
            text = file.read(_CONFIGURATION_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key.strip().lower() == "home" and Path(value.strip()).is_absolute():
            return value.strip(), os.path.realpath(value.strip())
    return None
