"""Templates of prompts: found exactly, substituted once, never read again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.domain.errors import InvalidError
from fusiond.domain.templates import find_templates, substitute


@pytest.mark.parametrize(
    "text,names",
    [
        ("no braces", []),
        ("{ x } {x}", []),
        ("}} alone", []),
        ("{{x}}", ["x"]),
        ("{{ inputs.a-b_c }}\t{{\trun.id  }}", ["inputs.a-b_c", "run.id"]),
        ("{{ a b }}", [None]),
        ("{{ a | b }}", [None]),
        ("{{ a\n}}", [None]),
        ("{{}}", [None]),
        ("{{ a", [None]),
        ("{{{ a }}}", [None]),
        ("{{ {{ a }}", [None, "a"]),
    ],
)
def test_what_is_a_template(text: str, names: list[str | None]) -> None:
    assert [template.name for template in find_templates(text)] == names


def test_values_are_inserted_as_they_are() -> None:
    values = {"inputs.a": "{{ inputs.b }}", "inputs.b": "never read"}
    assert substitute("<{{ inputs.a }}>", values) == "<{{ inputs.b }}>"


def test_a_text_without_templates_stays() -> None:
    assert substitute("a } { b", {}) == "a } { b"


@pytest.mark.parametrize("text", ["{{ missing }}", "{{ a b }}", "x {{"])
def test_what_has_no_value_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="no value for"):
        substitute(text, {"a": "1"})


PARTS = st.lists(st.text(st.characters(exclude_characters="{}"), max_size=5) | st.just(None), max_size=6)


@given(PARTS, st.text(max_size=8))
def test_every_place_gets_the_value_and_nothing_else_changes(parts: list[str | None], value: str) -> None:
    text = "".join("{{ v }}" if part is None else part for part in parts)
    assert substitute(text, {"v": value}) == "".join(value if part is None else part for part in parts)


@given(st.text(st.sampled_from("{} a.\n"), max_size=30))
def test_templates_are_found_in_order_and_do_not_overlap(text: str) -> None:
    ends = 0
    for template in find_templates(text):
        assert ends <= template.start < template.end <= len(text)
        assert text.startswith("{{", template.start)
        ends = template.end
