"""The import contracts of pyproject.toml hold, each of them bites, and none forbids what must be allowed.

A copy of the packages gets forbidden imports, at least one per contract; the linter
must name each under the contract that is there to forbid it.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.arch.source_tree import PACKAGES, ROOT

# Contract, importing module, imported module.
FORBIDDEN = [
    ("clients-above-fusiond", "fusiond.daemon.planted", "fusion_tui.planted"),
    ("clients-above-fusiond", "replay.planted", "fusion_tui.planted"),
    ("fusiond-layers", "fusiond.domain.planted", "fusiond.codec.planted"),
    ("fusiond-layers", "fusiond.codec.planted", "fusiond.ports.planted"),
    ("fusiond-layers", "fusiond.ports.planted", "fusiond.wire.planted"),
    ("fusiond-layers", "fusiond.execution.planted", "fusiond.ledger.planted"),
    ("fusiond-layers", "fusiond.content.planted", "fusiond.snapshots.planted"),
    ("fusiond-layers", "fusiond.daemon.planted", "fusiond.cli.planted"),
    ("domain-layers", "fusiond.domain.digest", "fusiond.domain.flow"),
    ("domain-layers", "fusiond.domain.steps.kinds", "fusiond.domain.fold"),
    ("domain-layers", "fusiond.domain.state", "fusiond.domain.decide"),
    ("engine-without-wire", "fusiond.ledger.planted", "fusiond.wire.planted"),
    ("engine-without-wire", "fusiond.evidence.planted", "fusiond.wire.planted"),
    ("engine-without-wire", "fusiond.execution.planted", "fusiond.wire.planted"),
    ("bootstrap-names-adapters", "fusiond.daemon.planted", "fusiond.snapshots.planted"),
    ("bootstrap-names-adapters", "fusiond.daemon.planted", "fusiond.evidence.reader"),
    ("pure-fusiond", "fusiond.domain.planted", "sqlite3"),
    ("pure-fusiond", "fusiond.codec.planted", "os"),
    ("pure-fusiond", "fusiond.wire.planted", "socket"),
    ("pure-fusiond", "fusiond.ports.planted", "asyncio"),
    ("pure-clients", "replay.guard", "time"),
    ("pure-clients", "replay.compare", "fusiond.evidence.reader"),
    ("pure-clients", "fusion_tui.view.planted", "textual"),
    ("domain-stdlib-only", "fusiond.domain.planted", "orjson"),
    ("tui-through-client", "fusion_tui.planted", "fusiond.ledger.planted"),
    ("tui-through-client", "fusion_tui.planted", "fusiond.evidence.reader"),
    ("replay-reads-only", "replay.planted", "fusiond.evidence.writer"),
    ("replay-reads-only", "replay.planted", "fusiond.ports.planted"),
    ("reader-apart-from-writer", "fusiond.evidence.reader", "fusiond.evidence.writer"),
    ("tui-layers", "fusion_tui.widgets.planted", "fusion_tui.screens.planted"),
    ("replay-layers", "replay.report", "replay.check"),
    ("aiosqlite-in-ledger", "fusiond.evidence.planted", "aiosqlite"),
    ("duckdb-in-evidence", "fusiond.daemon.planted", "duckdb"),
    ("textual-in-tui", "fusiond.cli.planted", "textual"),
    ("serialisers-in-codec", "fusiond.wire.planted", "msgpack"),
    ("agent-sdks-in-agents", "fusiond.daemon.planted", "pydantic_ai"),
]

# On the way from an importer above to what its contract forbids; not looked for in the report.
ACCOMPLICES = [("fusiond.evidence.reader", "duckdb")]

# Modules that import each other.
CYCLE = ("fusiond.workspace.one", "fusiond.workspace.two")

# Contract, module that the contract does not list.
UNLISTED = [
    ("fusiond-layers", "fusiond.unlisted"),
    ("domain-layers", "fusiond.domain.unlisted"),
    ("tui-layers", "fusion_tui.unlisted"),
    ("replay-layers", "replay.unlisted"),
]

ALLOWED = [
    ("fusiond.agents.permitted", "pydantic_ai"),
    ("fusiond.agents.permitted", "fusiond.wire.permitted"),
    ("fusiond.cli.permitted", "fusiond.client.permitted"),
    ("fusiond.client.permitted", "asyncio"),
    ("fusiond.codec.permitted", "orjson"),
    ("fusiond.daemon.bootstrap", "fusiond.evidence.reader"),
    ("fusiond.daemon.bootstrap", "fusiond.ledger.permitted"),
    ("fusiond.daemon.main", "fusiond.daemon.bootstrap"),
    ("fusiond.evidence.reader", "duckdb"),
    ("fusiond.execution.permitted", "fusiond.ports.permitted"),
    ("fusiond.ledger.permitted", "aiosqlite"),
    ("fusiond.wire.permitted", "fusiond.codec.permitted"),
    ("fusion_tui.app", "textual"),
    ("fusion_tui.link", "fusiond.client.permitted"),
    ("fusion_tui.view.permitted", "fusiond.wire.permitted"),
    ("replay.sources", "fusiond.evidence.reader"),
    ("replay.sources", "fusiond.client.permitted"),
]


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    """Run the linter over the packages in `root`."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()"]
    wide = {**os.environ, "COLUMNS": "400"}
    options = ["--no-cache", "--no-logo"]
    return subprocess.run(
        [*command, *options], cwd=root, env=wide, capture_output=True, text=True, check=False
    )


