"""YAML values with positions: what the composer makes and every shape reads.

Scalars are typed by the core schema of YAML 1.2 (chapter 10.3) and nothing
else: `yes` is text, `2026-11` is text, `0o17` is a number.
"""

import re
from enum import StrEnum

from fusiond.codec.flowfile.problems import shortened
from fusiond.domain.records import dataclass


class ScalarType(StrEnum):
    """Type of a scalar; the value is how a problem names it."""

    NOTHING = "nothing"
    FLAG = "the truth value"
    INTEGER = "the number"
    DECIMAL = "the decimal number"
    TEXT = "the text"


_NOTHING = re.compile(r"(?:null|Null|NULL|~|)\Z")
_FLAG = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")
_INTEGER = re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z")
_DECIMAL = re.compile(
    r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?(?:\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN)\Z"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A scalar: `at` and `end` are character indices into the source."""

    at: int
    end: int
    type: ScalarType
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence:
    """A list."""

    at: int
    items: tuple["YamlNode", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """A map with text keys, each once, in the order of the file."""

    at: int
    entries: tuple[tuple[Scalar, "YamlNode"], ...] = ()


YamlNode = Scalar | Sequence | Mapping


def type_of(text: str, *, plain: bool) -> ScalarType:
    """Return the core schema's type of a scalar.

    Args:
        text: the scalar's value.
        plain: written without quotes and not as a block.
    """
    if not plain:
        return ScalarType.TEXT
    if _NOTHING.match(text):
        return ScalarType.NOTHING
    if _FLAG.match(text):
        return ScalarType.FLAG
    if _INTEGER.match(text):
        return ScalarType.INTEGER
    return ScalarType.DECIMAL if _DECIMAL.match(text) else ScalarType.TEXT


def described(node: YamlNode) -> str:
    """Say in words what stands there, for a problem's `found`."""
    match node:
        case Mapping():
            return "a map" if node.entries else "an empty map"
        case Sequence():
            return "a list" if node.items else "an empty list"
        case Scalar(type=ScalarType.NOTHING):
            return "nothing"
        case Scalar(type=ScalarType.TEXT):
            return quoted(node.text)
        case Scalar():
            return f"{node.type} {shortened(node.text)}"


def quoted(text: str) -> str:
    """Return text in quotes, cut to what a problem repeats."""
    return f'"{shortened(text)}"'
