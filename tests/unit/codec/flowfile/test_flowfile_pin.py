"""Pinning: each file is read once, checked for what it is named for, and replaced by its digest."""

from collections.abc import Mapping

import pytest

from fusiond.codec.flowfile.pin import Pinning, check_files, pin
from fusiond.codec.flowfile.plan_hash import plan_hash
from fusiond.codec.flowfile.reading.source import MAX_FILE_BYTES
from fusiond.codec.flowfile.render import problem_line
from fusiond.domain.digest import ref_of
from fusiond.domain.errors import FusionError, NotFoundError, RefusedError, StorageError
from fusiond.domain.flow import AcpWork, AgentWork
from fusiond.domain.plan import resolve
from tests.unit.codec.flowfile.marked import read

TEXT = """\
flow: f
policy: policy.yaml
inputs: {issue: {}}
nodes:
  a:
    agent: agent.md
    prompt_file: prompt.md
    outputs: {o: {path: o.json, schema: schema.json}}
  b:
    acp: codex
    prompt_file: prompt.md
"""
GOOD = {
    "policy.yaml": b"rules: []",
    "agent.md": b"You plan.",
    "prompt.md": b"Do {{ inputs.issue }}.",
    "schema.json": b'{"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}',
}


class Files:
    """A directory of files that counts how often each is read."""

    def __init__(self, contents: Mapping[str, bytes | FusionError]) -> None:
        self.contents = contents
        self.reads: list[str] = []

    def read(self, path: str) -> bytes:
        """Return a file, or raise what stands in its place."""
        self.reads.append(path)
        found = self.contents.get(path, NotFoundError(f"no file {path}", cure="create it"))
        if isinstance(found, FusionError):
            raise found
        return found


def pinned(files: Files, text: str = TEXT) -> Pinning:
    """Pin a flow that has no problem by itself."""
    reading = read(text)
    assert reading.flow is not None
    return pin(reading.flow, reading.files, files.read)


def lines(contents: Mapping[str, bytes | FusionError]) -> list[str]:
    """Return the problems of a flow whose files are the good ones but for these."""
    result = pinned(Files({**GOOD, **contents}))
    assert result.flow is None
    assert result.contents == ()
    return [problem_line(problem, "f.yaml") for problem in result.problems]


def test_every_file_is_read_once_and_pinned_wherever_it_is_named() -> None:
    files = Files(GOOD)
    result = pinned(files)
    assert sorted(files.reads) == sorted(GOOD)
    assert result.flow is not None
    first, second = result.flow.nodes
    assert isinstance(first.work, AgentWork)
    assert isinstance(second.work, AcpWork)
    assert first.work.definition.content == ref_of(GOOD["agent.md"])
    assert first.work.prompt_file == second.work.prompt_file
    assert first.outputs[0].schema is not None
    assert first.outputs[0].schema.content == ref_of(GOOD["schema.json"])
    assert result.flow.policy is not None
    assert result.flow.policy.content == ref_of(GOOD["policy.yaml"])


def test_contents_are_returned_for_storage_each_once() -> None:
    result = pinned(Files({**GOOD, "agent.md": GOOD["prompt.md"]}))
    assert {ref.digest: data for ref, data in result.contents} == {
        ref_of(data).digest: data for data in GOOD.values() if data != GOOD["agent.md"]
    }
    assert len(result.contents) == 3
    assert all(ref_of(data) == ref for ref, data in result.contents)


def test_the_plan_hash_covers_the_bytes_of_files() -> None:
    hashes = set()
    for agent in (b"one", b"two"):
        flow = pinned(Files({**GOOD, "agent.md": agent})).flow
        assert flow is not None
        hashes.add(plan_hash(resolve(flow)))
    assert len(hashes) == 2


