"""Shapes of lists, maps by name, and closed maps: where unknown, missing and repeated keys are found."""

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Generic, TypeVar

from fusiond.codec.canonical import JsonValue
from fusiond.codec.flowfile.problems import FlowProblemCode, near_miss
from fusiond.codec.flowfile.reading.report import Report, Spot
from fusiond.codec.flowfile.reading.tree import Mapping, Scalar, Sequence, quoted
from fusiond.codec.flowfile.shape.shape import Entries, Field, JsonSchema, Shape
from fusiond.domain.records import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListOf(Generic[T]):
    """A list of values of one shape.

    Args:
        item: shape of each.
        noun: what the list is of, in words.
        least: fewest items.
        distinct: equal items are a problem.
    """

    item: Shape[T]
    noun: str
    least: int = 0
    distinct: bool = False

    @property
    def expected(self) -> str:
        """Say in words what may stand there."""
        return f"a list of {self.noun}" if self.least == 0 else f"a list of at least {self.least} {self.noun}"

    def read(self, spot: Spot, report: Report) -> tuple[T, ...] | None:
        """Return the items, or None where there is no list or one of them is wrong."""
        if not isinstance(spot.node, Sequence) or len(spot.node.items) < self.least:
            report.wrong(spot, self.expected, code=FlowProblemCode.TYPE)
            return None
        found: list[T] = []
        for index, node in enumerate(spot.node.items):
            item = spot.item(index, node)
            report.remember(item)
            value = self.item.read(item, report)
            if self.distinct and value in found:
                expected = f"each of the {self.noun} once"
                report.wrong(item, expected, code=FlowProblemCode.DUPLICATE)
            if value is not None:
                found.append(value)
        return tuple(found) if len(found) == len(spot.node.items) else None

    def schema(self) -> JsonSchema:
        """Return the JSON Schema of the list."""
        schema: JsonSchema = {"type": "array", "items": self.item.schema()}
        if self.least:
            schema["minItems"] = self.least
        return schema | ({"uniqueItems": True} if self.distinct else {})


