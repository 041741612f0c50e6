"""Templates of prompts and questions: `{{ inputs.NAME }}` and three ids, substituted in one pass.

Owns the syntax and the substitution (`flow.md`: in `prompt` and `ask` alone).
There is no escape and no logic: what is substituted is never read again, so text
with literal braces can come in through an input. Commands are never templates.
"""

import re
from collections.abc import Mapping

from fusiond.domain.errors import InvalidError
from fusiond.domain.records import dataclass

OPEN = "{{"
"""Where a template starts; there is none in a text without it."""

INPUT_PREFIX = "inputs."
IDENTITIES = ("run.id", "node.id", "attempt.number")
"""The names beside the flow's inputs that a template may hold."""

_TEMPLATE = re.compile(r"\{\{(?:[ \t]*([A-Za-z0-9_.-]+)[ \t]*\}\})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """One `{{` in a text.

    Args:
        start: character index of the first brace.
        end: index after the last brace, or after the opening one where it is malformed.
        name: what is between the braces, or None where that is no name or never ends.
    """

    start: int
    end: int
    name: str | None


def find_templates(text: str) -> tuple[Template, ...]:
    """Return every template of a text in order, malformed ones included."""
    return tuple(
        Template(start=match.start(), end=match.end(), name=match[1]) for match in _TEMPLATE.finditer(text)
    )


def substitute(text: str, values: Mapping[str, str]) -> str:
    """Return `text` with each template replaced by its value.

    Args:
        text: a prompt or question.
        values: by full name, such as `inputs.issue` and `run.id`. A value is inserted
            as it is; braces in it mean nothing.

    Raises:
        InvalidError: a malformed template, or a name without a value.
    """
    parts: list[str] = []
    end = 0
    for template in find_templates(text):
        if template.name is None or template.name not in values:
            found = text[template.start : template.start + 40]
            raise InvalidError(f"no value for {found!r}", expected=f"one of {', '.join(sorted(values))}")
        parts += (text[end : template.start], values[template.name])
        end = template.end
    return "".join((*parts, text[end:]))
