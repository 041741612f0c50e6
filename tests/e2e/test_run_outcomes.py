"""What `fusion run` exits with and prints, for every way in which a run or a command can end."""

import json

import pytest

from tests.e2e.shell import Shell, run_id, state_of
from tests.waiting import wait_until

QUICK = "flow: quick\nnodes:\n  quick: {run: echo done}\n"
RED = """\
flow: red
limits: {repair_reruns: 1, attempts: 1}
nodes:
  red: {run: "true", gates: [{name: unit, run: "echo the gate says no; exit 1"}]}
  after: {run: "true", needs: [red]}
"""
LACKING = """\
flow: lacking
toolchains: {no-such-tool: ">=1"}
nodes:
  never: {run: "true"}
"""
UNSUPPORTED = "flow: early\nnodes:\n  agent: {acp: codex, prompt: Hello}\n"
WRONG = "flow: wrong\nnodes:\n  wrong: {run: 'true', need: [quick]}\n"
WAITING = """\
flow: waiting
nodes:
  wait: {run: 'echo waiting; while [ ! -e "$FUSION_SESSION/go" ]; do sleep 0.05; done; echo gone'}
"""
IMPATIENT = """\
flow: impatient
limits: {wall_clock: 1s, attempts: 1}
nodes:
  endless: {run: sleep 600}
"""


@pytest.fixture(scope="module")
def person(shell: Shell) -> Shell:
    shell.repository({"a.txt": "a\n"})
    shell.fusion("init")
    shell.git("add", "fusion.yaml")
    shell.git("commit", "--quiet", "--message", "A flow")
    return shell


def test_success_is_0_and_json_is_one_document(person: Shell) -> None:
    ended = person.fusion("run", person.flow("quick", QUICK), "--json")
    document = json.loads(ended.out)
    assert (document["outcome"], document["exit_code"]) == ("succeeded", 0)
    assert "succeeded" in ended.err
    listed = person.document("ls")
    assert listed[0]["run"] == document["run"]
    assert person.document("show", document["run"][:11])["summary"]["status"] == "succeeded"
    assert person.fusion("logs", document["run"]).out == "done\n"


def test_red_gate_is_1_and_why_says_which(person: Shell) -> None:
    before = state_of(person.root)
    ended = person.fusion("run", person.flow("red", RED), code=1)
    run = run_id(ended.out)
    stages = person.stages(run)
    assert (stages["red"]["status"], stages["after"]["status"]) == ("failed", "skipped")
    assert stages["red"]["attempts"][0]["reruns"] == 1
    why = person.fusion("why", run).out
    assert "red: failed: gate unit: exit code 1" in why
    assert "| the gate says no" in why
    assert "What to do: " in why
    assert state_of(person.root) == before


def test_missing_toolchain_is_2_before_anything_starts(person: Shell) -> None:
    document = person.document("run", person.flow("lacking", LACKING), code=2)
    assert document["outcome"] == "blocked"
    assert person.stages(document["run"])["never"]["attempts"] == []
    assert "no-such-tool >=1: not found on PATH" in person.fusion("why", document["run"]).out


def test_what_this_version_does_not_run_is_2(person: Shell) -> None:
    ended = person.fusion("run", person.flow("early", UNSUPPORTED), code=2)
    assert "`run:` nodes in this version" in ended.err


def test_spent_wall_clock_parks_with_3(person: Shell) -> None:
    document = person.document("run", person.flow("impatient", IMPATIENT), code=3)
    assert document["outcome"] == "parked"
    assert "fusion resume" in person.fusion("why", document["run"]).out
    person.fusion("cancel", document["run"])
    wait_until(lambda: status(person, document["run"]) == "cancelled", "end of the parked run")


def test_detached_run_can_be_cancelled_and_its_log_ends(person: Shell) -> None:
    run = person.document("run", "--detach", person.flow("waiting", WAITING))["run"]
    wait_until(lambda: "waiting" in person.fusion("logs", run).out, "output")
    follower = person.start("logs", "--follow", run)
    person.fusion("cancel", run, "--reason", "enough")
    said, _ = follower.communicate()
    assert said == b"==> wait/1 turn-1 <==\nwaiting\n"
    wait_until(lambda: status(person, run) == "cancelled", "end of the run")
    assert "cancelled" in person.fusion("why", run).out


def test_run_that_somebody_else_cancels_is_4(person: Shell) -> None:
    following = person.start("run", "--json", person.flow("waiting", WAITING))
    assert following.stdout is not None
    run = run_id(following.stdout.readline().decode())
    person.fusion("cancel", run)
    said, _ = following.communicate()
    assert following.returncode == 4
    [document] = [line for line in said.splitlines() if line.startswith(b"{")]
    assert json.loads(document) == {"run": run, "outcome": "cancelled", "exit_code": 4}


