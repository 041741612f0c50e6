"""JSON Schema verdicts on JSON artifacts.

Owns the use of the validator: nothing is fetched, whatever a schema refers to,
and a schema that cannot be used is a problem of its own, never an exception.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from fusiond.codec.canonical import JsonValue, parse_json
from fusiond.domain.errors import InvalidError, TooLargeError
from fusiond.domain.flow import OutputSpec
from fusiond.domain.ids import OutputName

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

MAX_SCHEMA_BYTES = 1024 * 1024
MAX_SCHEMA_DEPTH = 128
MAX_VIOLATIONS = 20


class Schemas:
    """The schemas of one contract, each prepared once, when it is first needed."""

    def __init__(self, contract: Sequence[OutputSpec], documents: Mapping[OutputName, bytes]) -> None:
        """Take the documents by output.

        Raises:
            InvalidError: an output declares a schema whose document was not given.
        """
        for spec in contract:
            if spec.schema is not None and spec.name not in documents:
                raise InvalidError(f"no schema document for output {spec.name!r}", expected=spec.schema.path)
        self._schemas = {output: _Schema(document) for output, document in documents.items()}

    def asks_about(self, output: OutputName | None) -> bool:
        """Say whether an output has a schema."""
        return output in self._schemas

    def problems(self, output: OutputName, value: JsonValue) -> tuple[str, ...]:
        """Return the violations of an output's schema, at most MAX_VIOLATIONS, each with its place."""
        return self._schemas[output].problems(value)


class _Schema:
    def __init__(self, document: bytes) -> None:
        self._document = document

    def problems(self, value: JsonValue) -> tuple[str, ...]:
        from referencing.exceptions import Unresolvable

        validator = self._validator
        if isinstance(validator, str):
            return (validator,)
        try:
            return tuple(islice(_violations(validator, value), MAX_VIOLATIONS))
        except Unresolvable as error:
            return (f"the schema refers to {error.ref!r}, which is not in it",)
        except RecursionError:
            return ("the schema refers to itself without end",)

    @cached_property
    def _validator(self) -> "Validator | str":
        # Importing the validator takes longer than freezing most attempts.
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import Draft202012Validator, validator_for
        from referencing import Registry

        try:
            schema = parse_json(self._document, max_bytes=MAX_SCHEMA_BYTES, max_depth=MAX_SCHEMA_DEPTH)
        except (InvalidError, TooLargeError) as error:
            return f"the schema cannot be read: {error.found}"
        if not isinstance(schema, dict):
            return "the schema is no object"
        kind = validator_for(schema, default=Draft202012Validator)
        try:
            kind.check_schema(schema)
        except SchemaError as error:
            return f"the schema itself is not valid: {error.json_path}: {error.message}"
        # An empty registry: a reference to elsewhere is an error, not a download.
        return kind(schema, registry=Registry())


def _violations(validator: "Validator", value: JsonValue) -> Iterator[str]:
    for error in validator.iter_errors(value):
        yield f"{error.json_path}: {error.message}"
