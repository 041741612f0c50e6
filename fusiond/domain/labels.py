"""Taint labels on content; they join by union and never go away on the way."""

from collections.abc import Iterable
from enum import StrEnum


class Label(StrEnum):
    """What is known about where content came from (`governance.md`, Tool gate)."""

    UNTRUSTED = "untrusted"
    PERSONAL = "personal"
    SECRET = "secret"


Labels = frozenset[Label]

NONE: Labels = frozenset()


def join(parts: Iterable[Labels]) -> Labels:
    """Return the union: what is made from several parts carries all their labels."""
    return NONE.union(*parts)
