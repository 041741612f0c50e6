"""The verdict of every mode, acceptability and kind of difference, against a table written by hand."""

from itertools import combinations_with_replacement, product

import pytest

from fusiond.domain.acceptability import (
    DifferenceKind,
    ReplayVerdict,
    blocks,
    judge,
    tightened_acceptability,
    tightened_mode,
)
from fusiond.domain.errors import RefusedError
from fusiond.domain.replay_policy import Acceptability, ReplayMode

# Columns: exact_match, invariant_preserving, statistically_bounded; U blocks, W is a warning.
BOUNDED = """
plan                 U U U
inputs               U U U
limits               U U U
determinism          U U U
acceptability        U U U
tenant               U U U
flow_state           U U U
envelope             U U U
environment          U U U
dataset              U U U
dataset_deprecated   U U U
policy               U U U
verification_policy  U U U
base_revision        U U U
gate_packet          U U U
stage_end_missing    U U U
stage_failed         U U U
human_intervention   U U U
arbitration          U U U
claim_overlap        U U U
contradictions       U U U
gate_verdict         U U U
protected_verdict    U U U
tool_decision        U U U
lasting_effect       U U U
event_payload        U W W
event_order          U U W
event_set            U U W
artifact_content     U W W
artifact_set         U U W
evidence_content     U W W
evidence_set         U U W
code_revision        U W W
"""
COLUMNS = ("exact_match", "invariant_preserving", "statistically_bounded")
LETTERS = {"U": ReplayVerdict.UNACCEPTABLE, "W": ReplayVerdict.ACCEPTABLE_WITH_WARNINGS}


def _table() -> dict[tuple[str, str, str], ReplayVerdict]:
    """Return the verdict of one difference by mode, acceptability and kind."""
    table: dict[tuple[str, str, str], ReplayVerdict] = {}
    for line in BOUNDED.split("\n"):
        if line:
            kind, *letters = line.split()
            for column, letter in zip(COLUMNS, letters, strict=True):
                table["strict", column, kind] = ReplayVerdict.UNACCEPTABLE
                table["bounded", column, kind] = LETTERS[letter]
                table["observational", column, kind] = LETTERS[letter]
    return table


TABLE = _table()
TERMS = list(product(ReplayMode, Acceptability))


def test_table_has_every_kind_once() -> None:
    assert {kind for _, _, kind in TABLE} == {kind.value for kind in DifferenceKind}
    assert len(TABLE) == 3 * 3 * len(DifferenceKind)


@pytest.mark.parametrize("kind", DifferenceKind)
def test_one_difference(kind: DifferenceKind) -> None:
    for mode, acceptability in TERMS:
        wanted = TABLE[mode.value, acceptability.value, kind.value]
        assert judge(mode, acceptability, [kind], certifiable=True) is wanted
        assert blocks(kind, mode, acceptability) is (wanted is ReplayVerdict.UNACCEPTABLE)


def test_two_differences_are_as_bad_as_the_worse() -> None:
    for mode, acceptability in TERMS:
        for pair in combinations_with_replacement(DifferenceKind, 2):
            each = {TABLE[mode.value, acceptability.value, kind.value] for kind in pair}
            wanted = ReplayVerdict.ACCEPTABLE_WITH_WARNINGS
            if ReplayVerdict.UNACCEPTABLE in each:
                wanted = ReplayVerdict.UNACCEPTABLE
            assert judge(mode, acceptability, pair, certifiable=True) is wanted


@pytest.mark.parametrize("mode, acceptability", TERMS)
def test_no_difference_is_acceptable(mode: ReplayMode, acceptability: Acceptability) -> None:
    assert judge(mode, acceptability, [], certifiable=True) is ReplayVerdict.ACCEPTABLE


@pytest.mark.parametrize("mode, acceptability", TERMS)
def test_nothing_promotes_what_is_not_certifiable(mode: ReplayMode, acceptability: Acceptability) -> None:
    for found in ([], *([kind] for kind in DifferenceKind), list(DifferenceKind)):
        assert judge(mode, acceptability, found, certifiable=False) is ReplayVerdict.NON_CERTIFIABLE


# Rows: declared; columns: asked. T is taken, R is refused.
MODES = {
    "strict": {"strict": "T", "bounded": "R", "observational": "R"},
    "bounded": {"strict": "T", "bounded": "T", "observational": "R"},
    "observational": {"strict": "T", "bounded": "T", "observational": "T"},
}
ACCEPTABILITIES = {
    "exact_match": {"exact_match": "T", "invariant_preserving": "R", "statistically_bounded": "R"},
    "invariant_preserving": {"exact_match": "T", "invariant_preserving": "T", "statistically_bounded": "R"},
    "statistically_bounded": {"exact_match": "T", "invariant_preserving": "T", "statistically_bounded": "T"},
}


@pytest.mark.parametrize("declared, asked", list(product(ReplayMode, ReplayMode)))
def test_mode_is_tightened_never_loosened(declared: ReplayMode, asked: ReplayMode) -> None:
    if MODES[declared.value][asked.value] == "T":
        assert tightened_mode(declared, asked) is asked
    else:
        with pytest.raises(RefusedError, match=f"mode {asked} is looser"):
            tightened_mode(declared, asked)
    assert tightened_mode(declared, None) is declared


@pytest.mark.parametrize("declared, asked", list(product(Acceptability, Acceptability)))
def test_acceptability_is_tightened_never_loosened(declared: Acceptability, asked: Acceptability) -> None:
    if ACCEPTABILITIES[declared.value][asked.value] == "T":
        assert tightened_acceptability(declared, asked) is asked
    else:
        with pytest.raises(RefusedError, match=f"acceptability {asked} is looser"):
            tightened_acceptability(declared, asked)
    assert tightened_acceptability(declared, None) is declared
