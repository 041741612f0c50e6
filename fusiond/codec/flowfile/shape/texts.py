"""Shapes of text: free text, closed words, names, paths, globs, references.

Owns what a text may look like by itself; whether a name stands for something is
judged in `rules`.
"""

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Generic, TypeVar

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from fusiond.codec.canonical import JsonValue
from fusiond.codec.flowfile.problems import FlowProblemCode, near_miss
from fusiond.codec.flowfile.reading.report import Report, Spot
from fusiond.codec.flowfile.reading.tree import Scalar, ScalarType, quoted
from fusiond.codec.flowfile.shape.shape import JsonSchema
from fusiond.domain.ids import is_name, is_node_id, is_tenant
from fusiond.domain.paths import problem_with, problem_with_glob
from fusiond.domain.records import dataclass

MAX_WORD_CHARS = 1024
"""Longest text that is no prose and no command."""

W = TypeVar("W", bound=StrEnum)


def _never(_: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Text:
    """A text that passes a rule.

    Args:
        expected: what it is, in words with an example where that helps.
        problem: says what is wrong with a text, such as "is empty", or None.
        pattern: the rule as a regular expression for editors, as far as one can say it.
        least: fewest characters.
        most: most characters, or None.
        code: the kind of problem a wrong text is.
    """

    expected: str
    problem: Callable[[str], str | None] = _never
    pattern: str | None = None
    least: int = 1
    most: int | None = None
    code: FlowProblemCode = FlowProblemCode.VALUE

    def read(self, spot: Spot, report: Report) -> str | None:
        """Return the text, or None after reporting why it may not stand there."""
        node = spot.node
        if not isinstance(node, Scalar) or node.type is not ScalarType.TEXT:
            unquoted = isinstance(node, Scalar) and node.type is not ScalarType.NOTHING
            cure = "put it in quotes to make it text" if unquoted else ""
            report.wrong(spot, self.expected, code=FlowProblemCode.TYPE, cure=cure)
            return None
        problem = self.problem(node.text)
        if self.most is not None and len(node.text) > self.most:
            problem = f"has {len(node.text)} characters, more than {self.most}"
        if problem is not None:
            report.wrong(spot, self.expected, code=self.code, found=f"{quoted(node.text)}, which {problem}")
            return None
        return node.text

    def schema(self) -> JsonSchema:
        """Return the JSON Schema of the text."""
        schema: JsonSchema = {"type": "string", "minLength": self.least}
        if self.most is not None:
            schema["maxLength"] = self.most
        return schema | ({"pattern": self.pattern} if self.pattern else {})


def _blank(text: str) -> str | None:
    return None if text.strip() else "is blank"


def _unless(valid: Callable[[str], bool], says: str) -> Callable[[str], str | None]:
    return lambda text: None if valid(text) else says


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(rf"(?:{pattern})\Z")
    return lambda text: compiled.match(text) is not None


_NAME_PATTERN = "[a-z][a-z0-9_-]{0,63}"
_NODE_PATTERN = "[a-z][a-z0-9-]{0,39}"
_TENANT_PATTERN = "[a-z0-9][a-z0-9._-]{0,63}"
_MEDIA_PATTERN = r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}"
_POINTER_PATTERN = r"(?:/(?:[^~/]|~[01])*)+"
_ENV_PATTERN = "[A-Za-z_][A-Za-z0-9_]{0,127}"


def _name(noun: str, pattern: str, valid: Callable[[str], bool]) -> Text:
    return Text(
        expected=f"{noun} like {pattern}",
        problem=_unless(valid, "is no such name"),
        pattern=f"^{pattern}$",
        code=FlowProblemCode.NAME,
    )


def _env_problem(text: str) -> str | None:
    if text.upper().startswith("FUSION_"):
        return "is set by the runner alone"
    return None if _matches(_ENV_PATTERN)(text) else "is no name of a variable"


def _specifier_problem(text: str) -> str | None:
    try:
        return None if text and SpecifierSet(text) else "names no version"
    except InvalidSpecifier:
        return "is no version range"


