"""What a value of a flow file may look like: one table for reading and for the JSON Schema.

A shape reads one value into a typed one and describes itself as JSON Schema, so
that the reader, the schema and the suggestions cannot disagree. Lists and maps are
in `containers`, scalars in `texts` and `units`.
"""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar, cast, overload

from fusiond.codec.canonical import JsonValue
from fusiond.codec.flowfile.problems import FlowProblemCode
from fusiond.codec.flowfile.reading.report import Report, Spot
from fusiond.codec.flowfile.reading.tree import Mapping, Sequence
from fusiond.domain.records import dataclass

T = TypeVar("T")
D = TypeVar("D")
T_co = TypeVar("T_co", covariant=True)

JsonSchema = dict[str, JsonValue]


class Shape(Protocol[T_co]):
    """How one value reads, and what it is called."""

    @property
    def expected(self) -> str:
        """Say in words what may stand there."""
        ...

    def read(self, spot: Spot, report: Report) -> T_co | None:
        """Return the value of `spot`, or None after reporting why it has none."""
        ...

    def schema(self) -> JsonSchema:
        """Return the JSON Schema of what may stand there."""
        ...


@dataclass(frozen=True, slots=True)
class Default(Generic[T_co]):
    """The value of a key that the file leaves out, where no other value decides it.

    Args:
        value: as read.
        shown: as the file would say it.
        reason: why, for `--explain`.
    """

    value: T_co
    shown: JsonValue
    reason: str = "default"


@dataclass(frozen=True, slots=True)
class Field(Generic[T_co]):
    """One key of a closed map.

    Args:
        key: as in the file.
        shape: of its value.
        about: one sentence for editors.
        required: its absence is a problem.
        default: what holds where it is absent.
        implied: where it is absent, an empty map is read in its place, so that the
            defaults inside it are filled in and explained.
    """

    key: str
    shape: Shape[T_co]
    about: str
    required: bool = False
    default: Default[T_co] | None = None
    implied: bool = False


class Entries:
    """The values that were read from one closed map; None stands for a wrong one."""

    def __init__(self, spot: Spot, values: dict[str, object]) -> None:
        self.spot = spot
        self._values = values

    @overload
    def get(self, wanted: Field[T]) -> T | None: ...

    @overload
    def get(self, wanted: Field[T], otherwise: D) -> T | D: ...

    def get(self, wanted: Field[T], otherwise: D | None = None) -> T | D | None:
        """Return the value of a key, or its default where it is absent, else `otherwise`.

        A required key that is absent, and any key that is wrong, is in the report; what is
        made with `otherwise` in its place serves only to find further problems.
        """
        if wanted.key in self._values:
            value = cast("T | None", self._values[wanted.key])
            return otherwise if value is None else value
        return otherwise if wanted.default is None else wanted.default.value


@dataclass(frozen=True, slots=True)
class Either(Generic[T]):
    """A short and a long form: a scalar, or a map."""

    short: Shape[T]
    long: Shape[T]

    @property
    def expected(self) -> str:
        """Say in words what may stand there."""
        return f"{self.short.expected}, or {self.long.expected}"

    def read(self, spot: Spot, report: Report) -> T | None:
        """Return the value of whichever form stands there."""
        if isinstance(spot.node, Mapping):
            return self.long.read(spot, report)
        if isinstance(spot.node, Sequence):
            report.wrong(spot, self.expected, code=FlowProblemCode.TYPE)
            return None
        return self.short.read(spot, report)

    def schema(self) -> JsonSchema:
        """Return the JSON Schema of both forms."""
        return {"anyOf": [self.short.schema(), self.long.schema()]}


@dataclass(frozen=True, slots=True)
class Made(Generic[T, D]):
    """A shape whose value is made into another one, such as a word into a record."""

    shape: Shape[T]
    make: Callable[[T, Spot, Report], D | None]

    @property
    def expected(self) -> str:
        """Say in words what may stand there."""
        return self.shape.expected

    def read(self, spot: Spot, report: Report) -> D | None:
        """Return what is made of the value."""
        value = self.shape.read(spot, report)
        return None if value is None else self.make(value, spot, report)

    def schema(self) -> JsonSchema:
        """Return the JSON Schema of the inner shape."""
        return self.shape.schema()
