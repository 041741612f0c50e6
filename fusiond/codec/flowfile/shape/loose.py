"""Shapes of values whose inside a flow file does not judge: any JSON, an argument vector.

JSON is kept as text, numbers digit for digit, so that nothing is rounded and the
text can be read again as YAML 1.2. Keys are sorted: their order means nothing, and a
plan must not depend on it.
"""

import re
import shlex
from decimal import Decimal, InvalidOperation

from fusiond.codec.canonical import JsonValue
from fusiond.codec.flowfile.problems import FlowProblemCode
from fusiond.codec.flowfile.reading.report import Report, Spot
from fusiond.codec.flowfile.reading.tree import Mapping, Scalar, ScalarType, Sequence
from fusiond.codec.flowfile.shape.containers import ListOf
from fusiond.codec.flowfile.shape.scalar_text import double_quoted
from fusiond.codec.flowfile.shape.shape import JsonSchema
from fusiond.codec.flowfile.shape.texts import ARGUMENT
from fusiond.domain.records import dataclass

_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,17})\Z")
_SHELL_SYNTAX = re.compile(r"[|&;<>()$`*?~{}!#\n\[\]]")


@dataclass(frozen=True, slots=True)
class AnyValue:
    """Any value, left for the map around it to judge."""

    expected: str = "a value"

    def read(self, spot: Spot, report: Report) -> Spot | None:
        """Return the spot itself."""
        return spot if report.spot(spot.path) else None

    def schema(self) -> JsonSchema:
        """Return the JSON Schema that everything satisfies."""
        return {}


@dataclass(frozen=True, slots=True)
class JsonText:
    """Any JSON value as text, or any map.

    Args:
        expected: in words.
        map_only: only a map may stand there.
        indented: one entry a line, so that a line number says something.
    """

    expected: str
    map_only: bool = False
    indented: bool = False

    def read(self, spot: Spot, report: Report) -> str | None:
        """Return the value as JSON, or None after reporting what has no JSON form."""
        if self.map_only and not isinstance(spot.node, Mapping):
            report.wrong(spot, self.expected, code=FlowProblemCode.TYPE)
            return None
        return self._written(spot, report, "\n" if self.indented else None)

    def _written(self, spot: Spot, report: Report, line: str | None) -> str | None:
        inner = None if line is None else f"{line}  "
        match spot.node:
            case Mapping(entries=entries):
                by_key = sorted(entries, key=lambda entry: entry[0].text)
                pairs = [(spot.entry(key, node), key.text) for key, node in by_key]
                values = [
                    (double_quoted(key, json=True), self._written(each, report, inner)) for each, key in pairs
                ]
                parts = [f"{key}: {value}" for key, value in values if value is not None]
                return _enclosed("{}", parts, line) if len(parts) == len(values) else None
            case Sequence(items=items):
                texts = [self._written(spot.item(at, node), report, inner) for at, node in enumerate(items)]
                parts = [text for text in texts if text is not None]
                return _enclosed("[]", parts, line) if len(parts) == len(texts) else None
            case Scalar():
                return self._scalar(spot, spot.node, report)

    def _scalar(self, spot: Spot, node: Scalar, report: Report) -> str | None:
        match node.type:
            case ScalarType.NOTHING:
                return "null"
            case ScalarType.FLAG:
                return node.text.lower()
            case ScalarType.TEXT:
                return double_quoted(node.text, json=True)
            case ScalarType.INTEGER | ScalarType.DECIMAL:
                number = _json_number(node)
                if number is None:
                    report.wrong(spot, "a finite decimal number of at most 18 digits")
                return number

    def schema(self) -> JsonSchema:
        """Return the JSON Schema: a map, or anything."""
        return {"type": "object"} if self.map_only else {}


def _enclosed(brackets: str, parts: list[str], line: str | None) -> str:
    if line is None or not parts:
        return f"{brackets[0]}{', '.join(parts)}{brackets[1]}"
    return f"{brackets[0]}{line}  {f',{line}  '.join(parts)}{line}{brackets[1]}"


def _json_number(node: Scalar) -> str | None:
    if node.type is ScalarType.INTEGER:
        return node.text if _WHOLE.match(node.text) else None
    try:
        value = Decimal(node.text)
    except InvalidOperation:
        return None
    short = value.is_finite() and len(value.as_tuple().digits) <= 18 and abs(value.adjusted()) <= 300
    return str(value) if short else None


@dataclass(frozen=True, slots=True)
class ArgumentVector:
    """A command as a list of arguments, or as one text of plain words.

    A shell string can hide an exit code (`… || true`, a pipeline), so one that needs
    a shell is refused (`governance.md`, Protected gates).
    """

    expected: str = "a list of arguments, such as [pytest, -q]"

    def read(self, spot: Spot, report: Report) -> tuple[str, ...] | None:
        """Return the arguments, or None after reporting why there are none."""
        if not isinstance(spot.node, Scalar) or spot.node.type is not ScalarType.TEXT:
            return ListOf(ARGUMENT, "arguments", least=1).read(spot, report)
        words = _plain_words(spot.node.text)
        if words:
            return words
        cure = "shell syntax can hide an exit code; write the arguments as a list"
        report.wrong(spot, self.expected, cure=cure)
        return None

    def schema(self) -> JsonSchema:
        """Return the JSON Schema of both forms."""
        listed: JsonValue = ListOf(ARGUMENT, "arguments", least=1).schema()
        return {"anyOf": [listed, {"type": "string", "pattern": r"^[^|&;<>()$`*?~{}!#\[\]\n]+$"}]}


def _plain_words(text: str) -> tuple[str, ...]:
    """Return the words of a command that needs no shell, or nothing."""
    if _SHELL_SYNTAX.search(text):
        return ()
    try:
        words = shlex.split(text)
    except ValueError:
        return ()
    assigns = bool(words) and "=" in words[0]
    return () if assigns or not all(words) else tuple(words)