def test_logs_follow_output_as_it_is_written(person: Shell) -> None:
    run = person.fusion("run", "--detach", person.flow("waiting", WAITING)).out.strip()
    follower = person.start("logs", "-f", f"{run}/wait")
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"==> wait/1 turn-1 <==\n"
    assert follower.stdout.readline() == b"waiting\n"
    assert status(person, run) == "running"
    (person.session_of(run, "wait") / "go").touch()
    said, _ = follower.communicate()
    assert (said, follower.returncode) == (b"gone\n", 0)


def status(person: Shell, run: str) -> str:
    return str(person.document("show", run)["summary"]["status"])


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["runn"], "Did you mean `run`?"),
        (["run", "--no-such-option"], "No such option"),
        (["run", "no-such-flow.yaml"], "no flow file"),
        (["run", "-i", "no-value"], "NAME=VALUE"),
        (["run", "fusion.yaml", "-i", "unknown=1"], "the flow has no such input"),
        (["show", "zzz"], "zzz"),
        (["show", "not an id!"], "names no run"),
        (["code", "ls", "@last"], "names no node"),
    ],
)
def test_wrong_use_is_64_and_says_what_is_right(person: Shell, arguments: list[str], said: str) -> None:
    assert said in person.fusion(*arguments, code=64).err


def test_artifact_that_is_not_there_is_64(person: Shell) -> None:
    run = person.document("run", person.flow("quick", QUICK))["run"]
    (node,) = person.document("show", run)["stages"]
    asked = ("artifact", "cat", f"{run}/{node['node']}", "nothing")
    assert "no artifact nothing" in person.fusion(*asked, code=64).err


def test_logs_of_what_is_not_there_are_64(person: Shell) -> None:
    run = person.document("run", person.flow("quick", QUICK))["run"]
    assert "has no node nope; expected quick" in person.fusion("logs", f"{run}/nope", code=64).err
    assert "quick has no attempt 9" in person.fusion("logs", f"{run}/quick/9", code=64).err


def test_merge_of_a_run_that_changed_no_code_says_so(person: Shell) -> None:
    run = person.document("run", person.flow("quick", QUICK))["run"]
    assert "changed no code" in person.fusion("merge", run).out


def test_only_artifact_needs_no_name(person: Shell) -> None:
    one = "flow: one\nnodes:\n  a: {run: 'echo hi > $FUSION_OUTPUTS/x.txt', outputs: {x: {path: x.txt}}}\n"
    run = person.document("run", person.flow("one", one))["run"]
    assert person.fusion("artifact", "cat", f"{run}/a").out == "hi\n"
    person.fusion("artifact", "save", f"{run}/a", "x")
    assert (person.root / "x.txt").read_text() == "hi\n"
    assert "exists" in person.fusion("artifact", "save", f"{run}/a", "x", code=64).err
    (person.root / "x.txt").unlink()
    (person.root / "x.txt").symlink_to("nowhere")
    assert "exists" in person.fusion("artifact", "save", f"{run}/a", "x", code=64).err
    (person.root / "x.txt").unlink()
    two = "flow: two\nnodes:\n  a: {run: 'cd $FUSION_OUTPUTS; touch b c', outputs: {all: {collect: '*'}}}\n"
    run = person.document("run", person.flow("two", two))["run"]
    assert (
        "2 artifacts; expected the name of one, such as b, c"
        in person.fusion("artifact", "cat", f"{run}/a", code=64).err
    )


def test_wrong_flow_file_is_64_with_every_problem(person: Shell) -> None:
    ended = person.fusion("run", person.flow("wrong", WRONG), code=64)
    assert "wrong.yaml:3:24: nodes.wrong.need: " in ended.err
    assert "did you mean needs?" in ended.err
    checked = person.fusion("flow", "check", person.flow("wrong", WRONG), code=64)
    assert "did you mean needs?" in checked.out


def test_unreachable_daemon_is_69(own_shell: Shell) -> None:
    own_shell.repository({"a.txt": "a\n"})
    own_shell.fusion("init")
    assert "fusion daemon start" in own_shell.fusion("daemon", "status", code=69).err
    nowhere = {"XDG_RUNTIME_DIR": str(own_shell.place / "nowhere")}
    assert "the daemon did not start" in own_shell.fusion("run", env=nowhere, code=69).err
    assert own_shell.fusion("daemon", "stop").out == "not running\n"


def test_no_workspace_is_64_with_the_cure(own_shell: Shell) -> None:
    assert "run `fusion init`" in own_shell.fusion("run", code=64).err


def test_dirty_checkout_is_refused_with_2(own_shell: Shell) -> None:
    own_shell.repository({"a.txt": "a\n", "fusion.yaml": QUICK})
    own_shell.fusion("init")
    (own_shell.root / "a.txt").write_text("b\n")
    ended = own_shell.fusion("run", code=2)
    assert "a.txt" in ended.err
    run = run_id(own_shell.fusion("run", "--include-dirty").out)
    assert own_shell.fusion("code", "cat", f"{run}/quick", "a.txt").out == "b\n"
    assert own_shell.git("status", "--porcelain") == " M a.txt\n"
