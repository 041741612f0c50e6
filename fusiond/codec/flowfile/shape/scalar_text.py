"""How text is written so that a YAML 1.2 reader gets it back: double-quoted or as a block.

Owns no structure: that is `explain` for flows and `loose` for JSON.
"""

import re
import unicodedata

_SHORT_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_ESCAPED = re.compile(r'[\\"]|[^ -~]')
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*\Z")
_WORDS_OF_YAML = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def double_quoted(text: str, *, json: bool = False) -> str:
    """Return text in double quotes; what draws nothing or moves a cursor is escaped.

    Args:
        text: any text without lone surrogates.
        json: the result must be JSON as well. JSON can escape a character beyond 16 bits
            only as a pair, which YAML reads as two halves of nothing, so it stays as it is.
    """
    return f'"{_ESCAPED.sub(_escaped_json if json else _escaped, text)}"'


def _escaped(match: re.Match[str]) -> str:
    char = match[0]
    if char in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[char]
    if unicodedata.category(char) not in _INVISIBLE:
        return char
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"


def _escaped_json(match: re.Match[str]) -> str:
    return match[0] if ord(match[0]) > 0xFFFF else _escaped(match)


def scalar(text: str) -> str:
    """Return text as a YAML scalar on one line: plain where nobody could take it for more."""
    if _PLAIN.match(text) and text.lower() not in _WORDS_OF_YAML:
        return text
    return double_quoted(text)


def block(text: str) -> list[str] | None:
    """Return text as the lines of a literal block, indicator first, or None where it has no such form.

    The lines are not indented yet.
    """
    body = text.rstrip("\n")
    lines = body.split("\n")
    tail = len(text) - len(body)
    if len(lines) < 2 or not all(_literal(line) for line in lines) or lines[0].startswith(" "):
        return None
    if not lines[0] or tail > 1:
        return None
    return ["|" if tail else "|-", *lines]


def _literal(line: str) -> bool:
    """Say whether a line may stand in a literal block and be seen for what it is."""
    visible = all(char == "\t" or unicodedata.category(char) not in _INVISIBLE for char in line)
    return visible and line == line.rstrip() and "\t" not in line[:1]
