"""Sections of what a flow is given: inputs, datasets, toolchains."""

from fusiond.codec.flowfile.reading.report import Report
from fusiond.codec.flowfile.shape.containers import Closed, MapOf
from fusiond.codec.flowfile.shape.loose import AnyValue, JsonText
from fusiond.codec.flowfile.shape.shape import Default, Entries, Field, Made, Shape
from fusiond.codec.flowfile.shape.texts import FILE_PATH, NAME, VALUE, VERSION, VERSION_RANGE, Flag, Word
from fusiond.domain.flow import Dataset, DatasetState, FlowInput, InputType, Toolchain

_TYPE = Field(
    "type",
    Word(InputType),
    "What the value is: text, a file of the workspace, or JSON.",
    default=Default(InputType.TEXT, InputType.TEXT.value, "inputs are text"),
)
_OPTIONAL = Field(
    "optional", Flag(), "The flow may run without it.", default=Default(value=False, shown=False)
)
_DEFAULT = Field("default", AnyValue(), "The value where none is given: text, a path, or any JSON, by type.")

_DEFAULTS: dict[InputType, Shape[str]] = {
    InputType.TEXT: VALUE,
    InputType.FILE: FILE_PATH,
    InputType.JSON: JsonText("any JSON value"),
}


def _flow_input(entries: Entries, report: Report) -> FlowInput:
    kind = entries.get(_TYPE, InputType.TEXT)
    spot = entries.get(_DEFAULT)
    return FlowInput(
        name=entries.spot.name,
        type=kind,
        optional=entries.get(_OPTIONAL, otherwise=False),
        default=None if spot is None else _DEFAULTS[kind].read(spot, report),
    )


INPUTS = MapOf(NAME, Closed("an input", (_TYPE, _OPTIONAL, _DEFAULT), _flow_input), "inputs")

_PATH = Field("path", FILE_PATH, "The file or directory, relative to the workspace.", required=True)
_VERSION = Field("version", VERSION, "The version that its owner gives it.", required=True)
_STATE = Field("state", Word(DatasetState), "Where it is in its life.", required=True)


def _dataset(entries: Entries, _: Report) -> Dataset:
    return Dataset(
        name=entries.spot.name,
        path=entries.get(_PATH, ""),
        version=entries.get(_VERSION, ""),
        state=entries.get(_STATE, DatasetState.EXPERIMENTAL),
    )


DATASETS = MapOf(NAME, Closed("a dataset", (_PATH, _VERSION, _STATE), _dataset), "datasets")

TOOLCHAINS = MapOf(
    NAME,
    Made(VERSION_RANGE, lambda version, spot, _: Toolchain(name=spot.name, version=version)),
    "toolchains",
)
