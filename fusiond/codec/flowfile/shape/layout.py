"""Laying out YAML: maps and lists as indented lines, each with a comment where there is one.

Knows nothing of flows; `explain` makes the tree.
"""

from collections.abc import Iterable, Mapping

from fusiond.codec.flowfile.problems import KeyPath, path_text
from fusiond.codec.flowfile.shape.scalar_text import block, scalar
from fusiond.codec.flowfile.shape.units import COST, DURATION
from fusiond.domain.records import dataclass


@dataclass(frozen=True, slots=True)
class Inline:
    """A value on the line of its key."""

    text: str


@dataclass(frozen=True, slots=True)
class Lines:
    """A value of several lines: what stands beside the key, and the indented rest."""

    first: str
    rest: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pairs:
    """A map; entries without a value are left out."""

    entries: tuple[tuple[str, "Tree | None"], ...]


@dataclass(frozen=True, slots=True)
class Items:
    """A list of maps or texts, one a line."""

    items: tuple["Tree", ...]


Tree = Inline | Lines | Pairs | Items

_INDENT = "  "


def word(text: str) -> Inline:
    """Return a text that stays on one line."""
    return Inline(scalar(text))


def words(texts: Iterable[str]) -> Inline:
    """Return a list of texts on one line."""
    return Inline(f"[{', '.join(scalar(text) for text in texts)}]")


def flag(*, value: bool) -> Inline:
    """Return true or false."""
    return Inline("true" if value else "false")


def prose(text: str) -> Inline | Lines:
    """Return a text that may take several lines."""
    literal = block(text)
    return word(text) if literal is None else Lines(literal[0], tuple(literal[1:]))


def pairs(entries: Mapping[str, "Tree | None"]) -> Pairs:
    """Return a map of the entries that have a value."""
    return Pairs(tuple(entries.items()))


def named(entries: Mapping[str, "Tree"]) -> Pairs | None:
    """Return a map from names, or nothing where there are none."""
    return Pairs(tuple(entries.items())) if entries else None


def number(value: int | None) -> Inline | None:
    """Return a whole number, or nothing."""
    return None if value is None else Inline(str(value))


def duration(value_us: int | None) -> Inline | None:
    """Return a duration, or nothing."""
    return None if value_us is None else Inline(DURATION.show(value_us))


def cost(value_uusd: int | None) -> Inline | None:
    """Return an amount of money, or nothing."""
    return None if value_uusd is None else Inline(COST.show(value_uusd))


def laid_out(top: Pairs, comments: Mapping[str, str]) -> str:
    """Return the text of a file.

    Args:
        top: the map at the top.
        comments: by key path as `path_text` writes it, without the `#`.
    """
    return "\n".join(_map_lines(top, (), comments)) + "\n"


def _map_lines(tree: Pairs, path: KeyPath, comments: Mapping[str, str]) -> list[str]:
    found: list[str] = []
    for key, value in tree.entries:
        if value is not None:
            found += _entry_lines(f"{scalar(key)}:", value, (*path, key), comments)
    return found


def _entry_lines(head: str, value: Tree, path: KeyPath, comments: Mapping[str, str]) -> list[str]:
    comment = comments.get(path_text(path))
    tail = f"  # {comment}" if comment else ""
    match value:
        case Inline(text=text):
            return [f"{head} {text}{tail}"]
        case Lines(first=first, rest=rest):
            start = f"{head} {first}".rstrip()
            return [f"{start}{tail}", *(_indented(line) for line in rest)]
        case Pairs():
            return [f"{head}{tail}", *(_indented(line) for line in _map_lines(value, path, comments))]
        case Items():
            return [f"{head}{tail}", *(_indented(line) for line in _list_lines(value, path, comments))]


def _list_lines(tree: Items, path: KeyPath, comments: Mapping[str, str]) -> list[str]:
    found: list[str] = []
    for index, value in enumerate(tree.items):
        item = (*path, index)
        comment = comments.get(path_text(item))
        if comment:
            found.append(f"# {comment}")
        match value:
            case Pairs():
                inner = _map_lines(value, item, comments)
                found += [f"- {inner[0]}", *(_indented(line) for line in inner[1:])]
            case _:
                found += _entry_lines("-", value, item, {})
    return found


def _indented(line: str) -> str:
    return f"{_INDENT}{line}" if line else ""
