"""Steps to stored bytes and back, and the hash that chains them.

Owns the split of a payload into what replay compares and what it only
observes, the versions of payloads, and the fields that a step's hash covers
(`engine.md`, Ledger). Owns no storage.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import NamedTuple, get_type_hints

import orjson

from fusiond.codec.canonical import JsonValue, canonical_record
from fusiond.codec.records import prepare, structure, unstructure
from fusiond.domain.digest import Digest, digest_fields
from fusiond.domain.errors import CorruptError, InvalidError, NewerError
from fusiond.domain.ids import AttemptNumber, NodeId, RunId
from fusiond.domain.labels import NONE, Label, Labels
from fusiond.domain.steps.kinds import FieldMark, StepKind
from fusiond.domain.steps.record import PAYLOADS, Head, NewStep, Payload, Step

STEP_TAG = "fusion.step.v1"
COMPARED_TAG = "fusion.step.compared.v1"

_PARTS = frozenset({"v", "compared", "observed"})

Fields = dict[str, JsonValue]
Upcaster = Callable[[Fields, Fields], tuple[Fields, Fields]]

Upcasters = Mapping[tuple[StepKind, int], Upcaster]

UPCASTERS: Upcasters = {}
"""By kind and old version `v`: turns the (compared, observed) fields of `v` into those of `v` + 1."""


class StoredStep(NamedTuple):
    """A step in the values that are stored and hashed, as they are.

    `refs` are hex digests and `labels` are sorted words, both joined by commas;
    `at_us` is UTC.
    """

    run: str
    seq: int
    kind: str
    node: str | None
    attempt: int | None
    payload: bytes
    refs: str
    labels: str
    cost_uusd: int
    idempotency_key: str | None
    at_us: int
    prev_hash: str
    hash: str


class Marks(NamedTuple):
    """The field names of a payload: each in exactly one of the two."""

    compared: frozenset[str]
    observed: frozenset[str]


def prepare_payloads() -> None:
    """Make what reads and writes payloads of every kind now: their first uses would take 100 ms together."""
    for kind, payload in PAYLOADS.items():
        marks(kind)
        prepare(payload)


@cache
def marks(kind: StepKind) -> Marks:
    """Return which fields of a kind's payload replay compares and which it only observes.

    Raises:
        TypeError: a field carries no mark, or more than one.
    """
    payload = PAYLOADS[kind]
    by_mark: dict[bool, set[str]] = {True: set(), False: set()}
    hints = get_type_hints(payload, include_extras=True)
    for name in (each.name for each in fields(payload)):
        found = [each for each in getattr(hints[name], "__metadata__", ()) if isinstance(each, FieldMark)]
        if len(found) != 1:
            raise TypeError(f"{payload.__name__}.{name} carries {len(found)} marks; exactly one is needed")
        by_mark[found[0].compared].add(name)
    return Marks(frozenset(by_mark[True]), frozenset(by_mark[False]))


def encode_payload(payload: Payload) -> bytes:
    """Return the canonical bytes `{"compared": …, "observed": …, "v": …}`."""
    values = unstructure(payload)
    compared, observed = marks(payload.kind)
    return canonical_record(
        {
            "v": payload.v,
            "compared": {name: values[name] for name in compared},
            "observed": {name: values[name] for name in observed},
        }
    )


def decode_payload(kind: str, data: bytes, upcasters: Upcasters = UPCASTERS) -> Payload:
    """Return the payload of stored bytes, brought up to the version this Fusion writes.

    Raises:
        NewerError: the kind is unknown or its version is newer.
        CorruptError: the bytes are no payload of that kind.
    """
    record = _record(kind)
    version, compared, observed = _parts(kind, data)
    if version > record.v:
        raise _newer(f"step {kind!r} in version {version}", f"version {record.v} or older")
    while version < record.v:
        upcast = upcasters.get((record.kind, version))
        if upcast is None:
            raise CorruptError(f"the payload of a {kind!r} step has version {version}, which never was")
        compared, observed = upcast(compared, observed)
        version += 1
    expected = marks(record.kind)
    if compared.keys() != expected.compared or observed.keys() != expected.observed:
        raise CorruptError(f"the payload of a {kind!r} step has other fields than its kind")
    try:
        return structure(record, {**compared, **observed}, strict=True)
    except InvalidError as error:
        raise CorruptError(
            f"the payload of a {kind!r} step: {error.found}", expected=error.expected
        ) from error


def _record(kind: str) -> type[Payload]:
    try:
        return PAYLOADS[StepKind(kind)]
    except ValueError:
        raise _newer(f"step kind {kind[:80]!r}", "a kind that this Fusion knows") from None


def _newer(found: str, expected: str) -> NewerError:
    return NewerError(
        f"{found} was written by a newer fusion", expected=expected, cure="upgrade fusion to read this run"
    )


def _parts(kind: str, data: bytes) -> tuple[int, Fields, Fields]:
    try:
        parts = orjson.loads(data)
    except orjson.JSONDecodeError:
        parts = None
    if isinstance(parts, dict) and parts.keys() == _PARTS:
        version, compared, observed = parts["v"], parts["compared"], parts["observed"]
        if type(version) is int and isinstance(compared, dict) and isinstance(observed, dict):
            return version, compared, observed
    raise CorruptError(
        f"the payload of a {kind!r} step is unreadable", expected="an object of v, compared and observed"
    )


def seal(run: RunId, head: Head, new: NewStep) -> tuple[Step, bytes]:
    """Give a step its place after `head`; return it with its payload's stored bytes.

    Raises:
        InvalidError: a value that has no canonical form.
    """
    stored = place(run, head, new)
    return placed(new, stored), stored.payload


def place(run: RunId, head: Head, new: NewStep) -> StoredStep:
    """Return the stored form of the step that follows `head`; errors as in `seal`."""
    values = (
        run,
        head.seq + 1,
        new.payload.kind._value_,
        new.node,
        new.attempt,
        encode_payload(new.payload),
        ",".join(new.refs),
        ",".join(sorted(new.labels)) if new.labels else "",
        new.cost_uusd,
        new.idempotency_key,
        new.at_us,
        head.hash,
    )
    return StoredStep(*values, _hash(values))


def placed(new: NewStep, stored: StoredStep) -> Step:
    """Return `new` as the step that `stored` made of it."""
    return Step(
        run=RunId(stored.run),
        seq=stored.seq,
        node=new.node,
        attempt=new.attempt,
        payload=new.payload,
        at_us=new.at_us,
        refs=new.refs,
        labels=new.labels,
        cost_uusd=new.cost_uusd,
        idempotency_key=new.idempotency_key,
        prev_hash=Digest(stored.prev_hash),
        hash=Digest(stored.hash),
    )


def step_hash(stored: StoredStep) -> Digest:
    """Return the hash over the stored values as they are, `hash` itself apart."""
    return _hash(stored[:-1])


def _hash(values: tuple[str | int | bytes | None, ...]) -> Digest:
    # None and the empty string share their bytes; storage lets no column hold both.
    return digest_fields(
        STEP_TAG,
        [
            value.encode() if type(value) is str else b"" if value is None else _bytes(value)
            for value in values
        ],
    )


def _bytes(value: str | int | bytes) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def unseal(stored: StoredStep) -> Step:
    """Return the step of stored values whose hash the caller has checked.

    Raises:
        NewerError: written by a newer Fusion.
        CorruptError: the payload or a label is unreadable.
    """
    return Step(
        run=RunId(stored.run),
        seq=stored.seq,
        node=None if stored.node is None else NodeId(stored.node),
        attempt=None if stored.attempt is None else AttemptNumber(stored.attempt),
        payload=decode_payload(stored.kind, stored.payload),
        at_us=stored.at_us,
        refs=tuple(Digest(each) for each in stored.refs.split(",")) if stored.refs else (),
        labels=_labels(stored.labels) if stored.labels else NONE,
        cost_uusd=stored.cost_uusd,
        idempotency_key=None if stored.idempotency_key is None else Digest(stored.idempotency_key),
        prev_hash=Digest(stored.prev_hash),
        hash=Digest(stored.hash),
    )


def _labels(text: str) -> Labels:
    try:
        return frozenset(Label(each) for each in text.split(","))
    except ValueError:
        raise _newer(f"a step with labels {text[:80]!r}", "labels that this Fusion knows") from None


def comparison_digest(payload: Payload) -> Digest:
    """Return the digest over what replay compares of a payload: its kind, version and `compared` fields.

    Stage, times and position are not in it; who compares adds the stage (`evidence.md`, Replay).
    """
    values = unstructure(payload)
    compared = {name: values[name] for name in marks(payload.kind).compared}
    return digest_fields(COMPARED_TAG, (payload.kind.encode(), b"%d" % payload.v, canonical_record(compared)))
