"""Records and plain values: there and back for every type, closed where strict, exact always."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusiond.codec.canonical import JsonValue, canonical, parse_json
from fusiond.codec.records import TAG, structure, unstructure
from fusiond.domain.artifacts import FrozenArtifact, Manifest
from fusiond.domain.digest import ContentRef, Digest
from fusiond.domain.errors import InvalidError
from fusiond.domain.flow import (
    AcpWork,
    AgentWork,
    ApprovalWork,
    CodeAccess,
    Flow,
    Node,
    NodeKind,
    PinnedFile,
    ProtectedWork,
    ResolvedFlow,
    RunWork,
)
from fusiond.domain.ids import NodeId, RunId, WorkerId
from fusiond.domain.labels import Label
from fusiond.domain.launch import LaunchResult, LaunchSpec
from fusiond.domain.leases import Lease
from fusiond.domain.steps.record import PAYLOADS, Head, NewStep, Payload, Step
from fusiond.domain.steps.turn import Amounts, LabelsAdded, OutputRef, ToolReturned
from fusiond.domain.verification import VerificationPolicy, VerificationResult
from tests.unit.codec.record_values import example_of, values_of
from tests.unit.codec.step_documents import sealed

RECORDS = [
    *PAYLOADS.values(),
    FrozenArtifact,
    Flow,
    Head,
    LaunchResult,
    LaunchSpec,
    Lease,
    Manifest,
    NewStep,
    ResolvedFlow,
    Step,
    VerificationPolicy,
    VerificationResult,
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """A record with what no record of the domain has: bytes, mappings, text of its own opinion."""

    data: bytes
    sizes: Mapping[str, int]
    lease: Lease | None = None
    either: "Cat | Dog | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cat:
    """One half of a union."""

    kind: ClassVar[str] = "cat"
    lives: int = 9

    def __post_init__(self) -> None:
        if self.lives < 0:
            raise InvalidError("no lives left", expected="some")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dog:
    """The other half of a union."""

    kind: ClassVar[str] = "dog"
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Untagged:
    """A record that cannot be in a union: nothing says which one it is."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ambiguous:
    """A union that could not be read back."""

    either: Untagged | Dog


LEASE: dict[str, object] = {"run": "r", "node": "n", "owner": "w", "epoch": 1, "expires_us": 5}


def problems(record: type, value: object, *, strict: bool = True) -> list[str]:
    """Return what reading `value` says is wrong."""
    with pytest.raises(InvalidError) as caught:
        structure(record, value, strict=strict)
    return caught.value.fields["problems"].splitlines()


@pytest.mark.parametrize("record", RECORDS)
@settings(max_examples=15)
@given(data=st.data())
def test_record_comes_back_as_it_was(record: type, data: st.DataObject) -> None:
    value = data.draw(values_of(record))
    plain = unstructure(value)
    assert read(record, plain) == value
    assert read(record, {**plain, "from_tomorrow": 1}, strict=False) == value
    text = canonical(plain)
    assert read(record, parse_json(text, max_bytes=len(text), max_depth=64)) == value


def read(record: type, value: object, *, strict: bool = True) -> object:
    """Return what `structure` makes of a value."""
    return structure(record, value, strict=strict)


def test_plain_value_holds_every_field_in_order() -> None:
    plain = unstructure(OutputRef(content=ContentRef(digest=Digest("d"), size=3), total_bytes=9, hole=(1, 6)))
    assert plain == {"content": {"digest": "d", "size": 3}, "total_bytes": 9, "hole": [1, 6]}
    assert list(plain) == ["content", "total_bytes", "hole"]
    assert list(unstructure(Head())) == ["seq", "hash"]


def test_plain_values_are_plain() -> None:
    step, _ = sealed(ToolReturned.kind)
    assert set(map(type, leaves(unstructure(step)))) <= {str, int, bool, type(None)}


