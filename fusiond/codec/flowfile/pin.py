"""Pinning: every file that a flow names is read once and replaced by its digest.

Reading is an argument, so that the daemon decides where from (prompts from the
workspace, policies and schemas from the base commit). Owns the checks that need
the bytes: size, text, templates of prompts, well-formed schemas.
"""

from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum

from fusiond.codec.canonical import JsonValue, parse_json
from fusiond.codec.flowfile.problems import FlowProblem, FlowProblemCode, KeyPath, path_text
from fusiond.codec.flowfile.reading.report import Report
from fusiond.codec.flowfile.reading.source import MAX_FILE_BYTES, decode
from fusiond.codec.flowfile.rules.prompts import problems_of_prompt, template_names
from fusiond.codec.flowfile.sections.flow import FlowDraft
from fusiond.domain.digest import ContentRef, ref_of
from fusiond.domain.errors import InvalidError, NotFoundError, RefusedError, TooLargeError
from fusiond.domain.flow import AcpWork, AgentWork, Flow, Node, OutputSpec, PinnedFile, Work
from fusiond.domain.records import dataclass

MAX_SCHEMA_DEPTH = 64

Read = Callable[[str], bytes]
"""Return the bytes of a file by its workspace-relative path.

Raises NotFoundError, RefusedError, InvalidError or TooLargeError where there is no such
file to be had; anything else is a broken world and passes through.
"""


class FileRole(StrEnum):
    """What a flow names a file for."""

    POLICY = "policy"
    AGENT = "agent definition"
    PROMPT = "prompt"
    SCHEMA = "schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFile:
    """A place in the flow file that names another file."""

    key: str
    path: str
    role: FileRole
    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinning:
    """A flow with its files.

    Args:
        flow: every named file with its content, or None where there is a problem.
        problems: every problem, in the order of the flow file.
        contents: what must be stored, each content once.
    """

    flow: Flow | None
    problems: tuple[FlowProblem, ...] = ()
    contents: tuple[tuple[ContentRef, bytes], ...] = ()


def named_files(draft: FlowDraft, report: Report) -> tuple[NamedFile, ...]:
    """Return every place at which a flow names a file, in the order of the flow file.

    A draft with problems may name files too; a path that was refused is not among them.
    """
    found: list[NamedFile] = []

    def note(file: PinnedFile | None, role: FileRole, path: KeyPath) -> None:
        if file is not None and file.path:
            line, column = report.place(path)
            key = path_text(path)
            found.append(NamedFile(key=key, path=file.path, role=role, line=line, column=column))

    if isinstance(draft.policy, PinnedFile):
        note(draft.policy, FileRole.POLICY, ("policy",))
    for node in draft.nodes:
        path: KeyPath = ("nodes", node.id)
        if isinstance(node.work, AgentWork):
            note(node.work.definition, FileRole.AGENT, (*path, "agent"))
        if isinstance(node.work, AgentWork | AcpWork):
            note(node.work.prompt_file, FileRole.PROMPT, (*path, "prompt_file"))
        for output in node.outputs:
            note(output.schema, FileRole.SCHEMA, (*path, "outputs", output.name, "schema"))
    return tuple(sorted(found, key=lambda each: (each.line, each.column, each.key)))


def pin(flow: Flow, files: tuple[NamedFile, ...], read: Read) -> Pinning:
    """Read every file that a flow names, each once, and pin it.

    Args:
        flow: as `read_flow` returned it.
        files: the places that `read_flow` returned with it.
        read: see `Read`.
    """
    contents, problems = _read_all(files, tuple(each.name for each in flow.inputs), read)
    if problems:
        return Pinning(flow=None, problems=problems)
    stored = {path: data for path, data in contents.items() if isinstance(data, bytes)}
    refs = {path: ref_of(data) for path, data in stored.items()}
    kept = {refs[path].digest: (refs[path], data) for path, data in stored.items()}
    return Pinning(flow=_pinned(flow, refs), contents=tuple(kept.values()))


def check_files(files: tuple[NamedFile, ...], inputs: tuple[str, ...], read: Read) -> tuple[FlowProblem, ...]:
    """Return what is wrong with the files of a flow that has problems of its own.

    Args:
        files: the places that `read_flow` returned.
        inputs: the names of the flow's inputs, as `read_flow` returned them.
        read: see `Read`.
    """
    return _read_all(files, inputs, read)[1]