def test_a_missing_file_is_reported_wherever_it_is_named() -> None:
    files = Files({name: data for name, data in GOOD.items() if name != "prompt.md"})
    result = pinned(files)
    assert [(each.line, each.column, each.path) for each in result.problems] == [
        (7, 18, "nodes.a.prompt_file"),
        (11, 18, "nodes.b.prompt_file"),
    ]
    assert files.reads.count("prompt.md") == 1
    line = problem_line(result.problems[0], "f.yaml")
    assert line == (
        "f.yaml:7:18: nodes.a.prompt_file: found no file prompt.md; create it, expected a file that can be read"
    )


@pytest.mark.parametrize(
    "contents,expected",
    [
        ({"agent.md": RefusedError("agent.md is a symbolic link")}, ["f.yaml:6:12: nodes.a.agent: found agent.md is a symbolic link"]),
        ({"agent.md": b"x" * (MAX_FILE_BYTES + 1)}, ["f.yaml:6:12: nodes.a.agent: found agent.md has 1048577 bytes"]),
        ({"policy.yaml": b"a\nb\xff"}, ["policy.yaml:2:2: found byte 0xff, which is not UTF-8"]),
        ({"agent.md": b"a\x00"}, ["agent.md:1:2: found the control character U+0000"]),
        ({"prompt.md": b" \n"}, ["nodes.a.prompt_file: found the blank file prompt.md", "nodes.b.prompt_file"]),
        ({"prompt.md": b"one\ntwo {{ inputs.isue }}"}, ['prompt.md:2:5: found the template "inputs.isue"']),
        ({"prompt.md": b"{{ x"}, ["prompt.md:1:1: found the malformed template"]),
        ({"schema.json": b"{"}, ["f.yaml:8:41: nodes.a.outputs.o.schema: found schema.json: not JSON"]),
        ({"schema.json": b"[]"}, ["neither an object nor a truth value"]),
        ({"schema.json": b'{"type": "thing"}'}, ["expected a JSON Schema of draft 2020-12"]),
        ({"schema.json": b'{"pattern": "("}'}, ["is not a 'regex'"]),
        ({"schema.json": b'{"items": [{"$ref": "https://example.com/x"}]}'}, ["nothing else is fetched"]),
        ({"schema.json": b"[" * 100}, ["nested too deeply"]),
    ],
    ids=lambda value: "" if isinstance(value, list) else next(iter(value)) + str(next(iter(value.values())))[:24],
)  # fmt: skip
def test_a_file_must_be_what_it_is_named_for(
    contents: Mapping[str, bytes | FusionError], expected: list[str]
) -> None:
    found = lines(contents)
    assert len(found) == len(expected)
    for line, part in zip(found, expected, strict=True):
        assert part in line


def test_files_of_a_flow_with_problems_are_checked_too() -> None:
    reading = read(TEXT.replace("flow: f", "flow: F").replace("agent: agent.md", "agent: /agent.md"))
    assert reading.flow is None
    assert [file.path for file in reading.files] == ["policy.yaml", "prompt.md", "schema.json", "prompt.md"]
    files = Files({**GOOD, "policy.yaml": b"\xff", "prompt.md": b"{{ inputs.issue }} {{ x }}"})
    problems = check_files(reading.files, reading.inputs, files.read)
    assert [(problem.file, problem.code.value) for problem in problems] == [
        ("policy.yaml", "encoding"),
        ("prompt.md", "template"),
    ]


def test_a_line_separator_is_text_in_a_prompt() -> None:
    assert pinned(Files({**GOOD, "prompt.md": "a\u2028b".encode()})).flow is not None


def test_a_broken_disk_is_no_problem_of_the_flow() -> None:
    with pytest.raises(StorageError):
        pinned(Files({**GOOD, "agent.md": StorageError("input/output error")}))


def test_a_flow_without_files_reads_nothing() -> None:
    files = Files({})
    text = "flow: f\nnodes: {a: {run: 'true'}}\n"
    assert pinned(files, text).flow == read(text).flow
    assert files.reads == []
