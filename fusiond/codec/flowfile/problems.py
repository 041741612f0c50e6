"""What can be wrong with a flow file, as records; no reading and no printing here.

A problem is a value: reading a flow file never raises. `render` writes problems
as lines, `report` collects them.
"""

import re
from difflib import get_close_matches
from enum import StrEnum

from fusiond.domain.records import dataclass

KeyPath = tuple[str | int, ...]
"""Keys and list positions from the top of the file down to one value."""

MAX_SHOWN = 80
"""Characters of a found value that a problem repeats."""

MAX_LISTED = 20
"""Names that a problem lists to choose from."""

_PLAIN_KEY = re.compile(r"[A-Za-z_<][A-Za-z0-9_<-]*\Z")


class FlowProblemCode(StrEnum):
    """Every kind of problem with a flow file; tools may rely on these words."""

    SIZE = "size"
    ENCODING = "encoding"
    CHARACTER = "character"
    SYNTAX = "syntax"
    EMPTY = "empty"
    DOCUMENTS = "documents"
    DEPTH = "depth"
    EXPANSION = "expansion"
    ALIAS = "alias"
    TAG = "tag"
    MERGE_KEY = "merge_key"
    KEY = "key"
    DUPLICATE_KEY = "duplicate_key"
    UNKNOWN_KEY = "unknown_key"
    MISSING_KEY = "missing_key"
    TYPE = "type"
    VALUE = "value"
    NAME = "name"
    PATH = "path"
    TEMPLATE = "template"
    NODE_KIND = "node_kind"
    NOT_FOR_KIND = "not_for_kind"
    RERUN_LIMIT = "rerun_limit"
    LIMIT = "limit"
    DUPLICATE = "duplicate"
    COLLISION = "collision"
    RESERVED = "reserved"
    UNKNOWN_NODE = "unknown_node"
    UNKNOWN_OUTPUT = "unknown_output"
    UNKNOWN_INPUT = "unknown_input"
    UNKNOWN_GATE = "unknown_gate"
    UNUSED_GATE = "unused_gate"
    UNKNOWN_PROFILE = "unknown_profile"
    NOT_NEEDED = "not_needed"
    SELF_DEPENDENCY = "self_dependency"
    CYCLE = "cycle"
    DETERMINISM = "determinism"
    ENTROPY = "entropy"
    FILE = "file"
    FILE_SIZE = "file_size"
    FILE_CONTENT = "file_content"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowProblem:
    """One thing wrong, with where, what was found and what was expected.

    Args:
        code: the kind of problem.
        file: the file it stands in, where that is not the flow file itself.
        line: counted from 1.
        column: characters, counted from 1.
        path: the offending key, such as `nodes.build.gates[0].run`; empty for the whole file.
        found: what stands there, untrusted text included.
        expected: what may stand there.
        suggestion: the near miss, or empty.
        cure: what else to do about it, or empty.
    """

    code: FlowProblemCode
    file: str | None = None
    line: int
    column: int
    path: str
    found: str
    expected: str
    suggestion: str = ""
    cure: str = ""


def path_text(path: KeyPath) -> str:
    """Return a key path as people read it: `nodes.build.gates[0].run`."""
    text = ""
    for part in path:
        match part:
            case int():
                text += f"[{part}]"
            case str():
                shown = part if _PLAIN_KEY.match(part) else f'"{shortened(part)}"'
                text += f".{shown}" if text else shown
    return text


def shortened(text: str) -> str:
    """Return `text`, cut to what a problem repeats of it."""
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def near_miss(found: str, known: list[str]) -> str:
    """Return the known word that `found` was probably meant to be, or empty."""
    matches = get_close_matches(found[:MAX_SHOWN].casefold(), sorted(known), n=1, cutoff=0.6)
    return matches[0] if matches else ""


def one_of(noun: str, names: list[str]) -> str:
    """Say which names there are to choose from, the first of them where they are many."""
    if not names:
        return f"one of the {noun}, but there is none"
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"one of the {noun} {', '.join(sorted(names)[:MAX_LISTED])}{more}"