@dataclass(frozen=True, slots=True)
class MapOf(Generic[T]):
    """A map from names to values of one shape; a value learns its name from its spot.

    Args:
        name: shape of the names.
        value: shape of each value.
        noun: what the map is of, in words.
        least: fewest entries.
        most: most entries.
    """

    name: Shape[str]
    value: Shape[T]
    noun: str
    least: int = 0
    most: int = 1000

    @property
    def expected(self) -> str:
        """Say in words what may stand there."""
        return f"a map of {self.noun} by name"

    def read(self, spot: Spot, report: Report) -> tuple[T, ...] | None:
        """Return the values that could be read, or None where there is no map."""
        if not isinstance(spot.node, Mapping):
            report.wrong(spot, self.expected, code=FlowProblemCode.TYPE)
            return None
        if not self.least <= len(spot.node.entries) <= self.most:
            found, expected = f"{len(spot.node.entries)} {self.noun}", f"{self.least} to {self.most}"
            report.wrong(spot, expected, code=FlowProblemCode.LIMIT, found=found)
        values = [self._entry(spot, key, node, report) for key, node in spot.node.entries]
        return tuple(value for value in values if value is not None)

    def _entry(
        self, spot: Spot, key: Scalar, node: "Scalar | Sequence | Mapping", report: Report
    ) -> T | None:
        entry = spot.entry(key, node)
        report.remember(entry)
        self.name.read(Spot(path=entry.path, key=key.at, node=key), report)
        return self.value.read(entry, report)

    def schema(self) -> JsonSchema:
        """Return the JSON Schema of the map."""
        schema: JsonSchema = {"type": "object", "propertyNames": self.name.schema()}
        schema["additionalProperties"] = self.value.schema()
        return schema | ({"minProperties": self.least} if self.least else {}) | {"maxProperties": self.most}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """What to say of a key that is no key here but is often tried.

    Args:
        code: the kind of problem.
        expected: what may stand there; empty lists the keys.
        suggestion: the key that is meant.
        cure: what else to do.
    """

    code: FlowProblemCode = FlowProblemCode.UNKNOWN_KEY
    expected: str = ""
    suggestion: str = ""
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Closed(Generic[T]):
    """A map with known keys.

    Args:
        noun: what the map is, in words.
        fields: every key that it may have.
        build: from the entries to the value.
        hints: what to say of keys that it has not and people try.
        one_of: keys of which exactly one must be there.
    """

    noun: str
    fields: tuple[Field[object], ...]
    build: Callable[[Entries, Report], T | None]
    hints: dict[str, Hint] = field(default_factory=dict)
    one_of: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        """Say in words what may stand there."""
        required = [each.key for each in self.fields if each.required]
        return f"{self.noun}: a map with {', '.join(required)}" if required else f"{self.noun}: a map"

    def read(self, spot: Spot, report: Report) -> T | None:
        """Return what the map builds, or None where there is no map."""
        if not isinstance(spot.node, Mapping):
            report.wrong(spot, self.expected, code=FlowProblemCode.TYPE)
            return None
        known = {each.key: each for each in self.fields}
        values: dict[str, object] = {}
        for key, node in spot.node.entries:
            entry = spot.entry(key, node)
            report.remember(entry)
            if key.text not in known:
                self._unknown(entry, report)
            else:
                values[key.text] = known[key.text].shape.read(entry, report)
        self._absent(spot, spot.node, values, report)
        self._check_one(spot, list(values), report)
        return self.build(Entries(spot, values), report)

    def _absent(self, spot: Spot, node: Mapping, values: dict[str, object], report: Report) -> None:
        present = {key.text for key, _ in node.entries}
        for each in (each for each in self.fields if each.key not in present):
            if each.required:
                report.missing(spot, each.key, each.shape.expected)
            elif each.implied:
                implied = spot.implied(each.key)
                values[each.key] = each.shape.read(implied, report)
            elif each.default is not None:
                report.explain((*spot.path, each.key), each.default.reason)

    def _check_one(self, spot: Spot, present: list[str], report: Report) -> None:
        chosen = [key for key in self.one_of if key in present]
        if self.one_of and not chosen:
            report.missing(spot, self.one_of[0], " or ".join(f"{key}:" for key in self.one_of))
        for key in chosen[1:]:
            found, expected = f"{key}: beside {chosen[0]}:", "one of the two"
            report.at((*spot.path, key), FlowProblemCode.VALUE, found, expected)

    def _unknown(self, entry: Spot, report: Report) -> None:
        keys = [each.key for each in self.fields]
        hint = self.hints.get(entry.name) or Hint(suggestion=near_miss(entry.name, keys))
        found, expected = (
            f"the unknown key {quoted(entry.name)}",
            hint.expected or f"one of {', '.join(keys)}",
        )
        suggestion, cure = hint.suggestion, hint.cure
        report.add(hint.code, entry.key, entry.path, found, expected, suggestion=suggestion, cure=cure)

    def schema(self) -> JsonSchema:
        """Return the JSON Schema of the map: closed, with descriptions and defaults."""
        choice: list[JsonValue] = [{"required": [key]} for key in self.one_of]
        return closed_schema(self.fields) | ({"oneOf": choice} if choice else {})


def closed_schema(fields: Iterable[Field[object]]) -> JsonSchema:
    """Return the JSON Schema of a map that has these keys and no others."""
    listed = list(fields)
    properties: JsonSchema = {}
    for each in listed:
        default: JsonSchema = {} if each.default is None else {"default": each.default.shown}
        properties[each.key] = {**each.shape.schema(), "description": each.about, **default}
    required: list[JsonValue] = [each.key for each in listed if each.required]
    schema: JsonSchema = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": required} if required else {})
