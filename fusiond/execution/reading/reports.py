"""Stored problem reports back into lines for people."""

from fusiond.codec.canonical import parse_json
from fusiond.domain.display import display_safe

MAX_REPORT_BYTES = 1024 * 1024


def report_lines(body: bytes) -> list[str]:
    """Return one line for each contract problem of a report that `problems_report` wrote."""
    value = parse_json(body, max_bytes=MAX_REPORT_BYTES, max_depth=8)
    problems = value.get("problems") if isinstance(value, dict) else None
    lines: list[str] = []
    for each in problems if isinstance(problems, list) else []:
        if isinstance(each, dict):
            said = f"{each.get('where')}: {each.get('code')}: found {each.get('found')}, "
            lines.append(display_safe(f"{said}expected {each.get('expected')}"))
    return lines
