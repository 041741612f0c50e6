"""`domain.records.dataclass` makes what the standard library makes, down to the words of its errors."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import field, fields
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.domain.records import dataclass as fast

Make = Callable[..., Any]


class _Wide:
    run: str
    kind: ClassVar[str] = "wide"
    seq: int
    node: str | None = None
    hidden: int = field(default=3, repr=False)
    ignored: int = field(default=4, compare=False)
    refs: tuple[str, ...] = ()
    made: list[int] = field(default_factory=list, compare=False)
    counted: int = field(init=False, default=7)


class _Checked:
    one: int
    two: int = 2

    def __post_init__(self) -> None:
        if self.one == self.two:
            raise ValueError("equal")


class _Single:
    only: float


class _Clashing:
    items: tuple[int, ...] = field(default_factory=tuple)
    default_items: object = 5
    new_items: object = list
    put_items: str = "x"


class _Hashed:
    one: int
    two: Any = field(hash=False, default=2)
    three: int = field(compare=False, hash=True, default=3)


class _Unhashable:
    __hash__ = None  # type: ignore[assignment]
    one: int


class _Private:
    one: int
    _two: int = 2


class _Empty:
    pass


class _Spoken:
    word: str

    def __repr__(self) -> str:
        return self.word

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


PLAIN = (_Wide, _Checked, _Single, _Empty, _Spoken, _Clashing, _Hashed, _Private)
OPTIONS = ({"kw_only": True}, {"kw_only": False})


def both(plain: type, **options: bool) -> tuple[Any, Any]:
    """Return the class as the standard library makes it, and as we do."""
    theirs = dataclasses.dataclass(_copied(plain), frozen=True, slots=True, **options)
    return theirs, fast(_copied(plain), frozen=True, slots=True, **options)


def _copied(plain: type) -> Any:
    body = {name: value for name, value in vars(plain).items() if name not in {"__dict__", "__weakref__"}}
    return type("Record", (), body)


def outcome(make: Make, *values: object, **named: object) -> object:
    """Return what is seen of a record, or of the refusal to make one."""
    try:
        made = make(*values, **named)
    except (TypeError, ValueError) as error:
        return type(error), str(error)
    seen = {each.name: getattr(made, each.name) for each in fields(made)}
    return repr(made), seen, hash(made), made == make(*values, **named), made == 3


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("plain", PLAIN)
def test_class_looks_the_same(plain: type, options: dict[str, bool]) -> None:
    theirs, ours = both(plain, **options)
    assert [each.name for each in fields(ours)] == [each.name for each in fields(theirs)]
    assert ours.__slots__ == theirs.__slots__
    assert ours.__match_args__ == theirs.__match_args__
    assert dataclasses.is_dataclass(ours)


@given(
    values=st.lists(st.integers(0, 3) | st.text(max_size=2), max_size=4),
    named=st.dictionaries(
        st.sampled_from(
            [
                "run",
                "seq",
                "node",
                "refs",
                "made",
                "hidden",
                "counted",
                "one",
                "two",
                "only",
                "items",
                "default_items",
                "new_items",
                "put_items",
                "_two",
            ]
        ),
        st.integers(0, 3) | st.text(max_size=2),
        max_size=4,
    ),
    plain=st.sampled_from(PLAIN),
    options=st.sampled_from(OPTIONS),
)
def test_making_one_gives_the_same_or_fails_the_same(
    values: list[object], named: dict[str, object], plain: type, options: dict[str, bool]
) -> None:
    theirs, ours = both(plain, **options)
    assert outcome(ours, *values, **named) == outcome(theirs, *values, **named)


@pytest.mark.parametrize("seq", [1, 2])
def test_equality_is_of_compared_fields_and_of_one_class(seq: int) -> None:
    theirs, ours = both(_Wide, kw_only=True)
    for make in (theirs, ours):
        one = make(run="a", seq=1, ignored=1)
        assert (one == make(run="a", seq=seq, ignored=2)) is (seq == 1)
    assert ours(run="a", seq=1) != theirs(run="a", seq=1)


def test_what_the_library_refuses_is_refused_in_its_words() -> None:
    class Disordered:
        one: int = 1
        two: int

    class Thawed:
        one: int

        def __setattr__(self, name: str, value: object) -> None: ...

    for plain in (Disordered, Thawed):
        for make in (dataclasses.dataclass, fast):
            with pytest.raises(TypeError) as caught:
                make(_copied(plain), frozen=True, slots=True)
            assert ("non-default argument" in str(caught.value)) is (plain is Disordered)
    for made in both(_Unhashable):
        with pytest.raises(TypeError, match="unhashable"):
            hash(made(1))


def test_defaults_are_made_anew() -> None:
    _, ours = both(_Wide, kw_only=True)
    one, two = ours(run="a", seq=1), ours(run="a", seq=1)
    one.made.append(5)
    assert two.made == []


@pytest.mark.parametrize("plain", [_Wide, _Single])
def test_nothing_changes_a_record(plain: type) -> None:
    for make in both(plain, kw_only=True):
        made = make(run="a", seq=1) if plain is _Wide else make(only=1.0)
        name = fields(made)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(made, name, "b")
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot delete field '{name}'"):
            delattr(made, name)


@fast(frozen=True, slots=True, kw_only=True)
class Kept:
    """A record that can be found by its name."""

    run: str
    counts: dict[str, int] = field(default_factory=dict)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_record_is_copied_and_pickled(again: Callable[[Kept], Kept]) -> None:
    made = Kept(run="a", counts={"b": 1})
    assert again(made) == made
    assert dataclasses.replace(made, run="b") == Kept(run="b", counts={"b": 1})


def test_signature_is_known_once_one_was_made() -> None:
    Kept(run="a")
    assert list(inspect.signature(Kept).parameters) == ["run", "counts"]


def test_records_that_are_ordered_or_open_are_the_librarys() -> None:
    ordered = fast(_copied(_Single), frozen=True, slots=True, order=True)
    assert ordered(1.0) < ordered(2.0)
    opened = fast(_copied(_Single), slots=True)(1.0)
    opened.only = 2.0
    assert opened.only == 2.0


def test_a_record_may_be_made_of_another() -> None:
    base = fast(_copied(_Single), frozen=True, slots=True)
    body = {"__annotations__": {"more": int}, "more": 2}
    derived: Make = fast(type("Derived", (base,), body), frozen=True, slots=True)
    assert repr(derived(1.0)) == "Derived(only=1.0, more=2)"
    assert base(1.0).only == 1.0
