"""The JSON Schema: what the reader accepts is valid, what is not valid the reader refuses."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from fusiond.codec.canonical import JsonValue
from fusiond.codec.flowfile.reading.compose import compose
from fusiond.codec.flowfile.reading.report import Report, Spot
from fusiond.codec.flowfile.reading.source import source_of
from fusiond.codec.flowfile.schema import flow_schema, flow_schema_text
from fusiond.codec.flowfile.sections.flow import FLOW
from fusiond.codec.flowfile.shape.loose import JsonText
from fusiond.codec.flowfile.shape.shape import JsonSchema
from tests.unit.codec.flowfile.broken_nodes import BROKEN_NODES
from tests.unit.codec.flowfile.broken_sections import BROKEN_SECTIONS
from tests.unit.codec.flowfile.flow_files import Document, documents
from tests.unit.codec.flowfile.marked import marked, read

FLOWS = Path(__file__).parents[3] / "golden" / "flows"
VALIDATOR = Draft202012Validator(json.loads(flow_schema_text()))
# What a schema can see: a value by itself. Names that name nothing, cycles, collisions, limits
# of one value against another are the reader's alone.
SEEN = {"missing_key", "unknown_key", "type", "name", "not_for_kind", "rerun_limit"}
# JSON has one kind of number, and the shape of an input's default depends on its type.
UNSEEN = {"count as decimal", "default of text as number"}


def as_json(text: str) -> object:
    """Return a YAML text as the values that an editor's validator would see."""
    report = Report(source_of(text))
    top = compose(report)
    assert top is not None
    written = JsonText("any JSON value").read(Spot(path=(), key=0, node=top), report)
    assert written is not None
    return json.loads(written)


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(json.loads(flow_schema_text()))


@pytest.mark.parametrize("name", ["smallest", "full", "smallest.explained", "full.explained"])
def test_golden_flows_are_valid(name: str) -> None:
    found = [error.message for error in VALIDATOR.iter_errors(as_json((FLOWS / f"{name}.yaml").read_text()))]
    assert found == []


@given(documents())
@settings(max_examples=15)
def test_what_the_reader_accepts_is_valid(document: Document) -> None:
    assert read(json.dumps(document)).flow is not None
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []


VISIBLE = [
    pytest.param(case[1], id=case[0])
    for case in (*BROKEN_SECTIONS, *BROKEN_NODES)
    if {code for code, _ in case[2]} <= SEEN and case[0] not in UNSEEN
]


@pytest.mark.parametrize("text", VISIBLE)
def test_what_a_schema_can_see_it_refuses(text: str) -> None:
    assert not VALIDATOR.is_valid(as_json(marked(text).text))


def closed_maps(schema: JsonValue) -> list[JsonSchema]:
    """Return every object schema with named properties."""
    match schema:
        case dict():
            inner = [each for value in schema.values() for each in closed_maps(value)]
            return [schema, *inner] if "properties" in schema and schema.get("type") == "object" else inner
        case list():
            return [each for value in schema for each in closed_maps(value)]
        case _:
            return []


def test_every_map_with_known_keys_is_closed_and_described() -> None:
    maps = closed_maps(flow_schema())
    assert len(maps) > 20
    for each in maps:
        assert each["additionalProperties"] is False
        properties = each["properties"]
        assert isinstance(properties, dict)
        assert all(isinstance(value, dict) and value["description"] for value in properties.values())


def test_defaults_in_the_schema_read_as_the_defaults() -> None:
    """A default is stated twice, as a value and as an editor shows it; both must mean the same."""
    checked = 0
    for each in FLOW.fields:
        if each.default is not None:
            text = f"{each.key}: {json.dumps(each.default.shown)}"
            report = Report(source_of(text))
            top = compose(report)
            assert top is not None
            value = each.shape.read(Spot(path=(), key=0, node=top.entries[0][1]), report)  # type: ignore[union-attr]
            assert value == each.default.value
            checked += 1
    assert checked >= 2
