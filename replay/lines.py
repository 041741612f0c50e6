"""Where two bodies begin to differ: a line of text, or a byte. Pure."""

from fusiond.domain.records import dataclass

SHOWN_CHARS = 200
"""How much of a line is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """The first difference of two bodies.

    Args:
        where: such as `line 3` or `byte 17`.
        expected: the line, or the byte in hex; "" past the end.
        observed: as well.
    """

    where: str
    expected: str
    observed: str


def first_difference(expected: bytes, observed: bytes) -> Located | None:
    """Return where two bodies begin to differ, None when they are equal.

    Bodies that are text in UTF-8 are compared by line, others by byte.
    """
    if expected == observed:
        return None
    try:
        one, other = expected.decode(), observed.decode()
    except UnicodeDecodeError:
        return _byte(expected, observed)
    if "\0" in one or "\0" in other:
        return _byte(expected, observed)
    # Split at line feeds alone: what differs in other line ends must stay visible.
    lines, others = one.split("\n"), other.split("\n")
    index = _first(lines, others)
    return Located(
        where=f"line {index + 1}",
        expected=lines[index][:SHOWN_CHARS] if index < len(lines) else "",
        observed=others[index][:SHOWN_CHARS] if index < len(others) else "",
    )


def _byte(expected: bytes, observed: bytes) -> Located:
    index = _first(expected, observed)
    return Located(
        where=f"byte {index}",
        expected=expected[index : index + 1].hex(),
        observed=observed[index : index + 1].hex(),
    )


def _first(one: list[str] | bytes, other: list[str] | bytes) -> int:
    for index, (here, there) in enumerate(zip(one, other, strict=False)):
        if here != there:
            return index
    return min(len(one), len(other))
