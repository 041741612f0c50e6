"""The ports of time and randomness; pure code gets their values as arguments."""

from typing import Protocol


class Clock(Protocol):
    """Two clocks, both in microseconds."""

    def now_us(self) -> int:
        """Return UTC wall clock, for instants."""
        ...

    def monotonic_us(self) -> int:
        """Return a monotonic clock, for durations."""
        ...


class Randomness(Protocol):
    """Unpredictable bits."""

    def bits(self, count: int) -> int:
        """Return an integer of `count` random bits."""
        ...
