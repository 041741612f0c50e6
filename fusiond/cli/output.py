"""What is printed where: data on stdout, talk on stderr; safe text, honest colour.

Every string that came from a flow, a repository, an agent or a process goes
through `display_safe` here. JSON is ASCII with sorted keys.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence

import click

from fusiond.codec.packed import Plain
from fusiond.domain.display import display_safe

_SGR = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "dim": "2", "bold": "1"}

GLYPHS = {
    "succeeded": ("✓", "green"),
    "passed": ("✓", "green"),
    "frozen": ("✓", "green"),
    "failed": ("✗", "red"),
    "code_conflict": ("✗", "red"),
    "blocked": ("■", "yellow"),
    "cancelled": ("⊘", "dim"),
    "skipped": ("⊘", "dim"),
    "parked": ("?", "yellow"),
    "running": ("▶", "blue"),
    "active": ("▶", "blue"),
    "cancelling": ("⊘", "yellow"),
    "waiting": ("·", "dim"),
    "unreadable": ("!", "red"),
}
"""State as glyph and colour; the word always stands beside the glyph."""


def json_option(command: Callable[..., object]) -> Callable[..., object]:
    """Add `--json` to a command."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def print_json(value: object) -> None:
    """Print a document: ASCII, so that no text in it can reach the terminal as control."""
    sys.stdout.write(json.dumps(value, ensure_ascii=True, sort_keys=True, default=_plain) + "\n")
    sys.stdout.flush()


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    raise TypeError(f"{type(value).__name__} in a document")


def print_line(text: str) -> None:
    """Print one line of data."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def safe(value: object) -> str:
    """Return foreign text as one safe line."""
    return display_safe(str(value))


def coloured(text: str, colour: str, *, stream: int = 1) -> str:
    """Colour text where a terminal shows it and NO_COLOR does not forbid it."""
    if not colour or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not os.isatty(stream):
        return text
    return f"\x1b[{_SGR[colour]}m{text}\x1b[0m"


def badge(status: object, *, stream: int = 1) -> str:
    """Return a state as glyph and word."""
    word = safe(status)
    glyph, colour = GLYPHS.get(word, ("·", "dim"))
    return coloured(f"{glyph} {word}", colour, stream=stream)


def table(rows: Sequence[Sequence[str]], heads: Sequence[str]) -> list[str]:
    """Return aligned lines; the last column is as long as it is.

    Widths are of plain text: colour belongs into the last column, or nowhere.
    """
    cells = [list(heads), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads) - 1)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in cells
    ]


def ago(then_us: object, now_us: int) -> str:
    """Return how long ago an instant is, in one unit."""
    seconds = max(0, now_us - as_int(then_us)) // 1_000_000
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit} ago"
    return f"{seconds}s ago"


def took(duration_us: object) -> str:
    """Return a duration in people's units."""
    micros = as_int(duration_us)
    if micros < 1_000_000:
        return f"{micros // 1_000} ms"
    if micros < 120_000_000:
        return f"{micros / 1_000_000:.1f} s"
    return f"{micros // 60_000_000} min {micros // 1_000_000 % 60} s"


def now_us() -> int:
    """Return the wall clock, for ages on screen."""
    return time.time_ns() // 1_000


def as_int(value: object) -> int:
    """Return a number of a reply; a reply that has none there is read as 0."""
    return value if isinstance(value, int) else 0


def as_text(value: object) -> str:
    """Return a text of a reply, empty when there is none."""
    return value if isinstance(value, str) else ""


def as_map(value: object) -> Mapping[str, Plain]:
    """Return a mapping of a reply, empty when there is none."""
    return value if isinstance(value, dict) else {}


def as_maps(value: object) -> list[Mapping[str, Plain]]:
    """Return a list of mappings of a reply, empty when there is none."""
    return [as_map(each) for each in value] if isinstance(value, list) else []


def as_texts(value: object) -> list[str]:
    """Return a list of texts of a reply, empty when there is none."""
    return [as_text(each) for each in value] if isinstance(value, list) else []
