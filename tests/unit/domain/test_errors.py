"""Errors: each code has its exception, and an error reads as one sentence that names the cure."""

import pytest

from fusiond.domain.errors import ErrorCode, FusionError, InvalidError


def test_every_code_but_the_internal_one_has_exactly_one_exception() -> None:
    codes = [each.code for each in FusionError.__subclasses__() if each.__module__ == FusionError.__module__]
    assert sorted([*codes, ErrorCode.INTERNAL]) == sorted(ErrorCode)
    assert FusionError("").code is ErrorCode.INTERNAL


@pytest.mark.parametrize(
    "error,sentence",
    [
        (FusionError("no space"), "no space"),
        (FusionError("a", expected="b"), "a; expected b"),
        (
            FusionError("a", expected="b", cure="do c", state="step 7"),
            "a; expected b; last trustworthy state: step 7; do c",
        ),
    ],
)
def test_sentence(error: FusionError, sentence: str) -> None:
    assert error.sentence() == sentence
    assert str(error) == error.found


def test_the_fields_are_the_errors_own() -> None:
    given = {"path": "a"}
    error = InvalidError("bad", fields=given)
    given["path"] = "b"
    assert error.fields == {"path": "a"}
    assert InvalidError("bad").fields == {}
