"""Steps as they are stored: marks, versions, the chain's hash, and golden files of every kind."""

import json
from collections.abc import Callable
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusiond.codec.canonical import canonical
from fusiond.codec.steps import (
    STEP_TAG,
    Fields,
    StoredStep,
    comparison_digest,
    decode_payload,
    encode_payload,
    marks,
    place,
    seal,
    step_hash,
    unseal,
)
from fusiond.domain.digest import ZERO, Digest, digest_bytes, digest_fields
from fusiond.domain.errors import CorruptError, InvalidError, NewerError
from fusiond.domain.steps.kinds import StepKind
from fusiond.domain.steps.record import PAYLOADS, Head, NewStep, Payload
from fusiond.domain.steps.turn import ToolReturned, TurnStarted
from tests.unit.codec import step_documents as documents
from tests.unit.codec.record_values import example_of, values_of

STORED = place(documents.RUN, documents.HEAD, documents.new_step(StepKind.TOOL_RETURNED))
TURN = encode_payload(TurnStarted(turn=3, feedback=None))


@pytest.mark.parametrize("kind", StepKind)
def test_every_field_carries_exactly_one_mark(kind: StepKind) -> None:
    compared, observed = marks(kind)
    names = [field.name for field in fields(PAYLOADS[kind])]
    assert sorted([*compared, *observed]) == sorted(names)


def test_every_kind_has_a_payload_of_its_own() -> None:
    assert set(PAYLOADS) == set(StepKind)
    assert all(payload.kind is kind for kind, payload in PAYLOADS.items())
    assert all(payload.v >= 1 for payload in PAYLOADS.values())


@pytest.mark.parametrize("kind", StepKind)
def test_stored_form_is_the_agreed_one(kind: StepKind) -> None:
    path = documents.GOLDEN / f"{kind.value}.json"
    assert path.exists(), f"no golden file {path.name}; see step_documents.py"
    assert path.read_text() == documents.document(kind)


@pytest.mark.parametrize("kind", StepKind)
def test_golden_file_reads_back_as_its_step(kind: StepKind) -> None:
    golden = json.loads((documents.GOLDEN / f"{kind.value}.json").read_text())
    payload = canonical(golden["payload"])
    step, data = documents.sealed(kind)
    assert payload == data
    assert decode_payload(golden["kind"], payload) == step.payload
    assert golden["hash"] == step.hash
    assert golden["comparison"] == comparison_digest(step.payload)


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in documents.GOLDEN.iterdir()} == {kind.value for kind in StepKind}


@pytest.mark.parametrize("payload", PAYLOADS.values())
@settings(max_examples=15)
@given(data=st.data())
def test_payload_comes_back_as_it_was(payload: type[Payload], data: st.DataObject) -> None:
    value = data.draw(values_of(payload))
    assert isinstance(value, payload)
    stored = encode_payload(value)
    assert decode_payload(payload.kind.value, stored) == value
    assert encode_payload(decode_payload(payload.kind.value, stored)) == stored


@settings(max_examples=50)
@given(values_of(NewStep), st.integers(min_value=0, max_value=2**40), st.binary(max_size=3))
def test_step_comes_back_as_it_was(new: object, seq: int, before: bytes) -> None:
    assert isinstance(new, NewStep)
    head = Head(seq=seq, hash=digest_bytes(before))
    step, payload = seal(documents.RUN, head, new)
    stored = place(documents.RUN, head, new)
    assert unseal(stored) == step
    assert stored.payload == payload
    assert (step.seq, step.prev_hash, step.hash) == (seq + 1, head.hash, step_hash(stored))


def test_first_step_follows_the_zero_hash() -> None:
    step, _ = seal(documents.RUN, Head(), documents.new_step(StepKind.RUN_STARTED))
    assert (step.seq, step.prev_hash) == (1, ZERO)


def test_hash_covers_every_column_with_its_length() -> None:
    columns = [
        b"" if each is None else each if isinstance(each, bytes) else str(each).encode() for each in STORED
    ]
    assert step_hash(STORED) == digest_fields(STEP_TAG, columns[:-1])


@pytest.mark.parametrize(
    "changed",
    [
        STORED._replace(run="01hzy3v8k00ac"),
        STORED._replace(seq=43),
        STORED._replace(kind="tool_called"),
        STORED._replace(node="buil"),
        STORED._replace(node=None),
        STORED._replace(attempt=1),
        STORED._replace(attempt=None),
        STORED._replace(payload=STORED.payload + b" "),
        STORED._replace(refs=STORED.refs[:-1]),
        STORED._replace(labels="secret"),
        STORED._replace(cost_uusd=1_251),
        STORED._replace(idempotency_key=None),
        STORED._replace(at_us=STORED.at_us + 1),
        STORED._replace(prev_hash=ZERO),
    ],
    ids=[f"change {number}" for number in range(14)],
)
def test_any_changed_column_changes_the_hash(changed: StoredStep) -> None:
    assert changed != STORED
    assert step_hash(changed) != STORED.hash