def copied(root: Path) -> Path:
    """Copy the packages and their contracts into `root`."""
    shutil.copy(ROOT / "pyproject.toml", root)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def module_file(root: Path, name: str) -> Path:
    """Return the file of a module in `root`, which is made, packages and all, if it is not there."""
    path = root.joinpath(*name.split("."))
    if path.is_dir():
        return path / "__init__.py"
    for package in reversed(path.relative_to(root).parents[:-1]):
        (root / package).mkdir(exist_ok=True)
        (root / package / "__init__.py").touch()
    path.with_suffix(".py").touch()
    return path.with_suffix(".py")


def plant(root: Path, importer: str, imported: str) -> None:
    """Make `importer` import `imported`."""
    if imported.split(".", maxsplit=1)[0] in PACKAGES:
        module_file(root, imported)
    with module_file(root, importer).open("a") as source:
        source.write(f"\nimport {imported}\n")


def contract_names() -> dict[str, str]:
    """Return the contracts' names by id."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    return {contract["id"]: contract["name"] for contract in settings["contracts"]}


@pytest.fixture(scope="module")
def planted_report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return what the linter says of a copy with every violation, by contract id."""
    root = copied(tmp_path_factory.mktemp("planted"))
    for importer, imported in [*ACCOMPLICES, CYCLE, CYCLE[::-1]]:
        plant(root, importer, imported)
    for _, importer, imported in FORBIDDEN:
        plant(root, importer, imported)
    for _, name in UNLISTED:
        module_file(root, name)
    outcome = lint(root)
    assert outcome.returncode == 1, outcome.stdout + outcome.stderr
    # Each broken contract is a section: its name, underlined, then what is wrong.
    parts = re.split(r"^(.+)\n-+\n", outcome.stdout.partition("Broken contracts")[2], flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    return {contract: sections.get(name, "") for contract, name in contract_names().items()}


def test_contracts_hold() -> None:
    outcome = lint(ROOT)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_contracts_allow_what_the_design_needs(tmp_path: Path) -> None:
    root = copied(tmp_path)
    for importer, imported in ALLOWED:
        plant(root, importer, imported)
    outcome = lint(root)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.parametrize("contract,importer,imported", FORBIDDEN)
def test_forbidden_import_is_named(
    planted_report: dict[str, str], contract: str, importer: str, imported: str
) -> None:
    assert f"{importer} -> {imported} (l." in planted_report[contract]


@pytest.mark.parametrize("contract,name", UNLISTED)
def test_unlisted_module_is_named(planted_report: dict[str, str], contract: str, name: str) -> None:
    assert f"- {name}\n" in planted_report[contract]


def test_cycle_is_named(planted_report: dict[str, str]) -> None:
    assert "No cycles are allowed in fusiond.workspace." in planted_report["acyclic"]


def test_every_contract_has_a_violation_planted() -> None:
    assert {contract for contract, _, _ in FORBIDDEN} | {"acyclic"} == contract_names().keys()
