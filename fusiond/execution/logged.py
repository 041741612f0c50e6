"""Structured facts of a log line, for loggers below the daemon that formats them."""

from collections.abc import Mapping

Fact = str | int | bool | None

FACTS_ATTRIBUTE = "fusion_fields"
"""The attribute of a log record under which the daemon's formatter finds the facts."""


def facts(**named: Fact) -> dict[str, Mapping[str, Fact]]:
    """Return what `extra=` of a logging call takes. Texts may be untrusted: the formatter escapes."""
    return {FACTS_ATTRIBUTE: named}
