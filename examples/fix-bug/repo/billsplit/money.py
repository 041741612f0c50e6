"""Amounts of money as text: `12.50` is 1250 cents."""

import re

_AMOUNT = re.compile(r"(\d{1,9})\.(\d{2})\Z")


def to_cents(text: str) -> int:
    """Read an amount with two decimals; ValueError on anything else."""
    match = _AMOUNT.match(text)
    if match is None:
        raise ValueError(f"{text!r} is no amount such as 12.50")
    return int(match[1]) * 100 + int(match[2])


def to_text(cents: int) -> str:
    """Write cents as an amount with two decimals."""
    whole, rest = divmod(cents, 100)
    return f"{whole}.{rest:02}"