def _read_all(
    files: tuple[NamedFile, ...], inputs: tuple[str, ...], read: Read
) -> tuple[dict[str, bytes | str], tuple[FlowProblem, ...]]:
    """Return each file's bytes, or what stands in the way, and every problem."""
    names = template_names(inputs)
    contents: dict[str, bytes | str] = {}
    problems: list[FlowProblem] = []
    for file in files:
        if file.path not in contents:
            contents[file.path] = _content(file.path, read)
        problems += _problems(file, contents[file.path], names)
    return contents, tuple(dict.fromkeys(problems))


def _content(path: str, read: Read) -> bytes | str:
    """Return the bytes of a file, or what stands in the way."""
    try:
        data = read(path)
    except (NotFoundError, RefusedError, InvalidError, TooLargeError) as error:
        return error.sentence()
    return data if len(data) <= MAX_FILE_BYTES else f"{path} has {len(data)} bytes"


def _problems(file: NamedFile, content: bytes | str, names: list[str]) -> list[FlowProblem]:
    if isinstance(content, str):
        return [_problem(file, FlowProblemCode.FILE, content, "a file that can be read")]
    source, problems = decode(content, file.path)
    if source is None:
        return problems
    match file.role:
        case FileRole.PROMPT if not source.text.strip():
            return [_problem(file, FlowProblemCode.FILE_CONTENT, f"the blank file {file.path}", "a prompt")]
        case FileRole.PROMPT:
            return problems_of_prompt(source, file.path, names)
        case FileRole.SCHEMA:
            return _problems_of_schema(file, content)
        case FileRole.POLICY | FileRole.AGENT:
            return []


def _problems_of_schema(file: NamedFile, content: bytes) -> list[FlowProblem]:
    try:
        schema = parse_json(content, max_bytes=MAX_FILE_BYTES, max_depth=MAX_SCHEMA_DEPTH)
    except InvalidError as error:
        return [_problem(file, FlowProblemCode.FILE_CONTENT, f"{file.path}: {error.found}", error.expected)]
    foreign = sorted(_foreign_references(schema))
    if foreign:
        found = f"{file.path} with the reference {foreign[0]!r}"
        expected = "references within the file, such as #/$defs/name: nothing else is fetched"
        return [_problem(file, FlowProblemCode.FILE_CONTENT, found, expected)]
    fault = _fault_of_schema(schema)
    return [_problem(file, FlowProblemCode.FILE_CONTENT, f"{file.path}: {fault}", _SCHEMA)] if fault else []


_SCHEMA = "a JSON Schema of draft 2020-12"


def _foreign_references(schema: JsonValue) -> set[str]:
    match schema:
        case dict():
            inner = [_foreign_references(each) for each in schema.values()]
            named = {str(schema[key]) for key in ("$ref", "$dynamicRef") if key in schema}
            return set().union(*inner, (each for each in named if not each.startswith("#")))
        case list():
            return set().union(*(_foreign_references(each) for each in schema))
        case _:
            return set()


def _fault_of_schema(schema: JsonValue) -> str | None:
    # Imported where it is needed: it takes a quarter of a second, and most flows name no schema.
    from jsonschema import Draft202012Validator, SchemaError

    if not isinstance(schema, dict | bool):
        return "neither an object nor a truth value"
    try:
        Draft202012Validator.check_schema(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    except SchemaError as error:
        return f"{error.message[:200]} at {error.json_path}"
    return None


def _problem(file: NamedFile, code: FlowProblemCode, found: str, expected: str) -> FlowProblem:
    return FlowProblem(
        code=code, line=file.line, column=file.column, path=file.key, found=found, expected=expected
    )


def _pinned(flow: Flow, refs: dict[str, ContentRef]) -> Flow:
    nodes = tuple(_pinned_node(node, refs) for node in flow.nodes)
    return replace(flow, policy=_file(flow.policy, refs), nodes=nodes)


def _pinned_node(node: Node, refs: dict[str, ContentRef]) -> Node:
    outputs = tuple(_pinned_output(output, refs) for output in node.outputs)
    return replace(node, work=_pinned_work(node.work, refs), outputs=outputs)


def _pinned_output(output: OutputSpec, refs: dict[str, ContentRef]) -> OutputSpec:
    return replace(output, schema=_file(output.schema, refs))


def _pinned_work(work: Work, refs: dict[str, ContentRef]) -> Work:
    match work:
        case AgentWork():
            definition = PinnedFile(path=work.definition.path, content=refs[work.definition.path])
            return replace(work, definition=definition, prompt_file=_file(work.prompt_file, refs))
        case AcpWork():
            return replace(work, prompt_file=_file(work.prompt_file, refs))
        case _:
            return work


def _file(file: PinnedFile | None, refs: dict[str, ContentRef]) -> PinnedFile | None:
    return None if file is None else PinnedFile(path=file.path, content=refs[file.path])
