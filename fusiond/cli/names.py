"""How runs, nodes and attempts are named on a command line: `RUN[/NODE[/N]]`."""

from fusiond.domain.errors import InvalidError
from fusiond.domain.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A run and, where given, one of its nodes and attempts."""

    run: str
    node: str | None = None
    attempt: int | None = None


def place(text: str) -> Place:
    """Read `RUN`, `RUN/NODE` or `RUN/NODE/N`. InvalidError says what is wrong with it."""
    run, _, rest = text.partition("/")
    node, _, number = rest.partition("/")
    if not run:
        raise InvalidError(f"{text!r} names no run", expected="RUN, RUN/NODE or RUN/NODE/N")
    if number and not (number.isascii() and number.isdigit() and int(number) > 0):
        raise InvalidError(f"attempt {number!r}", expected="a number from 1 on")
    return Place(run=run, node=node or None, attempt=int(number) if number else None)


def of_node(text: str) -> Place:
    """Read a place that must name a node."""
    found = place(text)
    if found.node is None:
        raise InvalidError(f"{text!r} names no node", expected="RUN/NODE or RUN/NODE/N")
    return found
