"""Every example does what its README says, through the real command line and daemon."""

import json
from pathlib import Path

import pytest

from tests.e2e.shell import EXAMPLES, Shell, run_id, state_of


def test_each_example_is_complete() -> None:
    names = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    assert names == {"fan-in", "fix-bug", "hello", "polyglot"}
    for name in names:
        assert {"README.md", "fusion.yaml", "repo"} <= {path.name for path in (EXAMPLES / name).iterdir()}
        assert [*EXAMPLES.joinpath(name).rglob(".git")] == []


def test_hello_hands_a_frozen_artifact_on(own_shell: Shell) -> None:
    own_shell.example("hello")
    ended = own_shell.fusion("run", "-i", "name=Ada")
    run = run_id(ended.out)
    assert ended.out == f"{run} ✓ succeeded\n"
    assert own_shell.fusion("artifact", "cat", f"{run}/greet", "greeting").out == "Hello, Ada!\n"
    assert own_shell.fusion("artifact", "cat", f"{run}/shout", "shout").out == "HELLO, ADA!\n"
    stages = own_shell.stages(run)
    assert stages["shout"]["needs"] == ["greet"]
    assert [gate["outcome"] for gate in stages["shout"]["attempts"][0]["gates"]] == ["passed"]


def test_fix_bug_is_mended_by_one_rerun_and_merged(own_shell: Shell, tmp_path: Path) -> None:
    own_shell.example("fix-bug")
    before = state_of(own_shell.root)
    own_shell.command(["python3", "-B", "-m", "unittest"], code=1)
    document = own_shell.document("run")
    run = document["run"]
    assert document == {"run": run, "outcome": "succeeded", "exit_code": 0}

    stages = own_shell.stages(run)
    [attempt] = stages["fix"]["attempts"]
    assert (attempt["phase"], attempt["reruns"], attempt["turn"]) == ("frozen", 1, 2)
    assert [(gate["name"], gate["turn_or_round"], gate["outcome"]) for gate in attempt["gates"]] == [
        ("unit", 2, "passed")
    ]
    assert [len(stages[node]["attempts"]) for node in ("review", "changelog")] == [1, 1]
    expect_feedback_on_everything(own_shell.fusion("logs", f"{run}/fix", "--what", "turn-2").out)

    report = json.loads(own_shell.fusion("artifact", "cat", f"{run}/fix", "report").out)
    assert (report["file"], report["passes"]) == ("billsplit/splitting.py", 2)
    own_shell.fusion("artifact", "save", f"{run}/review", "review", str(tmp_path / "review.md"))
    assert "Every claim and every share holds." in (tmp_path / "review.md").read_text()
    assert "+    return [share + 1] * left" in own_shell.fusion("code", "diff", f"{run}/fix").out
    assert "return [share] * people" in splitting(own_shell, run, "--at", "start")
    assert "return [share + 1] * left" in splitting(own_shell, run)

    assert state_of(own_shell.root) == before
    own_shell.fusion("merge", run)
    own_shell.command(["python3", "-B", "-m", "unittest"])
    assert own_shell.git("status", "--porcelain") == ""
    assert own_shell.git("diff", "--name-only", "HEAD~2").split() == [
        "CHANGELOG.md",
        "billsplit/splitting.py",
    ]


def expect_feedback_on_everything(told: str) -> None:
    """One feedback names the failed gate with its output, and every problem of manifest and summary."""
    for part in (
        "Gate unit did not pass.",
        "unfair shares",
        "artifacts[0].media_type: manifest_field",
        "report.json: digest_mismatch",
        "result.md: summary_invalid",
        "Reruns left after this one: 1",
    ):
        assert part in told


def splitting(shell: Shell, run: str, *options: str) -> str:
    return shell.fusion("code", "cat", f"{run}/fix", "billsplit/splitting.py", *options).out


def test_fan_in_joins_what_three_nodes_wrote(own_shell: Shell) -> None:
    own_shell.example("fan-in")
    before = state_of(own_shell.root)
    run = run_id(own_shell.fusion("run").out)
    index = own_shell.fusion("code", "cat", f"{run}/index", "index.md").out
    assert ("the bakery" in index, "by mail" in index, "4 euros" in index) == (True, True, True)
    changed = own_shell.fusion("code", "diff", f"{run}/index").out
    assert [line for line in changed.splitlines() if line.startswith("diff ")] == [
        "diff --git a/index.md b/index.md"
    ]
    assert state_of(own_shell.root) == before
    own_shell.fusion("merge", run)
    assert (own_shell.root / "index.md").read_text() == index

    expect_conflict(own_shell)


def expect_conflict(shell: Shell) -> None:
    """The flow with a conflict ends before the join runs, with the paths, and leaves nothing to merge."""
    before = state_of(shell.root)
    shell.git("checkout", "--quiet", "HEAD~4")
    shell.git("switch", "--quiet", "--create", "again")
    before = state_of(shell.root)
    document = shell.document("run", "conflict.yaml", code=1)
    stages = shell.stages(document["run"])
    assert (stages["publish"]["status"], stages["publish"]["attempts"]) == ("code_conflict", [])
    assert stages["publish"]["conflict_paths"] == ["pages/about.md"]
    assert [stages[node]["status"] for node in ("formal", "casual")] == ["succeeded", "succeeded"]
    assert "conflict in pages/about.md" in shell.fusion("why").out
    assert "is failed" in shell.fusion("merge", code=2).err
    assert state_of(shell.root) == before


@pytest.mark.needs_tool("go", "node")
def test_polyglot_is_gated_by_three_native_runners(own_shell: Shell) -> None:
    own_shell.example("polyglot")
    run = run_id(own_shell.fusion("run").out)
    stages = own_shell.stages(run)
    assert {
        node: stages[node]["attempts"][0]["gates"][0]["outcome"] for node in ("go", "node", "python")
    } == {
        "go": "passed",
        "node": "passed",
        "python": "passed",
    }
    toolchains = own_shell.fusion("artifact", "cat", f"{run}/report", "toolchains").out.splitlines()
    assert [line[:9] for line in toolchains][0::2] == ["go versio", "Python 3."]
    assert "ok  \texample.invalid/slug" in own_shell.fusion("logs", f"{run}/go", "--what", "gate-test-1").out
    spec = own_shell.fusion("code", "cat", f"{run}/python", "spec/slugs.tsv").out
    assert "Déjà  vu!\td-j-vu" in spec
