"""Names below the stages directory, and which of them are frozen versions."""

from pathlib import Path

from fusiond.snapshots.layout import Layout
from tests.fakes.freezing import NODE, OTHER_RUN, RUN, attempt


def test_the_layout_is_the_specified_one(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert layout.attempt(attempt(2)) == tmp_path / f"{RUN}.{NODE}" / "attempt-2"
    assert layout.staged(attempt(2), "word") == tmp_path / ".staging" / f"{RUN}.{NODE}.2-word"


def test_only_well_formed_names_are_versions(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    stage = tmp_path / f"{RUN}.{NODE}"
    for name in ("attempt-1", "attempt-12", "attempt-0", "attempt-x", "attempt-1.old", "other"):
        (stage / name).mkdir(parents=True)
    (stage / "attempt-3").write_text("a file")
    (stage / "attempt-4").symlink_to(stage / "attempt-1")
    for name in ("notes", "short.build", f"{RUN}.Build", f"{RUN}.{NODE}.old", ".staging"):
        (tmp_path / name / "attempt-1").mkdir(parents=True)
    assert [each for each, _ in layout.published({RUN})] == [attempt(1), attempt(12)]
    assert [*layout.published({OTHER_RUN})] == []


def test_there_may_be_no_stages_yet(tmp_path: Path) -> None:
    assert [*Layout(tmp_path / "none").published({RUN})] == []
