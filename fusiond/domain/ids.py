"""Identities: one type each, how they are made and how they are read back.

Owns the shape of every id in `engine.md`, table "Decided details". Owns no
clock and no randomness: both are arguments.
"""

import re
from typing import NewType

from fusiond.domain.errors import InvalidError
from fusiond.domain.records import dataclass

TenantId = NewType("TenantId", str)
RunId = NewType("RunId", str)
NodeId = NewType("NodeId", str)
OutputName = NewType("OutputName", str)
GateName = NewType("GateName", str)
AttemptNumber = NewType("AttemptNumber", int)
WorkspaceId = NewType("WorkspaceId", str)
WorkerId = NewType("WorkerId", str)
CommitId = NewType("CommitId", str)
TreeId = NewType("TreeId", str)

CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
RUN_ID_TIME_CHARS = 8
RUN_ID_RANDOM_CHARS = 5
RUN_ID_RANDOM_BITS = RUN_ID_RANDOM_CHARS * 5

_RUN_ID = re.compile(rf"[{CROCKFORD}]{{13}}\Z")
_NODE_ID = re.compile(r"[a-z][a-z0-9-]{0,39}\Z")
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}\Z")
_TENANT = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}\Z")
_OBJECT_ID = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
# 40 bits of time: 8 characters count units of 2**15 µs (33 ms) until the year 3111.
_TIME_SHIFT = 15


@dataclass(frozen=True, slots=True, order=True)
class StageId:
    """A node within one run, written `<run>.<node>`."""

    run: RunId
    node: NodeId

    def __str__(self) -> str:
        return f"{self.run}.{self.node}"


@dataclass(frozen=True, slots=True, order=True)
class AttemptId:
    """One try at a stage, numbered from 1."""

    stage: StageId
    number: AttemptNumber

    def __str__(self) -> str:
        return f"{self.stage}/{self.number}"


def make_run_id(now_us: int, random_bits: int) -> RunId:
    """Make a sortable run id.

    Args:
        now_us: UTC wall clock in microseconds.
        random_bits: 25 random bits, 0 <= random_bits < 2**25.

    Raises:
        InvalidError: an argument is out of range.
    """
    units = now_us >> _TIME_SHIFT
    if not 0 <= units < 1 << (RUN_ID_TIME_CHARS * 5):
        raise InvalidError(f"time {now_us} µs", expected="a time between 1970 and 3111")
    if not 0 <= random_bits < 1 << RUN_ID_RANDOM_BITS:
        raise InvalidError("random bits out of range", expected=f"{RUN_ID_RANDOM_BITS} bits")
    return RunId(_crockford(units, RUN_ID_TIME_CHARS) + _crockford(random_bits, RUN_ID_RANDOM_CHARS))


def _crockford(value: int, chars: int) -> str:
    return "".join(CROCKFORD[(value >> (5 * place)) & 31] for place in range(chars - 1, -1, -1))


def parse_run_id(text: str) -> RunId:
    """Return `text` as a run id, or raise InvalidError."""
    if not _RUN_ID.match(text):
        raise InvalidError(f"{text!r} is no run id", expected="13 characters of 0-9 a-z without i l o u")
    return RunId(text)


def is_node_id(text: str) -> bool:
    """Say whether `text` is a well-formed node id: `[a-z][a-z0-9-]{0,39}`."""
    return _NODE_ID.match(text) is not None


def parse_node_id(text: str) -> NodeId:
    """Return `text` as a node id, or raise InvalidError."""
    if not is_node_id(text):
        raise InvalidError(f"{text!r} is no node id", expected="[a-z][a-z0-9-]{0,39}")
    return NodeId(text)


def is_name(text: str) -> bool:
    """Say whether `text` may name an input, output, gate or dataset."""
    return _NAME.match(text) is not None


def is_tenant(text: str) -> bool:
    """Say whether `text` may name a tenant."""
    return _TENANT.match(text) is not None


def is_object_id(text: str) -> bool:
    """Say whether `text` is a full git object id (SHA-1 or SHA-256), lower case."""
    return _OBJECT_ID.match(text) is not None


def parse_attempt_number(value: int) -> AttemptNumber:
    """Return `value` as an attempt number, or raise InvalidError."""
    if value < 1:
        raise InvalidError(f"attempt {value}", expected="attempts are numbered from 1")
    return AttemptNumber(value)
