"""Durations and money as people type them."""

import re
from decimal import Decimal, InvalidOperation

from fusiond.domain.errors import InvalidError

_DURATION = re.compile(r"(\d{1,9})(ms|s|m|h)\Z")
_UNITS_US = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}


def duration_us(text: str) -> int:
    """Read `90s`, `5m` or `2h` into microseconds. InvalidError on anything else."""
    match = _DURATION.match(text)
    if match is None:
        raise InvalidError(f"{text!r} is no duration", expected="a number and ms, s, m or h, such as 30m")
    return int(match[1]) * _UNITS_US[match[2]]


def micro_usd(text: str) -> int:
    """Read decimal US dollars into micro-dollars, exactly. InvalidError on anything else."""
    try:
        amount = Decimal(text) * 1_000_000
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount < 0 or amount != amount.to_integral_value():
        raise InvalidError(f"{text!r} is no amount", expected="dollars such as 2.50, to a millionth")
    return int(amount)
