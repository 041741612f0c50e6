"""What an import drags in, looked at in a fresh process: the static graph cannot see lazy imports."""

import json
import subprocess
import sys
import tomllib

import pytest

from tests.arch.source_tree import ROOT, modules, under

SHOW_VERSION = """
import sys
sys.argv = ["fusion", "--version"]
from fusiond.cli.main import main
try:
    status = main()
except SystemExit as exit:
    status = exit.code
assert not status, status
"""

IMPORT_ALL = """
import importlib, sys
for name in {names}:
    importlib.import_module(name)
"""

TELL = """
import json
print()
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""

HEAVY = {"aiosqlite", "cattrs", "duckdb", "jsonschema", "textual", "watchfiles"}
AGENT_LIBRARIES = {"acp", "mcp", "pydantic_ai"}
# The standard library's own modules for IO that nothing pure needs, even by way of another.
IO = {"asyncio", "logging", "selectors", "socket", "sqlite3", "subprocess", "tempfile"}


def loaded_by(program: str, *options: str) -> tuple[str, set[str]]:
    """Run `program` in a fresh process; return what it printed and the top-level modules it loaded."""
    command = [sys.executable, *options, "-c", program + TELL]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    printed, _, names = outcome.stdout.rstrip().rpartition("\n")
    return printed, set(json.loads(names))


def test_version_is_shown_without_loading_anything_slow() -> None:
    printed, loaded = loaded_by(SHOW_VERSION)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] in printed
    assert loaded & (HEAVY | AGENT_LIBRARIES | {"asyncio"}) == set()


def names_under(package: str) -> list[str]:
    """Return the names of the modules of a package, as far as they are there."""
    return [module.name for module in modules(package.partition(".")[0]) if under(module.name, package)]


def test_launcher_loads_without_site_packages() -> None:
    program = f"import sys; sys.path.append({str(ROOT)!r})" + IMPORT_ALL.format(
        names=names_under("fusiond.sandbox.inside")
    )
    _, loaded = loaded_by(program, "-I", "-S")
    assert loaded & {"asyncio", "subprocess", "site"} == set()


@pytest.mark.parametrize(
    "package,banned",
    [
        ("fusiond.domain", HEAVY | IO | {"attrs", "click", "msgpack", "orjson", "random", "uuid"}),
        ("fusiond.codec", (HEAVY - {"cattrs"}) | {"asyncio", "sqlite3"}),
        ("fusiond.wire", (HEAVY - {"cattrs"}) | {"asyncio", "sqlite3"}),
        ("fusiond.ports", (HEAVY - {"cattrs"}) | {"asyncio", "sqlite3"}),
        ("fusiond.execution", HEAVY - {"cattrs"}),
        ("fusiond.daemon", {"duckdb", "textual"} | AGENT_LIBRARIES),
        ("fusion_tui.view", {"asyncio", "textual", "duckdb"}),
        ("replay.guard", {"asyncio", "duckdb", "textual"}),
        ("replay.compare", {"asyncio", "duckdb", "textual"}),
        ("replay.check", {"asyncio", "duckdb", "textual"}),
        ("replay.report", {"asyncio", "duckdb", "textual"}),
    ],
)
def test_package_loads_nothing_beyond_its_layer(package: str, banned: set[str]) -> None:
    _, loaded = loaded_by(IMPORT_ALL.format(names=names_under(package)))
    assert loaded & banned == set()
