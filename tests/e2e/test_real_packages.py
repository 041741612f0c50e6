"""Two real packages with their own test suites, as repositories whose gates are those suites.

The sources come from the package index, pinned by digest; where it cannot be
reached these tests fail, loudly.
"""

import hashlib
import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from fusiond.domain.steps.judgement import RerunRequested, UnitGateFinished
from tests.crash.aftermath import complaints, fingerprint, read_ledger
from tests.crash.points import Plan
from tests.crash.trial import Example, ground_for, run_to_end


@dataclass(frozen=True, slots=True)
class Package:
    """A source distribution, and a line of it that matters.

    Args:
        name, version, sha256: what is downloaded.
        module: file that the node changes.
        right: a piece of the module; `wrong` breaks the suite.
        tests: what the gate runs.
    """

    name: str
    version: str
    sha256: str
    module: str
    right: str
    wrong: str
    tests: str


PACKAGES = (
    Package(
        "attrs",
        "26.1.0",
        "d03ceb89cb322a8fd706d4fb91940737b6642aa36998fe130a9bc96c985eff32",
        "src/attr/filters.py",
        "value.__class__ in cls",
        "value.__class__ not in cls",
        "tests/test_filters.py tests/test_make.py tests/test_dunders.py tests/test_functional.py",
    ),
    Package(
        "click",
        "8.5.1",
        "9bbfada76703fd1d784b83eea012e3e8c6a001a876543ef104fa56aaaeb072b4",
        "src/click/formatting.py",
        "return tuple(y for x, y in sorted(widths.items()))",
        "return tuple(y + 1 for x, y in sorted(widths.items()))",
        "tests",
    ),
)

# Breaks the module first, mends it when the gate's output comes back, and notes it.
NODE = """\
flow: {name}
limits: {{repair_reruns: 1, attempts: 1}}
nodes:
  change:
    code: write
    run: |
      if [ -n "$FUSION_FEEDBACK" ]; then
        grep -q "FAILED tests" "$FUSION_FEEDBACK" || exit 9
        git checkout -q -- {module}
        echo "checked" > CHECKED
      else
        python3 - <<'CODE'
      import pathlib
      path = pathlib.Path({module!r})
      text = path.read_text()
      assert {right!r} in text, "the line that matters is gone"
      path.write_text(text.replace({right!r}, {wrong!r}, 1))
      CODE
      fi
    gates:
      - name: suite
        run: PYTHONPATH=src python3 -m pytest -q -p no:cacheprovider -x -W ignore {tests}
        timeout: 10m
"""


def _fetch(package: Package, target: Path) -> Path:
    """Download and unpack; return the package's directory."""
    wanted = f"{package.name}=={package.version}"
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", wanted]
    subprocess.run([*command, "-d", str(target)], check=True)
    (archive,) = target.glob("*.tar.gz")
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == package.sha256
    with tarfile.open(archive) as tar:
        tar.extractall(target, filter="data")
    return target / f"{package.name}-{package.version}"


@pytest.mark.long
@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_real_suite_judges_a_change_and_its_repair(package: Package, tmp_path: Path) -> None:
    source = _fetch(package, tmp_path)
    (source / "fusion.yaml").write_text(
        NODE.format(
            name=package.name,
            module=package.module,
            right=package.right,
            wrong=package.wrong,
            tests=package.tests,
        )
    )
    search_path = os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"])
    with ground_for(Example(source)) as ground:
        before = fingerprint(ground.repository)
        plan = Plan(ground.place / "log")
        run = run_to_end(ground, "fusion.yaml", plan, search_path=search_path)
        after = read_ledger(ground, run)
        outcomes = [str(s.payload.outcome) for s in after.steps if isinstance(s.payload, UnitGateFinished)]
        assert outcomes == ["failed", "passed"]
        assert sum(isinstance(step.payload, RerunRequested) for step in after.steps) == 1
        assert str(after.state.outcome) == "succeeded"
        assert not complaints(ground, after, after.ending)
        assert fingerprint(ground.repository) == before
