"""A disk that fills while freezing: `blocked: storage`, nothing half-published, the ledger goes on."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.crash.aftermath import complaints, read_ledger
from tests.crash.ground import Ground
from tests.crash.points import Plan
from tests.crash.trial import Example, ground_for, run_to_end

FLOW = """\
flow: {name}
limits: {{attempts: 1, repair_reruns: 0}}
nodes:
  make:
    run: head -c {size} /dev/zero > "$FUSION_OUTPUTS/made.bin"
    outputs: {{made: {{path: made.bin, max_size: 1GiB}}}}
"""


@contextmanager
def small_disk(ground: Ground, megabytes: int) -> Iterator[None]:
    """Put `.fusion` on a file system of its own, that small."""
    assert os.geteuid() == 0, "this suite mounts a small tmpfs: run it as root, as CI does"
    place = ground.repository / ".fusion"
    options = f"size={megabytes}m,mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=True)
    try:
        (place / ".gitignore").write_text("*\n")
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@pytest.mark.long
def test_a_full_disk_blocks_the_stage_and_leaves_nothing_half_published(tmp_path: Path) -> None:
    (tmp_path / "fusion.yaml").write_text(FLOW.format(name="large", size=200_000_000))
    (tmp_path / "small.yaml").write_text(FLOW.format(name="small", size=1_000))
    with ground_for(Example(tmp_path)) as ground, small_disk(ground, 64):
        plan = Plan(ground.place / "log")
        run = run_to_end(ground, "fusion.yaml", plan)
        after = read_ledger(ground, run)
        stage = next(iter(after.state.stages.values()))
        assert (str(after.state.outcome), str(stage.block)) == ("blocked", "storage")
        stages = ground.repository / ".fusion" / "stages"
        assert not [path for path in stages.rglob("*") if path.is_file()]
        assert not complaints(ground, after, after.ending)

        again = run_to_end(ground, "small.yaml", plan, key="after-the-full-disk")
        assert str(read_ledger(ground, again).state.outcome) == "succeeded"
