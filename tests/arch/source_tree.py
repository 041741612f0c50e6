"""The project's own files as the architecture tests see them: modules with syntax trees, and texts."""

import ast
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("fusiond", "fusion_tui", "replay")

# Directories that tools make, for a tree that is no git repository; .gitignore says the same to git.
GENERATED = frozenset(
    {
        ".fusion",
        ".git",
        ".hypothesis",
        ".import_linter_cache",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".venv",
        "__pycache__",
        "build",
        "dist",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One Python file: dotted name, path from the root, text and syntax tree."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def is_init(self) -> bool:
        """Whether this is an `__init__.py`."""
        return self.path.name == "__init__.py"

    def at(self, node: ast.stmt | ast.expr | ast.excepthandler, what: str) -> str:
        """Return a finding: where, and what."""
        return f"{self.path}:{node.lineno}: {what}"


def parse(text: str, path: str) -> Module:
    """Return `text` as the module that a file at `path` would be."""
    place = Path(path)
    parts = place.with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return Module(name=name, path=place, text=text, tree=ast.parse(text, path))


@cache
def modules(*packages: str) -> tuple[Module, ...]:
    """Return every module under the named directories, sorted by path."""
    paths = sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))
    return tuple(parse(path.read_text(), str(path.relative_to(ROOT))) for path in paths)


def under(name: str, *packages: str) -> bool:
    """Say whether the dotted `name` is one of `packages` or inside one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


@cache
def project_files() -> tuple[Path, ...]:
    """Return every file of the project, from the root: what git has or would add, else what is there."""
    git = shutil.which("git")
    if git and (ROOT / ".git").exists():
        listing = [git, "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        found = subprocess.run(listing, check=True, capture_output=True, text=True).stdout.split("\0")
        return tuple(Path(name) for name in sorted(found) if name and (ROOT / name).is_file())
    return tuple(sorted(_walk(ROOT)))


def _walk(directory: Path) -> Iterator[Path]:
    for path in directory.iterdir():
        if path.is_dir():
            if path.name not in GENERATED:
                yield from _walk(path)
        elif path.suffix != ".pyc":
            yield path.relative_to(ROOT)
