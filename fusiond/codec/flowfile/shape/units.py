"""Shapes of numbers and quantities, and how each is written: `30s`, `64KiB`, `5.00`, `0.8`, `2`.

Every quantity is read exactly into whole units (microseconds, bytes, micro-USD,
parts per million); no float is ever made.
"""

import re

from fusiond.codec.flowfile.problems import FlowProblemCode
from fusiond.codec.flowfile.reading.report import Report, Spot
from fusiond.codec.flowfile.reading.tree import Scalar, ScalarType
from fusiond.codec.flowfile.shape.shape import JsonSchema
from fusiond.domain.records import dataclass

US_PER_SECOND = 1_000_000
MAX_COUNT = 10**15
MAX_DURATION_US = 366 * 24 * 3600 * US_PER_SECOND
MAX_SIZE_BYTES = 1 << 40
MAX_COST_UUSD = 10**6 * 10**6
PPM = 1_000_000

_WHOLE = re.compile(r"(?:0|[1-9][0-9]{0,17})\Z")
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?) *([A-Za-zµ]*)\Z")
_DURATIONS = {"h": 3600 * US_PER_SECOND, "m": 60 * US_PER_SECOND, "s": US_PER_SECOND, "ms": 1000}
_SIZES = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "B": 1}
_FIXED = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,18}))?\Z")


@dataclass(frozen=True, slots=True)
class Count:
    """A whole number in decimal digits."""

    least: int = 0
    most: int = MAX_COUNT

    @property
    def expected(self) -> str:
        """Say in words what may stand there."""
        return f"a whole number from {self.least} to {self.most}"

    def read(self, spot: Spot, report: Report) -> int | None:
        """Return the number, or None after reporting what stands there instead."""
        node = spot.node
        if not isinstance(node, Scalar) or node.type is not ScalarType.INTEGER:
            report.wrong(spot, self.expected, code=FlowProblemCode.TYPE)
            return None
        if not _WHOLE.match(node.text) or not self.least <= int(node.text) <= self.most:
            report.wrong(spot, self.expected, code=FlowProblemCode.LIMIT)
            return None
        return int(node.text)

    def schema(self) -> JsonSchema:
        """Return the JSON Schema of the number."""
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class Quantity:
    """A positive whole number with a unit, as one text.

    Args:
        expected: in words, with examples.
        units: what each unit is worth, largest first.
        most: largest quantity, in the smallest unit counted.
        habits: units that people write, by what they may mean here.
    """

    expected: str
    units: dict[str, int]
    most: int
    habits: dict[str, str]

    def read(self, spot: Spot, report: Report) -> int | None:
        """Return the quantity in its smallest unit, or None after reporting why it is none."""
        node = spot.node
        text = node.text if isinstance(node, Scalar) else ""
        match = _QUANTITY.match(text) if text else None
        if match and match[2] in self.units and _WHOLE.match(match[1]) and " " not in text:
            value = int(match[1]) * self.units[match[2]]
            if 0 < value <= self.most:
                return value
            expected = f"more than 0 and at most {self.show(self.most)}"
            report.wrong(spot, expected, code=FlowProblemCode.LIMIT)
            return None
        suggestion = self._suggested(match[1], match[2]) if match else ""
        report.wrong(spot, self.expected, code=FlowProblemCode.TYPE, suggestion=suggestion)
        return None

    def _suggested(self, number: str, unit: str) -> str:
        meant = unit if unit in self.units else self.habits.get(unit.lower(), "")
        return f"{number}{meant}" if meant and _WHOLE.match(number) else ""

    def show(self, value: int) -> str:
        """Return a quantity as a flow file writes it, in the largest unit that fits exactly."""
        unit, worth = next(each for each in self.units.items() if value % each[1] == 0)
        return f"{value // worth}{unit}"

    def schema(self) -> JsonSchema:
        """Return the JSON Schema of the quantity."""
        return {"type": "string", "pattern": f"^[1-9][0-9]*({'|'.join(self.units)})$"}


DURATION = Quantity(
    "a duration, such as 30s, 5m or 2h",
    _DURATIONS,
    MAX_DURATION_US,
    {"": "s", "sec": "s", "secs": "s", "seconds": "s", "second": "s", "min": "m", "mins": "m"}
    | {"minutes": "m", "minute": "m", "hr": "h", "hrs": "h", "hours": "h", "hour": "h", "msec": "ms"},
)
SIZE = Quantity(
    "a size, such as 64KiB or 2MiB",
    _SIZES,
    MAX_SIZE_BYTES,
    {"": "B", "k": "KiB", "kb": "KiB", "kib": "KiB", "m": "MiB", "mb": "MiB", "mib": "MiB"}
    | {"g": "GiB", "gb": "GiB", "gib": "GiB", "b": "B", "bytes": "B"},
)


@dataclass(frozen=True, slots=True)
class Fixed:
    """A decimal number that is exact in millionths.

    Args:
        expected: in words, with an example.
        most: largest number, in millionths.
        places: digits after the point when written.
    """

    expected: str
    most: int
    places: int

    def read(self, spot: Spot, report: Report) -> int | None:
        """Return the number in millionths, or None after reporting why it is none."""
        node = spot.node
        if not isinstance(node, Scalar) or node.type not in {ScalarType.INTEGER, ScalarType.DECIMAL}:
            quoted_number = isinstance(node, Scalar) and bool(_FIXED.match(node.text))
            cure = "write it without quotes" if quoted_number else ""
            report.wrong(spot, self.expected, code=FlowProblemCode.TYPE, cure=cure)
            return None
        match = _FIXED.match(node.text)
        decimals = match[2].rstrip("0") if match and match[2] else ""
        if match is None or len(decimals) > 6:
            report.wrong(spot, f"{self.expected}, with at most six decimals")
            return None
        millionths = int(match[1]) * 1_000_000 + int(decimals.ljust(6, "0"))
        if millionths > self.most:
            report.wrong(spot, f"at most {self.show(self.most)}", code=FlowProblemCode.LIMIT)
            return None
        return millionths

    def show(self, value: int) -> str:
        """Return a number of millionths as a flow file writes it."""
        whole, rest = divmod(value, 1_000_000)
        decimals = f"{rest:06d}".rstrip("0").ljust(self.places, "0")
        return f"{whole}.{decimals}"

    def schema(self) -> JsonSchema:
        """Return the JSON Schema of the number."""
        return {"type": "number", "minimum": 0, "maximum": self.most // 1_000_000}


COST = Fixed("decimal USD, such as 5.00", MAX_COST_UUSD, places=2)
SCORE = Fixed("a number from 0 to 1, such as 0.8", PPM, places=1)
