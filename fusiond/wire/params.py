"""Parameters of the methods: one closed record each, bounded where it is made.

Owns shape and bounds. Whether a run, a node or a file exists is for handlers.
"""

import re
from enum import StrEnum

from fusiond.domain.errors import InvalidError
from fusiond.domain.flow import RunMode
from fusiond.domain.ids import CROCKFORD, AttemptNumber, NodeId, RunId, TenantId
from fusiond.domain.records import dataclass
from fusiond.wire.limits import (
    INPUTS,
    LIST_ROWS,
    NAME_CHARS,
    PAGE_BYTES,
    PATH_BYTES,
    SEARCH_PATH_CHARS,
    STEP_ROWS,
    TEXT_CHARS,
)

LAST = "@last"
"""Names the newest run of the tenant."""

_RUN_PREFIX = re.compile(rf"[{CROCKFORD}]{{1,13}}\Z")
_WHAT = re.compile(r"[a-z][a-z0-9_-]{0,127}\Z")
_MOST = 2**63 - 1


class CodeAt(StrEnum):
    """Which frozen tree of an attempt: the one it started from, or the one it ended with."""

    START = "start"
    RESULT = "result"


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """A method without parameters, or without a result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonStopParams:
    """`drain` lets what runs reach its next recorded point first."""

    drain: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSubmitParams:
    """Start a run.

    Args:
        flow: path of the flow file, relative to the workspace or absolute.
        inputs: names and values as given on a command line.
        mode: how effects are treated.
        revision: the base, None for HEAD.
        include_dirty: take uncommitted changes along.
        tenant: None for the configured one.
        search_path: the client's PATH, so that commands find the tools its person sees.
    """

    flow: str
    inputs: tuple[tuple[str, str], ...] = ()
    mode: RunMode = RunMode.LIVE
    revision: str | None = None
    include_dirty: bool = False
    tenant: TenantId | None = None
    search_path: str = ""

    def __post_init__(self) -> None:
        _check_path("flow", self.flow)
        _check_text("search_path", self.search_path, SEARCH_PATH_CHARS, may_be_empty=True)
        if len(self.inputs) > INPUTS:
            raise InvalidError(f"{len(self.inputs)} inputs", expected=f"at most {INPUTS}")
        for name, _ in self.inputs:
            _check_text("an input's name", name, NAME_CHARS)
        if self.revision is not None:
            _check_text("revision", self.revision, NAME_CHARS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunListParams:
    """List runs, newest first."""

    tenant: TenantId | None = None
    open_only: bool = False
    limit: int = 100

    def __post_init__(self) -> None:
        _check_range("limit", self.limit, 1, LIST_ROWS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParams:
    """One run: an id, a unique prefix of one, or `@last`."""

    run: str
    tenant: TenantId | None = None

    def __post_init__(self) -> None:
        _check_run(self.run)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStepsParams:
    """Read the steps of a run after a position in its own ledger, in order."""

    run: str
    tenant: TenantId | None = None
    after_seq: int = 0
    limit: int = STEP_ROWS

    def __post_init__(self) -> None:
        _check_run(self.run)
        _check_range("after_seq", self.after_seq, 0, _MOST)
        _check_range("limit", self.limit, 1, STEP_ROWS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCancelParams:
    """Ask for the end of a run. `reason` is a person's line, for the record."""

    run: str
    tenant: TenantId | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        _check_run(self.run)
        _check_text("reason", self.reason, TEXT_CHARS, may_be_empty=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResumeParams:
    """Let a parked run go on, with limits widened by what is added."""

    run: str
    tenant: TenantId | None = None
    added_wall_clock_us: int = 0
    added_tokens: int = 0
    added_cost_uusd: int = 0
    added_tool_calls: int = 0

    def __post_init__(self) -> None:
        _check_run(self.run)
        for name in ("added_wall_clock_us", "added_tokens", "added_cost_uusd", "added_tool_calls"):
            value: int = getattr(self, name)
            _check_range(name, value, 0, _MOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogListParams:
    """List what output is kept of a run, of one node or of one attempt."""

    run: str
    tenant: TenantId | None = None
    node: NodeId | None = None
    attempt: AttemptNumber | None = None

    def __post_init__(self) -> None:
        _check_run(self.run)
        _check_attempt(self.attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPageParams:
    """Read output. `what` names it as `log.list` does: `turn-1`, `gate-unit-2`, `setup`."""

    run: str
    tenant: TenantId | None = None
    node: NodeId
    attempt: AttemptNumber
    what: str
    offset: int = 0
    limit: int = PAGE_BYTES

    def __post_init__(self) -> None:
        _check_run(self.run)
        _check_attempt(self.attempt)
        _check_what(self.what)
        _check_page(self.offset, self.limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactListParams:
    """List frozen artifacts of a run, of one node or of one attempt."""

    run: str
    tenant: TenantId | None = None
    node: NodeId | None = None
    attempt: AttemptNumber | None = None

    def __post_init__(self) -> None:
        _check_run(self.run)
        _check_attempt(self.attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactPageParams:
    """Read a frozen artifact's body. `path` is as `artifact.list` returns it."""

    run: str
    tenant: TenantId | None = None
    node: NodeId
    attempt: AttemptNumber | None = None
    path: str
    offset: int = 0
    limit: int = PAGE_BYTES

    def __post_init__(self) -> None:
        _check_run(self.run)
        _check_attempt(self.attempt)
        _check_path("path", self.path)
        _check_page(self.offset, self.limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeListParams:
    """List one directory of an attempt's frozen tree; `""` is its root."""

    run: str
    tenant: TenantId | None = None
    node: NodeId
    attempt: AttemptNumber | None = None
    at: CodeAt = CodeAt.RESULT
    path: str = ""

    def __post_init__(self) -> None:
        _check_run(self.run)
        _check_attempt(self.attempt)
        _check_path("path", self.path, may_be_empty=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodePageParams:
    """Read a file of an attempt's frozen tree."""

    run: str
    tenant: TenantId | None = None
    node: NodeId
    attempt: AttemptNumber | None = None
    at: CodeAt = CodeAt.RESULT
    path: str
    offset: int = 0
    limit: int = PAGE_BYTES

    def __post_init__(self) -> None:
        _check_run(self.run)
        _check_attempt(self.attempt)
        _check_path("path", self.path)
        _check_page(self.offset, self.limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeDiffParams:
    """Read a page of the unified diff from an attempt's start to its result, below `path`."""

    run: str
    tenant: TenantId | None = None
    node: NodeId
    attempt: AttemptNumber | None = None
    path: str = ""
    offset: int = 0
    limit: int = PAGE_BYTES

    def __post_init__(self) -> None:
        _check_run(self.run)
        _check_attempt(self.attempt)
        _check_path("path", self.path, may_be_empty=True)
        _check_page(self.offset, self.limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeParams:
    """Follow steps.

    Args:
        epoch: the ledger that `from_position` is of, None when there is none yet.
        from_position: the last position that is already known; 0 for everything.
        run: only this run's steps, by whole id.
    """

    epoch: str | None = None
    from_position: int = 0
    run: RunId | None = None

    def __post_init__(self) -> None:
        _check_range("from_position", self.from_position, 0, _MOST)
        if self.epoch is not None:
            _check_text("epoch", self.epoch, NAME_CHARS)
        if self.run is not None:
            _check_run(self.run)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsubscribeParams:
    """End a subscription of this connection."""

    subscription: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFollowParams:
    """Follow output as it is written: of a whole run, or narrowed to less.

    `from_offset` may be given only when `what` names one output.
    """

    run: str
    tenant: TenantId | None = None
    node: NodeId | None = None
    attempt: AttemptNumber | None = None
    what: str | None = None
    from_offset: int = 0

    def __post_init__(self) -> None:
        _check_run(self.run)
        _check_attempt(self.attempt)
        _check_range("from_offset", self.from_offset, 0, _MOST)
        if self.what is not None:
            _check_what(self.what)
        named = None not in {self.node, self.attempt, self.what}
        if self.from_offset and not named:
            raise InvalidError("from_offset without one output", expected="node, attempt and what beside it")


def _check_run(run: str) -> None:
    if run != LAST and not _RUN_PREFIX.match(run):
        raise InvalidError(f"{run[:40]!r} names no run", expected=f"a run id, the start of one, or {LAST}")


def _check_attempt(attempt: int | None) -> None:
    if attempt is not None:
        _check_range("attempt", attempt, 1, _MOST)


def _check_what(what: str) -> None:
    if not _WHAT.match(what):
        raise InvalidError(f"{what[:40]!r} names no output", expected="a name from log.list, such as turn-1")


def _check_page(offset: int, limit: int) -> None:
    _check_range("offset", offset, 0, _MOST)
    _check_range("limit", limit, 1, PAGE_BYTES)


def _check_range(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidError(f"{name} is {value}", expected=f"between {least} and {most}")


def _check_text(name: str, value: str, most: int, *, may_be_empty: bool = False) -> None:
    if len(value) > most or (not value and not may_be_empty) or "\0" in value:
        raise InvalidError(
            f"{name} of {len(value)} characters", expected=f"1 to {most} characters without NUL"
        )


def _check_path(name: str, value: str, *, may_be_empty: bool = False) -> None:
    size = len(value.encode(errors="surrogatepass"))
    if size > PATH_BYTES or (not value and not may_be_empty) or "\0" in value:
        raise InvalidError(f"{name} of {size} bytes", expected=f"a path of at most {PATH_BYTES} bytes")
