"""Budgets: amounts reserved before a call and reconciled after it.

A reservation without a reconciliation counts as spent, so a crash can only
make a bill look larger, never smaller (`governance.md`, Budgets).
"""

from dataclasses import replace

from fusiond.domain.errors import IllegalStepError
from fusiond.domain.flow import Limits
from fusiond.domain.records import dataclass
from fusiond.domain.steps.run import ParkReason
from fusiond.domain.steps.turn import Amounts


def plus(left: Amounts, right: Amounts) -> Amounts:
    """Return the sum, field by field."""
    return Amounts(
        tokens=left.tokens + right.tokens,
        cost_uusd=left.cost_uusd + right.cost_uusd,
        tool_calls=left.tool_calls + right.tool_calls,
        turns=left.turns + right.turns,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What a run has spent, and what is set aside and not yet settled.

    Args:
        settled: the sum of reconciled amounts.
        open: reservation number and amounts, oldest first.
    """

    settled: Amounts = Amounts()
    open: tuple[tuple[int, Amounts], ...] = ()

    @property
    def total(self) -> Amounts:
        """Return settled and open amounts together: what counts as spent."""
        total = self.settled
        for _, amounts in self.open:
            total = plus(total, amounts)
        return total


def reserve(spending: Spending, reservation: int, amounts: Amounts) -> Spending:
    """Set amounts aside. IllegalStepError when the reservation number is in use."""
    if any(number == reservation for number, _ in spending.open):
        raise IllegalStepError(f"reservation {reservation} is open already", expected="a new number")
    return replace(spending, open=(*spending.open, (reservation, amounts)))


def reconcile(spending: Spending, reservation: int, actual: Amounts) -> Spending:
    """Settle a reservation at what it really cost. IllegalStepError when it is not open."""
    rest = tuple(pair for pair in spending.open if pair[0] != reservation)
    if len(rest) == len(spending.open):
        raise IllegalStepError(f"reservation {reservation} is not open", expected="an open reservation")
    return Spending(settled=plus(spending.settled, actual), open=rest)


def exceeded(limits: Limits, spending: Spending) -> ParkReason | None:
    """Return the first ceiling that the spending has reached, in the order of the flow file."""
    total = spending.total
    if limits.tokens is not None and total.tokens >= limits.tokens:
        return ParkReason.TOKENS
    if limits.cost_uusd is not None and total.cost_uusd >= limits.cost_uusd:
        return ParkReason.COST
    if limits.tool_calls is not None and total.tool_calls >= limits.tool_calls:
        return ParkReason.TOOL_CALLS
    return None