def leaves(value: object) -> Iterator[object]:
    """Return every scalar in a plain value."""
    if isinstance(value, dict):
        for each in value.values():
            yield from leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from leaves(each)
    else:
        yield value


def test_sets_are_sorted() -> None:
    plain = unstructure(LabelsAdded(labels=frozenset(Label), origin="tool"))
    assert plain["labels"] == ["personal", "secret", "untrusted"]


def test_strict_reading_refuses_a_field_that_it_does_not_know() -> None:
    value = {"content": {"digest": "d", "size": 1, "colour": "red"}, "total_bytes": 1, "hole": None}
    assert problems(OutputRef, value) == ["unknown fields colour @ $.content"]
    assert structure(OutputRef, value, strict=False).content.size == 1


def test_every_problem_is_named_with_its_path() -> None:
    value = {
        "outputs": [],
        "call": "1",
        "outcome": "fine",
        "output": {"content": {"digest": 3}, "total_bytes": True, "hole": [1]},
    }
    assert problems(ToolReturned, value, strict=False) == [
        "'1' is not an int @ $.call",
        "'fine' is not one of cancelled, failed, ok @ $.outcome",
        "3 is not a str @ $.output.content.digest",
        "required field missing @ $.output.content.size",
        "True is not an int @ $.output.total_bytes",
        "a list is not a list of 2 items @ $.output.hole",
    ]


def test_problem_inside_a_list_names_its_place() -> None:
    entry = unstructure(FrozenArtifact(output=None, path="p", media_type="m", size=1, digest=Digest("d")))
    value = {"entries": [entry, {**entry, "size": None}], "recorded_by": "agent"}
    (problem,) = [each for each in problems(Manifest, value, strict=False) if "size" in each]
    assert problem == "None is not an int @ $.entries[1].size"


@pytest.mark.parametrize("value", [None, 1, "x", [], [("seq", 1)], (), b"{}", 1.5], ids=repr)
@pytest.mark.parametrize("record", [Head, Amounts, Step])
def test_what_is_no_mapping_is_no_record(record: type, value: object) -> None:
    """Also for a record whose fields all have defaults."""
    (problem,) = problems(record, value)
    assert f"is not a mapping of {record.__name__}" in problem


@pytest.mark.parametrize("wrong", ["1", 1.0, True, None, b"1", [1], {"a": 1}], ids=repr)
def test_nothing_is_converted_to_an_integer(wrong: object) -> None:
    assert problems(Lease, {**LEASE, "epoch": wrong})


@pytest.mark.parametrize("wrong", [1, True, None, b"r", ["r"], 1.0], ids=repr)
def test_nothing_is_converted_to_text(wrong: object) -> None:
    assert problems(Lease, {**LEASE, "run": wrong})


@pytest.mark.parametrize("wrong", ["ab", {"a": 1}, None, 1, b"ab"], ids=repr)
def test_only_a_list_is_a_tuple(wrong: object) -> None:
    assert problems(LabelsAdded, {"labels": wrong, "origin": ""})
    assert problems(VerificationPolicy, {"fail_on": wrong})


@pytest.mark.parametrize("record", PAYLOADS.values())
@settings(max_examples=15)
@given(data=st.data())
def test_any_damage_to_a_payload_is_named_or_harmless(record: type[Payload], data: st.DataObject) -> None:
    """Whatever stands in a field: InvalidError with a path, or a record that writes the same value."""
    plain = unstructure(example_of(record))
    name = data.draw(st.sampled_from([field.name for field in fields(record)]))
    damage: object = data.draw(
        st.none() | st.booleans() | st.integers() | st.text() | st.floats() | st.just([]) | st.just({"x": 1})
    )
    damaged = {**plain, name: damage}
    try:
        value = structure(record, damaged, strict=True)
    except InvalidError as error:
        assert f"$.{name}" in error.fields["problems"]  # noqa: PT017  one of two good ends
    else:
        assert unstructure(value) == damaged


