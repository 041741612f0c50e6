"""JSON Schema verdicts: violations with their place, nothing fetched, nothing raised."""

import json

import pytest

from fusiond.codec.canonical import JsonValue
from fusiond.domain.errors import InvalidError
from fusiond.domain.ids import OutputName
from fusiond.snapshots.schemas import MAX_VIOLATIONS, Schemas
from tests.fakes.freezing import output

REPORT = OutputName("report")
CONTRACT = (output("report", "report.json", schema=True),)


def problems(schema: object, value: JsonValue) -> tuple[str, ...]:
    document = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    return Schemas(CONTRACT, {REPORT: document}).problems(REPORT, value)


def test_a_value_that_fits() -> None:
    assert problems({"type": "object", "required": ["a"]}, {"a": 1}) == ()


def test_each_violation_has_its_place() -> None:
    schema = {"properties": {"a": {"type": "integer"}, "b": {"items": {"maximum": 2}}}}
    assert problems(schema, {"a": "x", "b": [1, 3]}) == (
        "$.a: 'x' is not of type 'integer'",
        "$.b[1]: 3 is greater than the maximum of 2",
    )


def test_the_number_of_violations_is_bounded() -> None:
    assert len(problems({"items": {"type": "string"}}, list(range(100)))) == MAX_VIOLATIONS


def test_references_inside_the_schema_are_followed() -> None:
    schema = {"$defs": {"n": {"type": "integer"}}, "$ref": "#/$defs/n"}
    assert problems(schema, 1) == ()
    assert problems(schema, "x")


@pytest.mark.parametrize(
    "schema,found",
    [
        (b"{", "cannot be read"),
        (b"[]", "no object"),
        ({"type": "nonsense"}, "not valid"),
        ({"$ref": "https://example.invalid/schema.json"}, "not in it"),
        ({"$ref": "#/missing"}, "not in it"),
        ({"$ref": "#"}, "without end"),
        ({"pattern": "("}, "not valid"),
    ],
)
def test_a_schema_that_cannot_be_used_is_a_problem(schema: object, found: str) -> None:
    told = problems(schema, "value")
    assert len(told) == 1
    assert found in told[0]


def test_a_declared_schema_must_be_given() -> None:
    with pytest.raises(InvalidError, match="report"):
        Schemas(CONTRACT, {})


def test_only_outputs_with_a_schema_are_asked_about() -> None:
    schemas = Schemas(CONTRACT, {REPORT: b"{}"})
    assert schemas.asks_about(REPORT)
    assert not schemas.asks_about(OutputName("other"))
    assert not schemas.asks_about(None)
