"""A report as people, programs and review comments read it."""

import json

from fusiond.domain.evolve import replace
from fusiond.domain.ids import NodeId
from fusiond.domain.replay_policy import Acceptability, ReplayContract, ReplayMode
from replay.check import compare_traces
from replay.render import document, lines, markdown
from replay.report import Report
from tests.fakes.chains import RUN
from tests.fakes.finished_runs import simple

HOSTILE = "\x1b[31m`|<b>\u202e\n"
TOLERANT = ReplayContract(mode=ReplayMode.BOUNDED, acceptability=Acceptability.INVARIANT_PRESERVING)


def hostile() -> Report:
    report = compare_traces(simple(), simple(text="other"))
    [difference] = report.differences
    other = replace(difference, name=HOSTILE, expected=HOSTILE, observed=HOSTILE, node=NodeId("test"))
    downstream = replace(difference, name=HOSTILE, cause=NodeId("test"))
    return replace(report, differences=(other, downstream))


def test_equal_runs_take_three_lines() -> None:
    report = compare_traces(simple(), simple())
    assert list(lines(report)) == [
        "✓ acceptable  (strict, exact_match)",
        f"  expected {RUN}",
        f"  observed {RUN}",
    ]


def test_what_blocks_and_what_only_warns_look_different() -> None:
    blocked = "\n".join(lines(compare_traces(simple(), simple(text="other"))))
    assert "  ✗ artifact content: made (made.txt) (diverged)" in blocked
    warned = "\n".join(lines(compare_traces(simple(replay=TOLERANT), simple(replay=TOLERANT, text="other"))))
    assert "  ! artifact content: made (made.txt) (declared)" in warned


def test_foreign_text_reaches_no_terminal_and_no_markup() -> None:
    text = "\n".join(lines(hostile()))
    assert "\x1b" not in text
    assert "\u202e" not in text
    for row in list(markdown(hostile()))[6:]:
        assert "\x1b" not in row
        assert "<b>" not in row.replace("\\|", "").split("`")[0::2]
        assert len(row.replace("\\|", "").split("|")) == 7


def test_document_is_plain_and_says_what_blocks() -> None:
    made = document(compare_traces(simple(replay=TOLERANT), simple(replay=TOLERANT, text="other", reruns=1)))
    read = json.loads(json.dumps(made))
    assert read["schema"] == 1
    assert read["verdict"] == "unacceptable"
    blocking = {each["kind"]: each["blocking"] for each in read["differences"]}
    assert blocking == {
        "artifact_content": False,
        "code_revision": False,
        "event_set": True,
        "gate_verdict": True,
    }
