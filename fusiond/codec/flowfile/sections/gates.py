"""Sections of what judges: setup, unit gates, protected gates."""

from enum import StrEnum

from fusiond.codec.flowfile.reading.report import Report, Spot
from fusiond.codec.flowfile.shape.containers import Closed, ListOf, MapOf
from fusiond.codec.flowfile.shape.loose import ArgumentVector
from fusiond.codec.flowfile.shape.shape import Default, Either, Entries, Field, Made
from fusiond.codec.flowfile.shape.texts import COMMAND, FILE_PATH, GLOB, NAME, Flag, Word
from fusiond.codec.flowfile.shape.units import DURATION, SIZE, US_PER_SECOND
from fusiond.domain.flow import GateSpec, ProtectedGateSpec, SetupSpec
from fusiond.domain.ids import GateName

_TEN_MINUTES = Default(600 * US_PER_SECOND, "10m")
_OUTPUT_CAP = Default(64 << 20, "64MiB")

_RUN = Field("run", COMMAND, "The shell command.", required=True)
_TIMEOUT = Field("timeout", DURATION, "When it is stopped.", default=_TEN_MINUTES)
_KEY = Field(
    "key",
    ListOf(GLOB, "paths or globs", distinct=True),
    "Files whose content decides whether it must run again.",
    default=Default((), [], "once for each base"),
)
_SETUP_NETWORK = Field(
    "network",
    Flag(),
    "It may reach the network.",
    default=Default(value=True, shown=True, reason="setup fetches what builds need"),
)


def _setup(entries: Entries, _: Report) -> SetupSpec:
    return SetupSpec(
        run=entries.get(_RUN, ""),
        key=entries.get(_KEY, ()),
        network=entries.get(_SETUP_NETWORK, otherwise=True),
        timeout_us=entries.get(_TIMEOUT, 1),
    )


SETUP = Closed("a setup", (_RUN, _KEY, _SETUP_NETWORK, _TIMEOUT), _setup)

_NAME = Field("name", NAME, "How the gate is called.", required=True)
_GATE_NETWORK = Field(
    "network",
    Flag(),
    "It may reach the network.",
    default=Default(value=False, shown=False, reason="gates reach nothing unless they say so"),
)
_CAP = Field("output_cap", SIZE, "How much of its output is kept.", default=_OUTPUT_CAP)


def _gate(entries: Entries, _: Report) -> GateSpec:
    return GateSpec(
        name=GateName(entries.get(_NAME, "")),
        run=entries.get(_RUN, ""),
        timeout_us=entries.get(_TIMEOUT, 1),
        network=entries.get(_GATE_NETWORK, otherwise=False),
        output_cap_bytes=entries.get(_CAP, 1),
    )


def _short_gate(command: str, spot: Spot, report: Report) -> GateSpec:
    """Make `gate-N` of a command alone, N counted from 1 over all gates of the node."""
    number = int(spot.path[-1]) + 1
    report.explain((*spot.path, "name"), "a gate without a name is numbered")
    for each in (_TIMEOUT, _GATE_NETWORK, _CAP):
        if each.default is not None:
            report.explain((*spot.path, each.key), each.default.reason)
    return GateSpec(
        name=GateName(f"gate-{number}"),
        run=command,
        timeout_us=_TEN_MINUTES.value,
        output_cap_bytes=_OUTPUT_CAP.value,
    )


GATES = ListOf(
    Either(Made(COMMAND, _short_gate), Closed("a gate", (_NAME, _RUN, _TIMEOUT, _GATE_NETWORK, _CAP), _gate)),
    "gates",
)


class Adapter(StrEnum):
    """Whose machine report a protected gate reads."""

    PYTEST = "pytest"
    UNITTEST = "unittest"
    NODE = "node"
    GO = "go"
    JUNIT = "junit"
    NONE = "none"


class BaseOutcome(StrEnum):
    """What a protected gate must say of the base."""

    FAIL = "fail"
    PASS = "pass"


class Level(StrEnum):
    """Assurance levels that a flow may ask for, weakest first."""

    RESTORED = "restored"
    SEALED = "sealed"
    EVIDENCED = "evidenced"
    SEPARATED = "separated"


_GOOD = Field("good", FILE_PATH, "The definition of good, readable by agents.")
_SCENARIOS = Field(
    "scenarios",
    ListOf(GLOB, "globs", distinct=True),
    "Scenarios, readable by agents.",
    default=Default((), []),
)
_ARGV = Field("run", ArgumentVector(), "The judging command, as arguments.", required=True)
_INPUTS = Field(
    "inputs",
    ListOf(GLOB, "globs", least=1, distinct=True),
    "Files that decide the judgement; they are restored from the base.",
    required=True,
)
_ADAPTER = Field(
    "adapter", Word(Adapter), "Whose report it reads.", default=Default(Adapter.NONE, Adapter.NONE.value)
)
_EXPECT_BASE = Field(
    "expect_base",
    Word(BaseOutcome),
    "What it must say of the base.",
    default=Default(
        BaseOutcome.FAIL, BaseOutcome.FAIL.value, "a gate that the base passes cannot discriminate"
    ),
)
_MIN_LEVEL = Field(
    "min_level",
    Word(Level),
    "The weakest assurance that counts.",
    default=Default(Level.EVIDENCED, Level.EVIDENCED.value),
)
_GATE_SETUP = Field("setup", SETUP, "What must be built from the base first.")


def _protected_gate(entries: Entries, _: Report) -> ProtectedGateSpec:
    return ProtectedGateSpec(
        name=entries.spot.name,
        run=entries.get(_ARGV, ()),
        inputs=entries.get(_INPUTS, ()),
        good=entries.get(_GOOD),
        scenarios=entries.get(_SCENARIOS, ()),
        adapter=entries.get(_ADAPTER, Adapter.JUNIT).value,
        expect_base=entries.get(_EXPECT_BASE, BaseOutcome.FAIL).value,
        min_level=entries.get(_MIN_LEVEL, Level.RESTORED).value,
        setup=entries.get(_GATE_SETUP),
    )


PROTECTED_GATES = MapOf(
    NAME,
    Closed(
        "a protected gate",
        (_GOOD, _SCENARIOS, _ARGV, _INPUTS, _ADAPTER, _EXPECT_BASE, _MIN_LEVEL, _GATE_SETUP),
        _protected_gate,
    ),
    "protected gates",
)
