"""The README's tour works as it is written."""

import re

from tests.arch.source_tree import ROOT
from tests.e2e.shell import EXAMPLES, Shell, state_of

README = (ROOT / "README.md").read_text()
TOUR = README.partition("## Five minutes in your own repository\n")[2].partition("\n## ")[0]


def fences(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_tour_works_as_written(own_shell: Shell) -> None:
    own_shell.repository({"a.txt": "a\n"})
    first, look, change = fences(TOUR, "sh")
    # Without -e: what `fusion doctor` says of this machine is no matter here.
    own_shell.command(["/bin/sh", "-uc", first])
    before = state_of(own_shell.root)
    assert {name.split("/")[0] for name in before} == {".git", "a.txt", "fusion.yaml"}
    own_shell.command(["/bin/sh", "-euc", look])
    assert state_of(own_shell.root) == before
    [flow] = fences(TOUR, "yaml")
    (own_shell.root / "fusion.yaml").write_text(flow)
    own_shell.command(["/bin/sh", "-euc", change])
    assert (own_shell.root / "NOTES.md").read_text() == "Fusion was here.\n"
    assert own_shell.git("status", "--porcelain") == "?? fusion.yaml\n"


def test_flow_in_the_readme_is_read_without_a_problem(own_shell: Shell) -> None:
    [flow] = [text for text in fences(README, "yaml") if "review" in text]
    (own_shell.root / "schemas").mkdir()
    (own_shell.root / "schemas/report.json").write_text("{}")
    path = own_shell.root / "fusion.yaml"
    path.write_text(flow)
    assert "ok, 2 nodes" in own_shell.fusion("flow", "check", str(path)).out


def test_scripts_and_examples_are_there() -> None:
    for name in re.findall(r"^(scripts/\w+)", README, re.MULTILINE):
        assert (ROOT / name).is_file()
    for name in re.findall(r"\]\(([\w./-]+)\)", README + (EXAMPLES / "README.md").read_text()):
        assert (ROOT / name).exists() or (EXAMPLES / name).exists()
