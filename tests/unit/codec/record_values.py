"""Values for any record, made from its field types: one fixed example, or all that Hypothesis can think of.

Owns no knowledge of any single record, so that a new field or a new kind of
step is covered without anybody thinking of it.
"""

from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, NewType, Union, cast, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from fusiond.domain.digest import Digest, digest_bytes
from fusiond.domain.steps.record import Payload

type_hints = cache(get_type_hints)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INTEGERS = st.integers(min_value=-(2**63), max_value=2**63 - 1)


def example_of(record: type[Payload]) -> Payload:
    """Return the one example of a payload; the same in every process and on every machine."""
    return cast("Payload", _example(record, record.__name__))


def _example(kind: object, name: str) -> object:
    if kind is Digest:
        return digest_bytes(name.encode())
    kind = plain(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        # The first word: a vocabulary that grows at its end changes no stored step.
        return next(iter(kind))
    if isinstance(kind, type) and is_dataclass(kind):
        hints = type_hints(kind)
        return kind(**{field.name: _example(hints[field.name], field.name) for field in fields(kind)})
    if origin is tuple:
        items = arguments[:1] * 2 if arguments[-1] is Ellipsis else arguments
        return tuple(_example(item, f"{name} {place}") for place, item in enumerate(items))
    if origin is frozenset:
        return frozenset(arguments[0])
    if origin in {Union, UnionType}:
        return _example(next(each for each in arguments if each is not NoneType), name)
    return {str: name, int: 1_000 + len(name), bool: True}[cast("type", kind)]


def values_of(kind: object) -> st.SearchStrategy[object]:
    """Return a strategy for every value of a field's type."""
    return _values_of(kind)


@cache
def _values_of(kind: object) -> st.SearchStrategy[object]:
    if kind is Digest:
        return TEXT.map(lambda text: digest_bytes(text.encode()))
    kind = plain(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return st.sampled_from([*kind])
    if isinstance(kind, type) and is_dataclass(kind):
        hints = type_hints(kind)
        return st.builds(kind, **{field.name: values_of(hints[field.name]) for field in fields(kind)})
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values_of, arguments))
    if origin is frozenset:
        return st.frozensets(values_of(arguments[0]))
    if origin in {Union, UnionType}:
        return st.one_of([values_of(each) for each in arguments])
    scalars: dict[object, st.SearchStrategy[object]] = {
        str: TEXT,
        int: INTEGERS,
        bool: st.booleans(),
        NoneType: st.none(),
    }
    return scalars[kind]


def plain(kind: object) -> object:
    """Return a type without its marks and its name."""
    while isinstance(kind, NewType) or get_origin(kind) is Annotated:
        kind = kind.__supertype__ if isinstance(kind, NewType) else get_args(kind)[0]
    return kind
