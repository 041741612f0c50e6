"""Section of what a node must produce: its output contract."""

from fusiond.codec.flowfile.problems import FlowProblemCode
from fusiond.codec.flowfile.reading.report import Report, Spot
from fusiond.codec.flowfile.shape.containers import Closed, ListOf, MapOf
from fusiond.codec.flowfile.shape.shape import Default, Either, Entries, Field, Made
from fusiond.codec.flowfile.shape.texts import (
    FILE_PATH,
    GLOB,
    MEDIA_TYPE,
    NAME,
    OUTPUT_PATH,
    POINTER,
    Flag,
    Word,
)
from fusiond.codec.flowfile.shape.units import SIZE
from fusiond.domain.flow import CompareSpec, Comparison, OutputSpec, PinnedFile
from fusiond.domain.ids import OutputName

JSON_MEDIA_TYPE = "application/json"

_IGNORE = Field(
    "ignore",
    ListOf(POINTER, "JSON pointers", distinct=True),
    "Values left out of the comparison.",
    required=True,
)
_JSON = Field(
    "json",
    Closed("a JSON comparison", (_IGNORE,), lambda entries, _: entries.get(_IGNORE, ())),
    "Compare as JSON.",
    required=True,
)


def _compare_word(word: Comparison, _: Spot, __: Report) -> CompareSpec:
    return CompareSpec(how=word)


def _compare_json(entries: Entries, _: Report) -> CompareSpec:
    return CompareSpec(how=Comparison.JSON, ignore=entries.get(_JSON, ()))


_PATH = Field("path", OUTPUT_PATH, "The one file.")
_COLLECT = Field("collect", GLOB, "A glob over files.")
_MEDIA_TYPE = Field("media_type", MEDIA_TYPE, "What the file must be.")
_MAX_SIZE = Field("max_size", SIZE, "The largest file.", default=Default(64 << 20, "64MiB"))
_SCHEMA = Field(
    "schema",
    Made(FILE_PATH, lambda path, _, __: PinnedFile(path=path)),
    "A file with the JSON Schema that the output must satisfy.",
)
_OPTIONAL = Field("optional", Flag(), "Its absence is no failure.", default=Default(value=False, shown=False))
_COMPARE: Field[CompareSpec] = Field(
    "compare",
    Either(Made(Word(Comparison), _compare_word), Closed("a comparison", (_JSON,), _compare_json)),
    "How replay compares it.",
    default=Default(CompareSpec(), Comparison.BYTES.value),
)


def _output(entries: Entries, report: Report) -> OutputSpec:
    spot = entries.spot
    media_type = entries.get(_MEDIA_TYPE)
    schema = entries.get(_SCHEMA)
    if schema is not None and report.spot((*spot.path, "media_type")) is None:
        media_type = JSON_MEDIA_TYPE
        report.explain((*spot.path, "media_type"), "a schema is for JSON")
    output = OutputSpec(
        name=OutputName(spot.name),
        path=entries.get(_PATH),
        collect=entries.get(_COLLECT),
        media_type=media_type,
        max_size_bytes=entries.get(_MAX_SIZE, 1),
        schema=schema,
        optional=entries.get(_OPTIONAL, otherwise=False),
        compare=entries.get(_COMPARE, CompareSpec()),
    )
    _check_json(output, spot, report)
    return output


def _check_json(output: OutputSpec, spot: Spot, report: Report) -> None:
    """Report what is for JSON on an output that is declared to be something else."""
    media_type = output.media_type
    if media_type is None or media_type == JSON_MEDIA_TYPE or media_type.endswith("+json"):
        return
    needs_json = {"schema": output.schema is not None, "compare": output.compare.how is Comparison.JSON}
    for key in (key for key, needed in needs_json.items() if needed):
        expected = f"{JSON_MEDIA_TYPE}, since {key}: is for JSON"
        report.at((*spot.path, "media_type"), FlowProblemCode.VALUE, f'"{media_type}"', expected)


OUTPUTS = MapOf(
    NAME,
    Closed(
        "an output",
        (_PATH, _COLLECT, _MEDIA_TYPE, _MAX_SIZE, _SCHEMA, _OPTIONAL, _COMPARE),
        _output,
        one_of=("path", "collect"),
    ),
    "outputs",
)