def test_bytes_moved_from_one_column_to_the_next_change_the_hash() -> None:
    moved = STORED._replace(kind=STORED.kind + "b", node=(STORED.node or "")[1:])
    assert step_hash(moved) != STORED.hash


def test_payload_is_split_by_marks() -> None:
    assert json.loads(TURN) == {"v": 1, "compared": {"turn": 3}, "observed": {"feedback": None}}
    assert TURN == b'{"compared":{"turn":3},"observed":{"feedback":null},"v":1}'


def test_comparison_ignores_what_is_only_observed() -> None:
    def digest(payload: Payload, *, at_us: int = 1) -> Digest:
        new = NewStep(payload=payload, at_us=at_us)
        step, _ = seal(documents.RUN, Head(), new)
        return comparison_digest(step.payload)

    returned = example_of(ToolReturned)
    assert isinstance(returned, ToolReturned)
    assert digest(returned) == digest(replace(returned, duration_us=1, survivors=2, output=None), at_us=2)
    assert digest(returned) != digest(replace(returned, exit_code=3))
    assert digest(TurnStarted(turn=1, feedback=None)) != digest(replace(returned, exit_code=3))


def test_unknown_kind_was_written_by_a_newer_fusion() -> None:
    with pytest.raises(NewerError, match="newer fusion"):
        decode_payload("turn_pondered", TURN)


def test_newer_version_was_written_by_a_newer_fusion() -> None:
    with pytest.raises(NewerError, match="version 2 was written by a newer fusion"):
        decode_payload("turn_started", TURN.replace(b'"v":1', b'"v":2'))


def test_unknown_label_was_written_by_a_newer_fusion() -> None:
    with pytest.raises(NewerError, match="newer fusion"):
        unseal(STORED._replace(labels="radioactive,secret"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: b"[]",
        lambda data: b"null",
        lambda data: data.replace(b'"v":1', b'"v":0'),
        lambda data: data.replace(b'"v":1', b'"v":true'),
        lambda data: data.replace(b'"v":1', b'"v":"1"'),
        lambda data: data.replace(b'"v":1', b'"v":1,"w":1'),
        lambda data: data.replace(b'{"turn":3}', b'{"turn":"3"}'),
        lambda data: data.replace(b'{"turn":3}', b'{"turn":3.0}'),
        lambda data: data.replace(b'{"turn":3}', b"{}"),
        lambda data: data.replace(b'{"turn":3}', b"[]"),
        lambda data: data.replace(b'{"turn":3}', b'{"turn":3,"mood":1}'),
        # A field that moved to the other half would be left out of every comparison.
        lambda data: b'{"compared":{},"observed":{"feedback":null,"turn":3},"v":1}',
        lambda data: b'{"compared":{"feedback":null,"turn":3},"observed":{},"v":1}',
        lambda data: b'{"compared":{"turn":3},"observed":{"feedback":{"digest":1,"size":2}},"v":1}',
    ],
    ids=[f"damage {number}" for number in range(16)],
)
def test_damaged_payload_is_never_half_read(damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(CorruptError):
        decode_payload("turn_started", damage(TURN))


@given(st.binary(max_size=80))
def test_any_bytes_are_a_payload_or_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptError):
        decode_payload("turn_started", data)


def test_older_version_is_brought_up_step_by_step() -> None:
    def from_minus_1(compared: Fields, observed: Fields) -> tuple[Fields, Fields]:
        return {"number": compared["nr"]}, observed

    def from_0(compared: Fields, observed: Fields) -> tuple[Fields, Fields]:
        return {"turn": compared["number"]}, {**observed, "feedback": None}

    upcasters = {(StepKind.TURN_STARTED, -1): from_minus_1, (StepKind.TURN_STARTED, 0): from_0}
    oldest = canonical({"v": -1, "compared": {"nr": 3}, "observed": {}})
    assert decode_payload("turn_started", oldest, upcasters) == TurnStarted(turn=3, feedback=None)
    older = canonical({"v": 0, "compared": {"number": 4}, "observed": {}})
    assert decode_payload("turn_started", older, upcasters) == TurnStarted(turn=4, feedback=None)


@pytest.mark.parametrize("turn", [1.0, True, None, "1"], ids=repr)
def test_number_that_only_looks_whole_is_not_sealed(turn: int) -> None:
    with pytest.raises(InvalidError):
        seal(documents.RUN, Head(), NewStep(payload=TurnStarted(turn=turn, feedback=None), at_us=1))


def test_stored_columns_are_named() -> None:
    assert StoredStep._fields[0] == "run"
    assert StoredStep._fields[-2:] == ("prev_hash", "hash")
