"""Flow files with marks: `▶` in a text stands where a problem is expected, and is taken out."""

from dataclasses import dataclass

from fusiond.codec.flowfile.read import FlowReading, read_flow
from fusiond.domain.flow import Flow

MARK = "▶"

# Name of the rule, the file with a mark at each problem, code and a part of each line, in order.
Case = tuple[str, str, list[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Marked:
    """A text without its marks, and the line and column of each."""

    text: str
    places: tuple[tuple[int, int], ...]


def marked(text: str) -> Marked:
    """Take the marks out of `text`."""
    places: list[tuple[int, int]] = []
    line, column = 1, 1
    for character in text:
        if character == MARK:
            places.append((line, column))
        elif character == "\n":
            line, column = line + 1, 1
        else:
            column += 1
    return Marked(text.replace(MARK, ""), tuple(places))


def read(text: str) -> FlowReading:
    """Read a flow where Fusion knows the profiles codex and opencode."""
    return read_flow(text.encode(), profiles=("codex", "opencode"))


def good(text: str) -> Flow:
    """Read a flow that has no problem."""
    reading = read(text)
    assert reading.problems == ()
    assert reading.flow is not None
    return reading.flow
