"""The collector that one reading of a flow file fills: problems, places, defaults.

Owns positions: every key path that was read is remembered, so that rules
which look at the whole flow can still point at a line.
"""

from itertools import count, takewhile

from fusiond.codec.flowfile.problems import FlowProblem, FlowProblemCode, KeyPath, path_text
from fusiond.codec.flowfile.reading.source import Source
from fusiond.codec.flowfile.reading.tree import Mapping, Scalar, YamlNode, described
from fusiond.domain.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """One value in the file.

    Args:
        path: the keys that lead to it.
        key: character index of its key, or of the value itself for a list item.
        node: the value.
    """

    path: KeyPath
    key: int
    node: YamlNode

    @property
    def text(self) -> str:
        """Return the text of a scalar as it was read; empty for a list or a map."""
        return self.node.text if isinstance(self.node, Scalar) else ""

    @property
    def name(self) -> str:
        """Return the last key: the name under which the value was declared."""
        return str(self.path[-1]) if self.path else ""

    def entry(self, key: Scalar, node: YamlNode) -> "Spot":
        """Return the spot of one entry of a map."""
        return Spot(path=(*self.path, key.text), key=key.at, node=node)

    def item(self, index: int, node: YamlNode) -> "Spot":
        """Return the spot of one item of a list."""
        return Spot(path=(*self.path, index), key=node.at, node=node)

    def implied(self, key: str) -> "Spot":
        """Return the spot of a map that the file leaves out."""
        return Spot(path=(*self.path, key), key=self.key, node=Mapping(at=self.key))


class Report:
    """Problems, places and explained defaults of one reading; filled, then read once."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.explained: dict[str, str] = {}
        self._problems: list[FlowProblem] = []
        self._spots: dict[KeyPath, Spot] = {}

    @property
    def clean(self) -> bool:
        """Say whether no problem was found so far."""
        return not self._problems

    def problems(self) -> tuple[FlowProblem, ...]:
        """Return all problems in the order of the file."""
        return tuple(sorted(self._problems, key=lambda each: (each.line, each.column, each.code, each.found)))

    def remember(self, spot: Spot) -> None:
        """Keep where `spot.path` stands."""
        self._spots[spot.path] = spot

    def spot(self, path: KeyPath) -> Spot | None:
        """Return what was read at `path`, or None where the file has nothing there."""
        return self._spots.get(path)

    def items(self, path: KeyPath) -> tuple[Spot, ...]:
        """Return the items of the list that was read at `path`, wrong ones included."""
        present = takewhile(self._spots.__contains__, ((*path, index) for index in count()))
        return tuple(self._spots[item] for item in present)

    def names(self, path: KeyPath) -> list[str]:
        """Return the keys of the map that was read at `path`, those with wrong values included."""
        node = self._spots[path].node if path in self._spots else None
        return [key.text for key, _ in node.entries] if isinstance(node, Mapping) else []

    def place(self, path: KeyPath) -> tuple[int, int]:
        """Return line and column of the value at `path`, or of the nearest map around it."""
        if path in self._spots:
            return self.source.place(self._spots[path].node.at)
        while path and path not in self._spots:
            path = path[:-1]
        return self.source.place(self._spots[path].key if path in self._spots else 0)

    def explain(self, path: KeyPath, reason: str) -> None:
        """Note that a rule and not the file gave the value at `path`."""
        self.explained[path_text(path)] = reason

    def wrong(
        self,
        spot: Spot,
        expected: str,
        *,
        code: FlowProblemCode = FlowProblemCode.VALUE,
        found: str | None = None,
        suggestion: str = "",
        cure: str = "",
    ) -> None:
        """Report the value of a spot; `found` None describes it."""
        shown = described(spot.node) if found is None else found
        self.add(code, spot.node.at, spot.path, shown, expected, suggestion=suggestion, cure=cure)

    def missing(self, spot: Spot, key: str, expected: str, cure: str = "") -> None:
        """Report a key that the map at `spot` must have."""
        code = FlowProblemCode.MISSING_KEY
        self.add(code, spot.key, (*spot.path, key), "nothing", expected, cure=cure)

    def at(
        self,
        path: KeyPath,
        code: FlowProblemCode,
        found: str,
        expected: str,
        *,
        suggestion: str = "",
        cure: str = "",
    ) -> None:
        """Report something about the value at `path`, or about the map that should have it."""
        self._append(code, self.place(path), path, found, expected, suggestion, cure)

    def add(
        self,
        code: FlowProblemCode,
        index: int,
        path: KeyPath,
        found: str,
        expected: str,
        *,
        suggestion: str = "",
        cure: str = "",
    ) -> None:
        """Report something at a character index."""
        self._append(code, self.source.place(index), path, found, expected, suggestion, cure)

    def take(self, problems: list[FlowProblem]) -> None:
        """Add problems that were found elsewhere."""
        self._problems.extend(problems)

    def _append(
        self,
        code: FlowProblemCode,
        place: tuple[int, int],
        path: KeyPath,
        found: str,
        expected: str,
        suggestion: str,
        cure: str,
    ) -> None:
        self._problems.append(
            FlowProblem(
                code=code,
                line=place[0],
                column=place[1],
                path=path_text(path),
                found=found,
                expected=expected,
                suggestion=suggestion,
                cure=cure,
            )
        )
