"""A repository of 1,000 files and 1,000 commits, 8 attempts in parallel, twice at once.

The user's checkout and whole `.git` stay as they are, and no attempt can see a
commit that is not an ancestor of its base.
"""

import subprocess
import threading
from pathlib import Path

import pytest

from tests.crash.aftermath import complaints, fingerprint, read_ledger
from tests.crash.ground import Ground
from tests.crash.points import Plan
from tests.crash.trial import Example, ground_for

FILES = 1_000
COMMITS = 1_000
ATTEMPTS = 8

# Each attempt lists every commit it can find in any way git offers, changes code and
# checks it with a gate.
NODE = """\
  worker-{number}:
    code: write
    run: |
      git cat-file --batch-all-objects --batch-check='%(objecttype) %(objectname)' \\
        | grep '^commit' | cut -d' ' -f2 | sort > "$FUSION_OUTPUTS/commits.txt"
      git log --all --format=%H | sort > "$FUSION_OUTPUTS/reachable.txt"
      echo "made by {number}" > part-{number}.txt
    outputs:
      commits: {{path: commits.txt}}
      reachable: {{path: reachable.txt}}
    gates: ["test -s part-{number}.txt", "test $(git ls-files | wc -l) -ge 1000"]
"""


def _flow() -> str:
    nodes = "".join(NODE.format(number=number) for number in range(ATTEMPTS))
    return f"flow: at-size\nlimits: {{parallel: {ATTEMPTS}, attempts: 1}}\nnodes:\n{nodes}"


def _history(repository: Path) -> str:
    """Return a fast-import stream of COMMITS commits over FILES files, and one commit beyond."""
    lines: list[str] = []
    for number in range(1, COMMITS + 1):
        changed = range(FILES) if number == 1 else (number % FILES,)
        lines.append(f"commit refs/heads/main\ncommitter A <a@example.invalid> {number} +0000\ndata 1\nc")
        for each in changed:
            body = f"file {each} at commit {number}\n"
            lines.append(f"M 100644 inline src/d{each % 50}/f{each}.txt\ndata {len(body)}\n{body}")
    lines.append(f"commit refs/heads/later\ncommitter A <a@example.invalid> {COMMITS + 1} +0000")
    lines.append("data 6\nfuture\nfrom refs/heads/main\nM 100644 inline answer.txt\ndata 7\nsecret\n")
    assert repository.is_dir()
    return "\n".join(lines) + "\n"


def _make_history(ground: Ground) -> tuple[str, set[str]]:
    """Put the history below the example's commit; return the later commit and the base's ancestors."""

    def git(*arguments: str, stdin: str | None = None) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=ground.repository,
            input=stdin,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    flow = (ground.repository / "fusion.yaml").read_text()
    git("checkout", "-q", "--orphan", "empty")
    git("branch", "-q", "-D", "main")
    git("fast-import", "--quiet", stdin=_history(ground.repository))
    git("reset", "-q", "--hard")
    git("checkout", "-q", "-f", "main")
    (ground.repository / "fusion.yaml").write_text(flow)
    return git("rev-parse", "later").strip(), set(git("rev-list", "main").split())


@pytest.mark.long
def test_eight_attempts_twice_at_once_leave_the_repository_alone_and_see_no_future(tmp_path: Path) -> None:
    (tmp_path / "fusion.yaml").write_text(_flow())
    with ground_for(Example(tmp_path)) as ground:
        later, ancestors = _make_history(ground)
        before = fingerprint(ground.repository)
        plan = Plan(ground.place / "log")
        ground.start(plan)
        runs = _twice_at_once(ground, plan)
        assert fingerprint(ground.repository) == before
        for run in runs:
            _check_run(ground, plan, run, later, ancestors)
        with ground.connect(plan) as connection:
            merged = connection.call("run.merge", {"run": runs[0]}, key="merge")
        assert merged["fast_forward"] is True
        assert (ground.repository / "part-0.txt").read_text() == "made by 0\n"
        ground.stop(plan)
        after = [read_ledger(ground, run) for run in runs]
        assert not [each for each in complaints(ground, after[0], after[0].ending) if "runs for" not in each]


def _twice_at_once(ground: Ground, plan: Plan) -> list[str]:
    runs: list[str] = []

    def client(number: int) -> None:
        run = ground.submit(plan, "fusion.yaml", key=f"client-{number}")
        assert run is not None
        assert ground.follow(plan, run)
        runs.append(run)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(runs)) == 2, "both clients got a run of their own to its end"
    return runs


def _check_run(ground: Ground, plan: Plan, run: str, later: str, ancestors: set[str]) -> None:
    with ground.connect(plan) as connection:
        shown = connection.call("run.show", {"run": run})
        assert shown["detail"]["summary"]["status"] == "succeeded"  # type: ignore[index, call-overload]
        for number in range(ATTEMPTS):
            for path in ("commits.txt", "reachable.txt"):
                asked = {"run": run, "node": f"worker-{number}", "path": path}
                data = connection.call("artifact.page", asked)["data"]
                assert isinstance(data, bytes)
                seen = set(data.decode().split())
                assert later not in seen
                assert seen == ancestors
