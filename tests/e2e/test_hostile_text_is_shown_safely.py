"""Nothing that a repository, a command or a gate wrote steers the terminal of whoever looks at it."""

import re

import pytest

from tests.e2e.shell import Ended, Shell, run_id

HOSTILE = r"""
flow: hostile
limits: {repair_reruns: 0, attempts: 1}
nodes:
  noisy:
    run: |
      printf '\033]0;owned\007\033[2Jcleared\342\200\256gnp.exe\n'
  gated:
    run: "true"
    needs: [noisy]
    gates:
      - name: red
        run: |
          printf '\033[31mred\033[0m\n'; exit 1
"""
ARTIFACT = r"""
flow: artifact
limits: {repair_reruns: 0, attempts: 1}
nodes:
  named:
    run: |
      printf x > "$FUSION_OUTPUTS/$(printf 'evil\033]0;owned\007.txt')"
    outputs: {all: {collect: "*.txt"}}
"""
CODE = r"""
flow: code
limits: {repair_reruns: 1, attempts: 1}
nodes:
  named:
    run: |
      if [ -n "${FUSION_FEEDBACK-}" ]; then cat "$FUSION_FEEDBACK"; rm evil*35m; echo b > a.txt
      else printf x > "$(printf 'evil\033[35m')"; fi
    code: write
"""
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
TREE = "flow: tree\nnodes:\n  tree: {run: 'true'}\n"


@pytest.fixture(scope="module")
def person(shell: Shell) -> Shell:
    shell.repository({"a.txt": "a\n", "evil\x1b[31m\u202e": "\x1b[2Jcontent\n"})
    shell.fusion("init")
    shell.git("add", "fusion.yaml")
    shell.git("commit", "--quiet", "--message", "A flow")
    return shell


def expect_safe(ended: Ended) -> None:
    """Expect printable characters, tabs and line feeds only, on both streams."""
    assert _STEERING.findall(ended.out + ended.err) == []


def test_output_is_visible_and_harmless(person: Shell) -> None:
    followed = person.fusion("run", person.flow("hostile", HOSTILE), code=1)
    run = run_id(followed.out)
    logs = person.fusion("logs", run)
    for ended in (followed, logs, person.fusion("show", run), person.fusion("why", run)):
        expect_safe(ended)
    assert "<U+001B>]0;owned<U+0007><U+001B>[2Jcleared<U+202E>gnp.exe" in logs.out
    assert "<U+001B>[31mred<U+001B>[0m" in person.fusion("why", run).out
    assert "\x1b[2Jcleared" in person.fusion("logs", f"{run}/noisy", "--raw").out


def test_artifact_name_is_refused_and_shown(person: Shell) -> None:
    followed = person.fusion("run", person.flow("artifact", ARTIFACT), code=1)
    why = person.fusion("why", run_id(followed.out))
    for ended in (followed, why):
        expect_safe(ended)
    assert "evil<U+001B>]0;owned<U+0007>.txt" in why.out


def test_file_name_in_the_code_is_told_to_the_agent_that_can_mend_it(person: Shell) -> None:
    """A name that no revision takes is a contract problem like any other: it spends a rerun."""
    followed = person.fusion("run", person.flow("code", CODE))
    run = run_id(followed.out)
    told = person.fusion("logs", run, "--what", "turn-2")
    for ended in (followed, told):
        expect_safe(ended)
    assert "evil<U+001B>[35m" in told.out
    assert person.stages(run)["named"]["attempts"][0]["reruns"] == 1


def test_tree_of_the_repository_is_listed_safely(person: Shell) -> None:
    run = run_id(person.fusion("run", person.flow("tree", TREE)).out)
    listed = person.fusion("code", "ls", f"{run}/tree")
    expect_safe(listed)
    assert "evil<U+001B>[31m<U+202E>" in listed.out
