"""The result summary `result.md`: what makes its content valid, and the supervisor's own.

Owns the format: UTF-8 text that is not blank, within a bound, whose front
matter, if there is any, is one YAML mapping.
"""

import re
from collections.abc import Sequence

from fusiond.domain.artifacts import ContractProblem, FrozenArtifact, ProblemCode, RecordedBy
from fusiond.domain.contract import SUMMARY, problem
from fusiond.domain.display import draws_nothing
from fusiond.domain.ids import AttemptId

MAX_BYTES = 256 * 1024
MAX_FRONT_MATTER_BYTES = 16 * 1024
MAX_DEPTH = 24
MAX_LISTED = 100

_FENCE = re.compile(r"---[ \t]*\r?\n")
_END = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?$", re.MULTILINE)


def summary_problems(data: bytes) -> tuple[ContractProblem, ...]:
    """Return what is wrong with a summary; never raises, whatever the bytes are."""
    if len(data) > MAX_BYTES:
        return _invalid(f"{len(data)} bytes", f"at most {MAX_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return _invalid(f"a byte that is not UTF-8 at offset {error.start}", "UTF-8 text")
    fence = _FENCE.match(text)
    if fence is None:
        return _invalid("no visible text", "what the attempt did") if draws_nothing(text) else ()
    end = _END.search(text, fence.end())
    if end is None:
        return _invalid("front matter that does not end", "a line `---` after it")
    problems = _front_matter_problems(text[fence.end() : end.start()])
    if draws_nothing(text[end.end() :]):
        problems += _invalid("no visible text after the front matter", "what the attempt did")
    return problems


def _invalid(found: str, expected: str) -> tuple[ContractProblem, ...]:
    return (problem(ProblemCode.SUMMARY_INVALID, SUMMARY, found, expected),)


def _front_matter_problems(text: str) -> tuple[ContractProblem, ...]:
    if len(text.encode()) > MAX_FRONT_MATTER_BYTES:
        return _invalid("front matter that is too long", f"at most {MAX_FRONT_MATTER_BYTES} bytes")
    # Most summaries have no front matter, and the parser is slow to import.
    from ruamel.yaml.error import YAMLError

    try:
        return _mapping_problems(text)
    except (YAMLError, ValueError, OverflowError) as error:
        # The scanner turns an escape such as \UFFFFFFFF into a character without looking.
        reason = str(error).strip().partition("\n")[0]
        return _invalid(f"front matter that is no YAML: {reason}", "a YAML mapping")


def _mapping_problems(text: str) -> tuple[ContractProblem, ...]:
    """Judge parser events only: no tag is interpreted, no value built, nothing recurses."""
    from ruamel.yaml import YAML
    from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent, NodeEvent, ScalarEvent

    depth, nodes = 0, 0
    keys: set[str] = set()
    for event in YAML(typ="safe", pure=True).parse(text):
        if depth == 0 and isinstance(event, NodeEvent) and not _opens_mapping(event):
            return _invalid("front matter that is no mapping", "one YAML mapping")
        # The nodes directly in the mapping are its keys and values by turns.
        if depth == 1 and isinstance(event, NodeEvent):
            nodes += 1
            if nodes % 2:
                key = event.value if isinstance(event, ScalarEvent) else None
                if key is None or key in keys:
                    return _invalid("a front matter key that is no text or occurs twice", "each key once")
                keys.add(key)
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > MAX_DEPTH:
            return _invalid("front matter that is nested too deeply", f"at most {MAX_DEPTH} levels")
    return ()


def _opens_mapping(event: object) -> bool:
    from ruamel.yaml.events import MappingStartEvent, ScalarEvent

    # Nothing but comments between the fences is an empty scalar.
    empty = isinstance(event, ScalarEvent) and event.value == "" and event.style is None
    return empty or isinstance(event, MappingStartEvent)


def supervisor_summary(attempt: AttemptId, artifacts: Sequence[FrozenArtifact]) -> bytes:
    """Return the summary that the supervisor writes for an attempt that wrote none."""
    lines = [
        "---",
        f"recorded_by: {RecordedBy.SUPERVISOR.value}",
        "---",
        f"# Attempt {attempt.number} of {attempt.stage.node}",
        "",
        f"{len(artifacts)} artifacts" if len(artifacts) != 1 else "1 artifact",
        "",
    ]
    lines += [
        f"- {each.path}: {_role(each)}, {each.media_type}, {each.size} bytes"
        for each in artifacts[:MAX_LISTED]
    ]
    if len(artifacts) > MAX_LISTED:
        lines.append(f"- and {len(artifacts) - MAX_LISTED} more, see artifacts.json")
    return ("\n".join(lines) + "\n").encode()


def _role(artifact: FrozenArtifact) -> str:
    return "extra" if artifact.output is None else f"output {artifact.output}"
