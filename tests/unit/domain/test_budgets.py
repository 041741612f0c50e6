"""Budgets: what is set aside counts as spent until it is settled, so that a crash hides nothing."""

from dataclasses import astuple, dataclass, fields
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusiond.domain.budgets import Spending, exceeded, plus, reconcile, reserve
from fusiond.domain.errors import IllegalStepError
from fusiond.domain.steps.run import ParkReason
from fusiond.domain.steps.turn import Amounts
from tests.fakes.payloads import limits

few = settings(max_examples=50)

NAMES = [each.name for each in fields(Amounts)]

counts = st.integers(0, 1 << 40)
amounts = st.builds(Amounts, tokens=counts, cost_uusd=counts, tool_calls=counts, turns=counts)


@dataclass(frozen=True, slots=True)
class Call:
    """One model or tool call: what was set aside, and what it cost unless a crash kept that back."""

    reserved: Amounts
    actual: Amounts | None


calls = st.lists(st.builds(Call, amounts, st.one_of(st.none(), amounts)), max_size=8)


def total_of(parts: list[Amounts]) -> Amounts:
    """Return the sum, by another way than the code's."""
    return Amounts(**{name: sum(getattr(part, name) for part in parts) for name in NAMES})


def none_shrank(before: Amounts, after: Amounts) -> bool:
    return all(low <= high for low, high in zip(astuple(before), astuple(after), strict=True))


def test_nothing_is_spent_at_first() -> None:
    assert Spending().total == Amounts(tokens=0, cost_uusd=0, tool_calls=0, turns=0)


@few
@given(amounts, amounts)
def test_plus_adds_field_by_field(left: Amounts, right: Amounts) -> None:
    assert plus(left, right) == total_of([left, right])


@few
@given(calls)
def test_an_unsettled_reservation_counts_as_spent(made: list[Call]) -> None:
    spending = Spending()
    for number, call in enumerate(made, 1):
        before = spending.total
        spending = reserve(spending, number, call.reserved)
        assert spending.total == plus(before, call.reserved)
        if call.actual is not None:
            spending = reconcile(spending, number, call.actual)
            assert spending.total == plus(before, call.actual)
    assert spending.total == total_of([call.actual or call.reserved for call in made])
    assert [number for number, _ in spending.open] == [
        number for number, call in enumerate(made, 1) if call.actual is None
    ]


@few
@given(calls, st.randoms(use_true_random=False))
def test_settling_in_any_order_gives_the_same_bill(made: list[Call], chance: Random) -> None:
    spending = Spending()
    for number, call in enumerate(made, 1):
        spending = reserve(spending, number, call.reserved)
    settled = [(number, call.actual) for number, call in enumerate(made, 1) if call.actual is not None]
    chance.shuffle(settled)
    for number, actual in settled:
        spending = reconcile(spending, number, actual)
    assert spending.total == total_of([call.actual or call.reserved for call in made])


@few
@given(calls)
def test_a_crash_before_settling_never_makes_the_bill_smaller(made: list[Call]) -> None:
    """Whatever was not settled costs at least what it really did, as long as enough was set aside."""
    survived, crashed = Spending(), Spending()
    for number, call in enumerate(made, 1):
        actual = call.actual or Amounts()
        enough = plus(call.reserved, actual)
        survived = reconcile(reserve(survived, number, enough), number, actual)
        crashed = reserve(crashed, number, enough)
    assert none_shrank(survived.total, crashed.total)


def test_a_reservation_number_is_open_once() -> None:
    spending = reserve(Spending(), 1, Amounts(tokens=5))
    with pytest.raises(IllegalStepError, match="reservation 1 is open already"):
        reserve(spending, 1, Amounts(tokens=6))
    assert spending.total == Amounts(tokens=5)


@pytest.mark.parametrize("number", [0, 1, 3])
def test_only_an_open_reservation_is_settled(number: int) -> None:
    spending = reserve(reserve(Spending(), 1, Amounts(tokens=5)), 2, Amounts(tokens=7))
    spending = reconcile(spending, 1, Amounts(tokens=4))
    with pytest.raises(IllegalStepError, match=f"reservation {number} is not open"):
        reconcile(spending, number, Amounts())
    assert spending.total == Amounts(tokens=11)


@pytest.mark.parametrize(
    "spent,reached",
    [
        (Amounts(), None),
        (Amounts(tokens=99, cost_uusd=9, tool_calls=1, turns=1_000_000), None),
        (Amounts(tokens=100), ParkReason.TOKENS),
        (Amounts(tokens=101), ParkReason.TOKENS),
        (Amounts(cost_uusd=10), ParkReason.COST),
        (Amounts(tool_calls=2), ParkReason.TOOL_CALLS),
        (Amounts(cost_uusd=10, tool_calls=2), ParkReason.COST),
        (Amounts(tokens=100, cost_uusd=10, tool_calls=2), ParkReason.TOKENS),
    ],
)
def test_which_ceiling_is_reached_first(spent: Amounts, reached: ParkReason | None) -> None:
    within = limits(tokens=100, cost_uusd=10, tool_calls=2)
    assert exceeded(within, Spending(settled=spent)) is reached
    assert exceeded(within, reserve(Spending(), 1, spent)) is reached


@few
@given(amounts)
def test_without_a_ceiling_nothing_is_exceeded(spent: Amounts) -> None:
    assert exceeded(limits(), Spending(settled=spent)) is None


def test_a_ceiling_of_nothing_is_reached_at_once() -> None:
    assert exceeded(limits(cost_uusd=0), Spending()) is ParkReason.COST
