"""What the repository holds: only what belongs there, and nothing of the machines it was built on."""

import re
import stat
from collections.abc import Iterator

import pytest

from tests.arch.source_tree import ROOT, project_files

TOP_LEVEL = {
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "examples",
    "fusion_tui",
    "fusiond",
    "pyproject.toml",
    "replay",
    "requirements.lock",
    "scripts",
    "tests",
}
PROGRAMS = (".ci/run", "scripts/check", "scripts/demo", "scripts/test")

# Put together here, so that this file does not hold what it looks for.
MACHINE = [rf"(?<![\w.$}})-])/{name}(?![\w-])" for name in ("work", "root", "home/(?!linuxbrew)[a-z]+")]
NEIGHBOUR = rf"(?<![\w-]){'shared'}/"
REGISTRIES = [
    rf"\b{name}\.{domain}\b"
    for name, domain in [
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "(?:org|com)"),
        ("yarnpkg", "com"),
        ("proxy.golang", "org"),
        ("crates", "io"),
        ("debian", "org"),
        ("ubuntu", "com"),
    ]
]
FOREIGN = re.compile("|".join([*MACHINE, NEIGHBOUR, *REGISTRIES]))


def foreign_names(text: str) -> Iterator[str]:
    """Find paths of a building machine, package registries, and a folder beside the repository."""
    for number, line in enumerate(text.splitlines(), start=1):
        for found in FOREIGN.finditer(line):
            yield f"{number}: {found.group()}"


def test_project_files_name_no_machine_and_no_registry() -> None:
    findings = []
    for path in project_files():
        content = (ROOT / path).read_bytes()
        if b"\0" not in content:
            findings += [f"{path}:{found}" for found in foreign_names(content.decode(errors="replace"))]
    assert findings == []


@pytest.mark.parametrize(
    "text",
    [
        "see /" + "work/main",
        "'/" + "root'",
        "HOME=/" + "home/someone",
        "cd ../shar" + "ed/design",
        "https://py" + "pi.org/simple",
        "files.python" + "hosted.org",
    ],
)
def test_foreign_names_are_found(text: str) -> None:
    assert list(foreign_names(text))


@pytest.mark.parametrize(
    "text",
    ["fusiond/workspace", "a/work/b", "$HOME/root", "/workspace", "/attempt", "unshared/x", "/home", "pypi"],
)
def test_near_misses_are_let_pass(text: str) -> None:
    assert list(foreign_names(text)) == []


def test_top_level_holds_only_what_belongs_there() -> None:
    top = {path.parts[0] for path in project_files()}
    assert {name for name in top if not name.startswith(".")} - TOP_LEVEL == set()


@pytest.mark.parametrize("program", PROGRAMS)
def test_scripts_can_be_started(program: str) -> None:
    assert (ROOT / program).stat().st_mode & stat.S_IXUSR


def test_license_is_apache() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "Version 2.0" in text
