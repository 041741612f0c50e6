"""From text to positioned values: YAML 1.2 through parser events, under bounds.

Nothing is constructed: no tags, no objects, no merge keys. Aliases stand for
the very node of their anchor; how much they would expand to is counted while
composing, so that a small file cannot become a large flow.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamStartEvent,
)

from fusiond.codec.flowfile.problems import FlowProblemCode, KeyPath
from fusiond.codec.flowfile.reading.report import Report
from fusiond.codec.flowfile.reading.tree import (
    Mapping,
    Scalar,
    ScalarType,
    Sequence,
    YamlNode,
    described,
    quoted,
    type_of,
)
from fusiond.domain.records import dataclass

MAX_DEPTH = 24
"""Levels of lists and maps; a flow needs nine."""
MAX_NODES = 20_000
"""Values after aliases are expanded."""
MAX_EXPANDED_CHARS = 4 << 20
"""Characters of all scalars after aliases are expanded."""
MAX_KEY_CHARS = 128


class _StopReadingError(Exception):
    """Reading cannot go on; the reason is in the report already."""


@dataclass(frozen=True, slots=True)
class _Weight:
    """What a value counts for each time it is used, aliases in it expanded."""

    nodes: int
    chars: int
    levels: int


def _weigh(node: YamlNode) -> _Weight:
    match node:
        case Scalar(text=text):
            return _Weight(1, len(text), 0)
        case Sequence(items=items):
            return _together([_weigh(item) for item in items])
        case Mapping(entries=entries):
            return _together([_weigh(part) for entry in entries for part in entry])


def _together(parts: list[_Weight]) -> _Weight:
    return _Weight(
        1 + sum(part.nodes for part in parts),
        sum(part.chars for part in parts),
        1 + max((part.levels for part in parts), default=0),
    )


def _placed(value: YamlNode, key: Scalar) -> YamlNode:
    """Return a map's value; one that is not written at all stands where its key does."""
    if isinstance(value, Scalar) and value.type is ScalarType.NOTHING and not value.text:
        return replace(value, at=key.at, end=key.at)
    return value


_Valued = ScalarEvent | SequenceStartEvent | MappingStartEvent


def compose(report: Report) -> YamlNode | None:
    """Read the one document of the report's source.

    Returns:
        The top value, or None where the text is not YAML or over a bound; every
        problem is in the report. Problems that leave a usable value (a duplicate
        key, a tag) are reported and reading goes on.
    """
    composer = _Composer(report)
    try:
        return composer.document()
    except _StopReadingError:
        return None


