"""The system's clocks and randomness, behind their ports."""

import secrets
import time


class SystemClock:
    """Both clocks of this machine."""

    def now_us(self) -> int:
        """Return UTC wall clock."""
        return time.time_ns() // 1_000

    def monotonic_us(self) -> int:
        """Return a monotonic clock."""
        return time.monotonic_ns() // 1_000


class SystemRandomness:
    """The kernel's randomness."""

    def bits(self, count: int) -> int:
        """Return `count` random bits."""
        return secrets.randbits(count)