@pytest.mark.parametrize("number", [1.0, True, "1", None], ids=repr)
def test_number_that_only_looks_whole_is_not_written(number: int) -> None:
    """It would be hashed into the chain and could never be read again."""
    with pytest.raises(InvalidError, match="field of integers"):
        unstructure(
            Lease(run=example_run(), node=NodeId("n"), owner=example_owner(), epoch=number, expires_us=0)
        )


def example_run() -> RunId:
    """Return some run."""
    return RunId("01hzy3v8k00ab")


def example_owner() -> WorkerId:
    """Return some worker."""
    return WorkerId("boot/1")


@pytest.mark.parametrize(
    "work,kind",
    [
        (RunWork(run="make"), NodeKind.RUN),
        (AgentWork(definition=PinnedFile(path="a.md")), NodeKind.AGENT),
        (AcpWork(command=("a", "b")), NodeKind.ACP),
        (ProtectedWork(gate="g"), NodeKind.PROTECTED),
        (ApprovalWork(ask="?", show=("a.b",)), NodeKind.APPROVAL),
    ],
)
def test_work_is_tagged_with_its_kind(
    work: RunWork | AgentWork | AcpWork | ProtectedWork | ApprovalWork, kind: NodeKind
) -> None:
    node = Node(id=NodeId("n"), work=work, code=CodeAccess.NONE)
    plain = unstructure(node)
    inner = plain["work"]
    assert isinstance(inner, dict)
    assert inner[TAG] == kind.value
    assert structure(Node, plain, strict=True) == node
    assert inner.keys() - {TAG} == {field.name for field in fields(work)}


@pytest.mark.parametrize(
    "work",
    [{"run": "x"}, {"kind": "RUN", "run": "x"}, {"kind": 1}, {"kind": None}, "run", None, []],
    ids=repr,
)
def test_work_without_a_known_kind_is_refused(work: JsonValue) -> None:
    (problem,) = problems(Node, {"id": "n", "work": work, "code": "none"})
    assert "is not one of acp, agent, approval, protected, run @ $.work" in problem


def test_bytes_stay_bytes() -> None:
    parcel = Parcel(data=b"\x00\xff", sizes={"a": 1})
    plain: dict[str, object] = dict(unstructure(parcel))
    assert plain["data"] == b"\x00\xff"
    assert structure(Parcel, unstructure(parcel), strict=True) == parcel
    assert problems(Parcel, {"data": "text", "sizes": {}}) == ["'text' is not a bytes @ $.data"]
    with pytest.raises(InvalidError):
        canonical(unstructure(parcel))


def test_mapping_is_read_exactly() -> None:
    assert problems(Parcel, {"data": b"", "sizes": [("a", 1)]}) == ["a list is not a mapping @ $.sizes"]
    assert "@ $.sizes['a']" in problems(Parcel, {"data": b"", "sizes": {"a": "1"}})[0]
    assert problems(Parcel, {"data": b"", "sizes": {1: 1}})


@pytest.mark.parametrize("animal", [Cat(lives=3), Dog(name="Rex"), None])
def test_optional_union_comes_back_as_it_was(animal: Cat | Dog | None) -> None:
    parcel = Parcel(data=b"", sizes={}, either=animal)
    assert structure(Parcel, unstructure(parcel), strict=True) == parcel


def test_what_a_record_refuses_itself_is_told_with_its_path() -> None:
    value = {"data": b"", "sizes": {}, "either": {"kind": "cat", "lives": -1}}
    assert problems(Parcel, value) == ["no lives left; expected some @ $.either"]


def test_union_member_without_a_kind_is_a_mistake_of_the_programmer() -> None:
    with pytest.raises(TypeError, match="Untagged is in a union"):
        unstructure(Ambiguous(either=Dog(name="Rex")))


def test_error_text_does_not_repeat_what_was_sent() -> None:
    (problem,) = problems(Dog, {"name": ["x" * 10_000]})
    assert len(problem) < 100
    assert len(problems(Lease, {**LEASE, "epoch": "y" * 10_000})[0]) < 100
