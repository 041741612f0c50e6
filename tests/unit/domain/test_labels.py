"""Labels join by union: whatever is made from several parts carries all that they carry."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fusiond.domain.labels import NONE, Label, join

few = settings(max_examples=30)

labels = st.frozensets(st.sampled_from(Label))
parts = st.lists(labels, max_size=5)


def test_nothing_carries_nothing() -> None:
    assert join([]) == NONE == frozenset()


@few
@given(parts)
def test_what_is_made_carries_exactly_what_its_parts_carry(made_of: list[frozenset[Label]]) -> None:
    joined = join(made_of)
    assert all(part <= joined for part in made_of)
    assert all(any(label in part for part in made_of) for label in joined)


@few
@given(parts, parts)
def test_the_order_of_joining_is_all_one(first: list[frozenset[Label]], then: list[frozenset[Label]]) -> None:
    assert join([join(first), join(then)]) == join([*then, *first])