PROSE = Text("text", _blank)
VALUE = Text("text", least=0)
COMMAND = Text("a shell command", _blank)
ARGUMENT = Text("an argument", _unless(bool, "is empty"))
VERSION = Text('a version, such as "2026-11"', _blank, most=MAX_WORD_CHARS)
VERSION_RANGE = Text('a version range, such as ">=1.22"', _specifier_problem, most=MAX_WORD_CHARS)
NAME = _name("a name", _NAME_PATTERN, is_name)
NODE_ID = _name("a node id", _NODE_PATTERN, is_node_id)
TENANT = _name("a tenant", _TENANT_PATTERN, is_tenant)
RULE_NAME = _name("a rule", _NAME_PATTERN, is_name)
MEDIA_TYPE = Text(
    "a media type, such as text/markdown",
    _unless(_matches(_MEDIA_PATTERN), "is no media type in lower case without parameters"),
    pattern=f"^{_MEDIA_PATTERN}$",
)
POINTER = Text(
    "a JSON pointer, such as /duration",
    _unless(_matches(_POINTER_PATTERN), "is no JSON pointer"),
    pattern=f"^{_POINTER_PATTERN}$",
    most=MAX_WORD_CHARS,
)
ENV_NAME = Text("the name of an environment variable", _env_problem, pattern=f"^(?!FUSION_){_ENV_PATTERN}$")
FILE_PATH = Text(
    "a path relative to the workspace, such as prompts/build.md", problem_with, code=FlowProblemCode.PATH
)
OUTPUT_PATH = Text(
    "a path relative to $FUSION_OUTPUTS, such as report.json", problem_with, code=FlowProblemCode.PATH
)
GLOB = Text("a relative path or glob, such as notes/*.md", problem_with_glob, code=FlowProblemCode.PATH)


@dataclass(frozen=True, slots=True)
class Word(Generic[W]):
    """One word of a closed vocabulary."""

    words: type[W]

    @property
    def expected(self) -> str:
        """Say in words what may stand there."""
        return f"one of {', '.join(word.value for word in self.words)}"

    def read(self, spot: Spot, report: Report) -> W | None:
        """Return the word, or None after reporting what stands there instead."""
        node = spot.node
        known = {word.value: word for word in self.words}
        if isinstance(node, Scalar) and node.type is ScalarType.TEXT:
            if node.text in known:
                return known[node.text]
            suggestion = near_miss(node.text, list(known))
            report.wrong(spot, self.expected, suggestion=suggestion)
        else:
            report.wrong(spot, self.expected, code=FlowProblemCode.TYPE)
        return None

    def schema(self) -> JsonSchema:
        """Return the JSON Schema of the vocabulary."""
        words: list[JsonValue] = [word.value for word in self.words]
        return {"enum": words}


@dataclass(frozen=True, slots=True)
class Flag:
    """true or false, and nothing that looks like them."""

    expected: str = "true or false"

    def read(self, spot: Spot, report: Report) -> bool | None:
        """Return the flag, or None after reporting what stands there instead."""
        node = spot.node
        if isinstance(node, Scalar) and node.type is ScalarType.FLAG:
            return node.text.lower() == "true"
        looks_true = isinstance(node, Scalar) and node.text.lower() in {"yes", "on", "y", "true", "1"}
        looks_false = isinstance(node, Scalar) and node.text.lower() in {"no", "off", "n", "false", "0"}
        suggestion = "true" if looks_true else "false" if looks_false else ""
        report.wrong(spot, self.expected, code=FlowProblemCode.TYPE, suggestion=suggestion)
        return None

    def schema(self) -> JsonSchema:
        """Return the JSON Schema of a flag."""
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """`node.output`, `node.*` or, where that may stand, `node`.

    Args:
        node: as written, a well-formed node id.
        output: a well-formed name, `*`, or None for the node alone.
    """

    node: str
    output: str | None


@dataclass(frozen=True, slots=True)
class ReferenceText:
    """A reference in one text.

    Args:
        whole: `node.*` may stand there.
        bare: `node` may stand there.
    """

    whole: bool
    bare: bool

    @property
    def expected(self) -> str:
        """Say in words what may stand there."""
        return f"node.output{' or node.*' if self.whole else ''}{' or node' if self.bare else ''}"

    def read(self, spot: Spot, report: Report) -> Reference | None:
        """Return the reference, or None after reporting why it is none."""
        text = VALUE.read(spot, report)
        if text is None:
            return None
        node, dot, output = text.partition(".")
        if is_node_id(node) and (
            is_name(output) or (output == "*" and self.whole) or (not dot and self.bare)
        ):
            return Reference(node=node, output=output if dot else None)
        suggestion = f"{node}.*" if is_node_id(node) and not dot and self.whole else ""
        report.wrong(spot, self.expected, suggestion=suggestion)
        return None

    def schema(self) -> JsonSchema:
        """Return the JSON Schema of the reference."""
        output = rf"(?:{_NAME_PATTERN}|\*)" if self.whole else _NAME_PATTERN
        tail = rf"(?:\.{output})?" if self.bare else rf"\.{output}"
        return {"type": "string", "pattern": f"^{_NODE_PATTERN}{tail}$"}
