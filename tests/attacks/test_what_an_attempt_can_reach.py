"""What a hostile attempt can change or learn: nothing that is accepted, nothing outside.

Each attack runs through the real daemon, with walls and without them.
"""

import json
from pathlib import Path

import pytest

from fusiond.domain.errors import FusionError
from tests.crash.aftermath import Aftermath, read_ledger
from tests.crash.ground import BARE, MORTAL, Ground
from tests.crash.points import Plan
from tests.crash.trial import Example, ground_for, run_to_end

MARKER = "marker-7d1f2c-bytes"


@pytest.fixture(params=[pytest.param(MORTAL, id="walls"), pytest.param(BARE, id="no-walls")])
def daemon(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """With bubblewrap, and without it."""
    return tuple(request.param)


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    """A directory for an example; the test writes its flow."""
    (tmp_path / "code.py").write_text("print('base')\n")
    return tmp_path


def _run(ground: Ground, daemon: tuple[str, ...]) -> Aftermath:
    run = run_to_end(ground, "fusion.yaml", Plan(ground.place / "log"), command=daemon)
    return read_ledger(ground, run)


def test_a_downstream_node_cannot_change_what_is_accepted(flow: Path, daemon: tuple[str, ...]) -> None:
    (flow / "fusion.yaml").write_text(
        """\
flow: tamper
limits: {attempts: 1}
nodes:
  make:
    run: echo honest > "$FUSION_OUTPUTS/made.txt"
    outputs: {made: {path: made.txt}}
  tamper:
    inputs: {made: make.made}
    run: |
      chmod -R u+w "$FUSION_INPUTS" 2>/dev/null
      echo evil > "$FUSION_INPUTS/made" 2>/dev/null
      objects="$(cat .git/objects/info/alternates)"
      find "${objects%/bases/*}/stages" -name made.txt 2>/dev/null | while read -r file; do
        chmod -R u+w "$(dirname "$file")"; echo evil > "$file"
      done
      true
  use:
    needs: [tamper]
    inputs: {made: make.made}
    run: cp "$FUSION_INPUTS/made" "$FUSION_OUTPUTS/seen.txt"
    outputs: {seen: {path: seen.txt}}
"""
    )
    with ground_for(Example(flow)) as ground:
        after = _run(ground, daemon)
        stages = {str(node): stage for node, stage in after.state.stages.items()}
        frozen = stages["use"].frozen
        if frozen is None:
            # Without walls the bytes could be changed; the hand-over noticed and nothing was accepted.
            assert str(stages["use"].block) == "input_corrupt"
            assert daemon == BARE
        else:
            assert daemon == MORTAL, "without walls the attack must have reached the frozen bytes"
            made = stages["make"].frozen
            assert made is not None
            assert frozen.artifacts[0].digest == made.artifacts[0].digest


def test_marker_bytes_of_artifacts_and_output_are_not_in_the_ledger(
    flow: Path, daemon: tuple[str, ...]
) -> None:
    (flow / "fusion.yaml").write_text(
        """\
flow: marker
limits: {repair_reruns: 1, attempts: 1}
nodes:
  fix:
    code: write
    run: |
      m="$(printf 'marker-%s' 7d1f2c-bytes)"
      echo "$m"; echo "$m" > "$FUSION_OUTPUTS/out.txt"; echo "$m" >> code.py
      [ -n "$FUSION_FEEDBACK" ] && cat "$FUSION_FEEDBACK" && echo done > done.txt
      true
    outputs: {out: {path: out.txt}}
    gates: ['cat "$FUSION_OUTPUTS/out.txt"; test -e done.txt']
"""
    )
    with ground_for(Example(flow)) as ground:
        after = _run(ground, daemon)
        assert str(after.state.outcome) == "succeeded"
        fusion = ground.repository / ".fusion"
        kept = [path for path in (fusion / "content").rglob("*") if path.is_file()]
        assert any(MARKER.encode() in path.read_bytes() for path in kept), "the marker was never written"
        for name in ("state.db", "state.db-wal"):
            path = fusion / name
            assert not path.exists() or MARKER.encode() not in path.read_bytes()


DROPPED = {
    "module-link": "rm -f .gitmodules; ln -s code.py .gitmodules",
    "colon": "echo x > .git:x",
    "backslash": "echo x > 'a\\.git'",
    "too-long": (
        'python3 -c \'import os; [(os.mkdir("d" * 200), os.chdir("d" * 200)) for _ in range(30)];'
        ' open("f", "w").write("x")\''
    ),
}


def test_what_no_revision_takes_is_refused_and_never_dropped(flow: Path) -> None:
    nodes = "".join(
        f"  {name}:\n    code: write\n    run: |\n      {command}\n" for name, command in DROPPED.items()
    )
    (flow / "fusion.yaml").write_text(
        f"flow: dropped\nlimits: {{repair_reruns: 0, attempts: 1}}\nnodes:\n{nodes}"
    )
    with ground_for(Example(flow)) as ground:
        stages = _run(ground, MORTAL).state.stages.values()
        found = {str(stage.plan.node): (str(stage.outcome), stage.detail) for stage in stages}
        for name in DROPPED:
            outcome, detail = found[name]
            assert outcome == "failed", (name, found[name])
            assert "name_refused" in detail, (name, detail)


REFUSED = [
    "HEAD:code.py",
    "HEAD",
    "../code.py",
    "./code.py",
    "/etc/passwd",
    "code.py/",
    ":(glob)**",
    ".git/config",
    "a//b",
    "-x",
    "0" * 40,
    "refs/heads/main",
    "code\n.py",
]


def test_code_and_artifacts_are_read_by_handle_and_plain_path_only(flow: Path) -> None:
    (flow / "fusion.yaml").write_text(
        """\
flow: read
nodes:
  make:
    code: write
    run: |
      echo secret > "$FUSION_OUTPUTS/undeclared.txt"; echo out > "$FUSION_OUTPUTS/out.txt"
      ln -s /etc/passwd link; echo changed > code.py
    outputs: {out: {path: out.txt}}
"""
    )
    with ground_for(Example(flow)) as ground:
        plan = Plan(ground.place / "log")
        run = run_to_end(ground, "fusion.yaml", plan, stop=False)
        try:
            with ground.connect(plan) as connection:
                place = {"run": run, "node": "make"}
                page = connection.call("code.page", {**place, "path": "code.py"})
                assert page["data"] == b"changed\n"
                page = connection.call("code.page", {**place, "path": "code.py", "at": "start"})
                assert page["data"] == b"print('base')\n"
                for path in [*REFUSED, "link", str(ground.repository / "code.py")]:
                    with pytest.raises(FusionError) as refused:
                        connection.call("code.page", {**place, "path": path})
                    assert refused.value.found, path
                for path in ["undeclared.txt", "../artifacts.json", "link", "/etc/passwd", "outputs/out.txt"]:
                    with pytest.raises(FusionError):
                        connection.call("artifact.page", {**place, "path": path})
                listed = connection.call("artifact.list", {"run": run})
                assert "undeclared" not in json.dumps(listed, default=str)
                with pytest.raises(FusionError):
                    connection.call("artifact.list", {"run": run, "tenant": "somebody"})
        finally:
            ground.stop(plan)


def test_writes_into_the_users_checkout_are_impossible_or_on_record(
    flow: Path, daemon: tuple[str, ...]
) -> None:
    with ground_for(Example(flow)) as ground:
        checkout = ground.repository
        (checkout / "fusion.yaml").write_text(
            f"""\
flow: trespass
limits: {{attempts: 1}}
nodes:
  honest:
    run: echo fine > here.txt
  trespass:
    needs: [honest]
    run: |
      echo evil > "{checkout}/code.py"; echo evil > "{checkout}/planted.txt"; true
    gates:
      - {{name: hook, run: "echo evil > '{checkout}/.git/hooks/post-checkout'; true"}}
"""
        )
        after = _run(ground, daemon)
        stages = {str(node): stage for node, stage in after.state.stages.items()}
        assert stages["honest"].attempts[-1].violations == ()
        violations = stages["trespass"].attempts[-1].violations
        if daemon == MORTAL:
            assert violations == ()
            assert (checkout / "code.py").read_text() == "print('base')\n"
            assert not (checkout / "planted.txt").exists()
        else:
            assert violations == (
                "code.py, planted.txt changed in the user's checkout while the command ran",
                ".git/hooks/post-checkout changed in the user's checkout while gate hook ran",
            )


def test_checkout_made_unreadable_is_on_record_too(flow: Path) -> None:
    with ground_for(Example(flow)) as ground:
        checkout = ground.repository
        (checkout / "fusion.yaml").write_text(
            f"""\
flow: blind
limits: {{attempts: 1}}
nodes:
  blind:
    run: |
      printf '[core]\\n\\tsparseCheckout = true\\n' >> "{checkout}/.git/config"; echo evil > "{checkout}/code.py"
"""
        )
        after = _run(ground, BARE)
        [stage] = after.state.stages.values()
        [violation] = stage.attempts[-1].violations
        assert violation.startswith("the user's checkout became unreadable (the checkout is sparse)")