def _events(report: Report) -> Iterator[Event]:
    """Yield the parser's events; a syntax error is reported and stops the reading."""
    try:
        yield from YAML(typ="safe", pure=True).parse(report.source.text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        index = min(mark.index, len(report.source.text)) if mark else 0
        _syntax(report, index, f"text that is not YAML ({error.problem})", str(error.context or ""))
    except (YAMLError, ValueError, OverflowError) as error:
        # The scanner turns escapes such as \UFFFFFFFF into characters without a bound.
        _syntax(report, 0, f"text that is not YAML ({error})", "")


def _syntax(report: Report, index: int, found: str, context: str) -> None:
    line = report.source.place(index)[0] - 1
    start = report.source.starts[line]
    before = report.source.text[start:index] + report.source.text[index : index + 1]
    if "\t" in before and not before.strip():
        found, context = "a tab in the indentation", ""
        index = start + before.index("\t")
    expected = f"YAML ({context})" if context else "YAML, indented with spaces"
    report.add(FlowProblemCode.SYNTAX, index, (), found, expected)
    raise _StopReadingError


class _Composer:
    """State of one composition: anchors seen, weights, and the path for messages."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._events = _events(report)
        self._anchors: dict[str, YamlNode] = {}
        self._weights: dict[str, _Weight] = {}
        self._open: set[str] = set()
        self._nodes = 0
        self._chars = 0
        self._levels = 0
        self._path: KeyPath = ()

    def document(self) -> YamlNode | None:
        """Compose the only document, or report that there is none or more than one."""
        top: YamlNode | None = None
        for event in self._events:
            match event:
                case StreamStartEvent() | DocumentEndEvent():
                    continue
                case DocumentStartEvent():
                    self._document_start(event, again=top is not None)
                    top = self._value(next(self._events))
        if top is None:
            self._report.add(FlowProblemCode.EMPTY, 0, (), "an empty file", "a map with flow: and nodes:")
        return top

    def _document_start(self, event: DocumentStartEvent, *, again: bool) -> None:
        if again:
            cure = "write one file a flow"
            self._stop(event, FlowProblemCode.DOCUMENTS, "a second document", "one document", cure)
        if event.version not in {None, (1, 2)}:
            version = ".".join(str(part) for part in event.version)
            self._stop(event, FlowProblemCode.SYNTAX, f"%YAML {version}", "YAML 1.2")

    def _value(self, event: Event) -> YamlNode:
        match event:
            case AliasEvent():
                return self._alias(event)
            case ScalarEvent() | SequenceStartEvent() | MappingStartEvent():
                return self._anchored(event)
        raise AssertionError(f"the parser gave {event} where a value begins")

    def _anchored(self, event: _Valued) -> YamlNode:
        self._refuse_tag(event)
        if event.anchor is None:
            return self._composed(event)
        self._open.add(event.anchor)
        node = self._composed(event)
        self._open.discard(event.anchor)
        self._anchors[event.anchor] = node
        self._weights[event.anchor] = _weigh(node)
        return node

    def _composed(self, event: _Valued) -> YamlNode:
        if isinstance(event, ScalarEvent):
            self._count(event, _Weight(1, len(event.value), 0))
            return self._scalar(event)
        self._count(event, _Weight(1, 0, 1))
        self._levels += 1
        node = self._sequence(event) if isinstance(event, SequenceStartEvent) else self._mapping(event)
        self._levels -= 1
        return node

    def _scalar(self, event: ScalarEvent) -> Scalar:
        text = event.value
        refused = next((char for char in text if char == "\0" or "\ud800" <= char <= "\udfff"), None)
        if refused is not None:
            self._add(event, FlowProblemCode.CHARACTER, f"the escape of U+{ord(refused):04X}", "text")
            text = text.replace(refused, "?")
        at, end = event.start_mark.index, event.end_mark.index
        return Scalar(at=at, end=end, type=type_of(text, plain=event.style is None), text=text)

    def _sequence(self, start: SequenceStartEvent) -> Sequence:
        items: list[YamlNode] = []
        path = self._path
        while not isinstance(event := next(self._events), SequenceEndEvent):
            self._path = (*path, len(items))
            items.append(self._value(event))
        self._path = path
        return Sequence(at=start.start_mark.index, items=tuple(items))

    def _mapping(self, start: MappingStartEvent) -> Mapping:
        entries: dict[str, tuple[Scalar, YamlNode]] = {}
        path = self._path
        while not isinstance(event := next(self._events), MappingEndEvent):
            self._path = path
            key = self._key(event)
            self._path = path if key is None else (*path, key.text)
            value = self._value(next(self._events))
            if key is not None and self._is_new(entries, key):
                entries[key.text] = (key, _placed(value, key))
        self._path = path
        return Mapping(at=start.start_mark.index, entries=tuple(entries.values()))

    def _key(self, event: Event) -> Scalar | None:
        """Return a map's key, or None where it was reported as none."""
        key = self._value(event)
        if isinstance(key, Scalar) and key.text == "<<" and key.type is ScalarType.TEXT:
            expected, cure = "a key", "merge keys are not YAML 1.2; repeat the keys"
            self._add(event, FlowProblemCode.MERGE_KEY, "the merge key <<", expected, cure)
            return None
        if isinstance(key, Scalar) and key.type is ScalarType.TEXT and len(key.text) <= MAX_KEY_CHARS:
            return key
        expected = f"a key: text of at most {MAX_KEY_CHARS} characters"
        self._add(event, FlowProblemCode.KEY, described(key), expected)
        return None

    def _is_new(self, entries: dict[str, tuple[Scalar, YamlNode]], key: Scalar) -> bool:
        if key.text not in entries:
            return True
        line, _ = self._report.source.place(entries[key.text][0].at)
        found = f"the key {quoted(key.text)} again"
        expected = f"each key once (first on line {line})"
        self._report.add(FlowProblemCode.DUPLICATE_KEY, key.at, self._path, found, expected)
        return False

    def _alias(self, event: AliasEvent) -> YamlNode:
        name = event.anchor
        if name in self._open:
            self._stop(event, FlowProblemCode.ALIAS, f"*{name} inside its own anchor", "a value that ends")
        if name not in self._anchors:
            self._stop(event, FlowProblemCode.ALIAS, f"*{name}, which no anchor names", "an anchor above it")
        self._count(event, self._weights[name])
        return self._anchors[name]

    def _refuse_tag(self, event: _Valued) -> None:
        if event.tag is not None:
            cure = "leave the tag out; quotes make text of anything"
            self._add(event, FlowProblemCode.TAG, f"the tag {event.tag}", "a value without a tag", cure)

    def _count(self, event: Event, weight: _Weight) -> None:
        self._nodes += weight.nodes
        self._chars += weight.chars
        if self._levels + weight.levels > MAX_DEPTH:
            self._stop(event, FlowProblemCode.DEPTH, "another level", f"at most {MAX_DEPTH} levels")
        if self._nodes > MAX_NODES or self._chars > MAX_EXPANDED_CHARS:
            expected = f"at most {MAX_NODES} values and {MAX_EXPANDED_CHARS} characters, aliases expanded"
            self._stop(event, FlowProblemCode.EXPANSION, "more", expected)

    def _add(self, event: Event, code: FlowProblemCode, found: str, expected: str, cure: str = "") -> None:
        self._report.add(code, event.start_mark.index, self._path, found, expected, cure=cure)

    def _stop(
        self, event: Event, code: FlowProblemCode, found: str, expected: str, cure: str = ""
    ) -> NoReturn:
        self._add(event, code, found, expected, cure)
        raise _StopReadingError
