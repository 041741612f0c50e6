"""Records to plain values and back: the only place that knows how.

A record becomes a mapping of its fields. Closed vocabularies become their
value, tuples and sets become lists (sets sorted), bytes stay bytes (so such a
record fits msgpack, not JSON). A union of records carries the key `kind`.
Owns no bytes: `codec.canonical` and the wire make those.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Never, NewType, TypeVar, Union, cast, get_args, get_origin

from cattrs import ForbiddenExtraKeysError, transform_error
from cattrs.cols import (
    homogenous_tuple_structure_factory,
    is_frozenset,
    is_mapping,
    mapping_structure_factory,
)
from cattrs.converters import Converter
from cattrs.gen import make_dict_structure_fn

from fusiond.codec.canonical import JsonValue
from fusiond.domain.errors import FusionError, InvalidError
from fusiond.domain.flow import AcpWork, AgentWork, ApprovalWork, NodeKind, ProtectedWork, RunWork

T = TypeVar("T")
Read = Callable[[object, object], object]
Write = Callable[[object], object]

WHOLE = " @ $"
"""How a problem with a record as a whole is placed."""

TAG = "kind"
"""The key that says which record of a union a mapping is."""

_WORK_TAGS: dict[type, str] = {
    RunWork: NodeKind.RUN.value,
    AgentWork: NodeKind.AGENT.value,
    AcpWork: NodeKind.ACP.value,
    ProtectedWork: NodeKind.PROTECTED.value,
    ApprovalWork: NodeKind.APPROVAL.value,
}


class _MismatchError(ValueError):
    """A value that is not what its field asks for; the text says what was asked."""


def unstructure(record: object) -> dict[str, JsonValue]:
    """Return the plain mapping of a record.

    Fields appear under their own names, all of them, in the order of the record.
    """
    return cast("dict[str, JsonValue]", _reader(strict=True, detailed=False).unstructure(record))


def structure(record: type[T], value: object, *, strict: bool) -> T:
    """Return the record that `value` describes; nothing is converted on the way.

    Args:
        record: the class to make.
        value: mappings, lists and scalars as a JSON or msgpack reader returns them.
        strict: refuse fields that the record does not have; otherwise they are ignored.

    Raises:
        InvalidError: names the path of each wrong field and what was expected there.
    """
    try:
        return _reader(strict=strict, detailed=False).structure(value, record)
    except (ValueError, TypeError, LookupError, AttributeError, ForbiddenExtraKeysError, FusionError):
        _explain(record, value, strict=strict)


def prepare(record: type[object]) -> None:
    """Make the functions that read and write a record now, instead of at its first use."""
    converter = _reader(strict=True, detailed=False)
    converter.get_unstructure_hook(record)
    converter.get_structure_hook(record)


def _explain(record: type[object], value: object, *, strict: bool) -> Never:
    """Read again, slowly, keeping the paths; fast reading knows only that something is wrong."""
    try:
        _reader(strict=strict, detailed=True).structure(value, record)
    except (ExceptionGroup, ValueError, TypeError, LookupError, AttributeError) as error:
        problems = transform_error(error, "$", _sentence)
        if len(problems) == 1 and problems[0].endswith(WHOLE):
            # What the record says of itself needs no place and no name of a class.
            raise InvalidError(
                problems[0].removesuffix(WHOLE),
                fields={"record": record.__name__, "problems": problems[0]},
            ) from None
        raise InvalidError(
            f"not a {record.__name__}: {'; '.join(problems)}",
            expected=f"a {record.__name__}",
            fields={"record": record.__name__, "problems": "\n".join(problems)},
        ) from None
    raise AssertionError(f"{record.__name__} reads slowly but not fast")


def _sentence(error: BaseException, _: object) -> str:
    match error:
        case _MismatchError():
            return str(error)
        case FusionError():
            return error.sentence()
        case KeyError():
            return "required field missing"
        case ForbiddenExtraKeysError():
            return f"unknown fields {', '.join(sorted(str(each)[:80] for each in error.extra_fields))}"
        case _:
            return "not readable"


@cache
def _reader(*, strict: bool, detailed: bool) -> Converter:
    converter = Converter(forbid_extra_keys=strict, detailed_validation=detailed)
    for exact in (str, int, bool, bytes, float, NoneType):
        converter.register_structure_hook(exact, _exact(exact))
    # By class, since a StrEnum is a str and cattrs prefers the nearest class to any rule.
    converter.register_structure_hook(StrEnum, _read_word)
    converter.register_unstructure_hook(StrEnum, _write_word)
    converter.register_unstructure_hook(int, _write_integer)
    converter.register_unstructure_hook(bool, lambda value: value)
    _register_containers(converter)
    _register_records(converter)
    converter.register_structure_hook_factory(_is_alias, lambda alias: _read_hook(alias, converter))
    converter.register_structure_hook_factory(_is_optional, lambda kind: _optional_reader(kind, converter))
    converter.register_structure_hook_factory(_is_union, lambda union: _union_reader(union, converter))
    converter.register_unstructure_hook_factory(_is_union, lambda union: _union_writer(union, converter))
    return converter


def _is_alias(kind: object) -> bool:
    """Say whether `kind` is a NewType, or a field's type with a mark on it."""
    return isinstance(kind, NewType) or get_origin(kind) is Annotated


def _read_hook(kind: object, converter: Converter) -> Read:
    """Return the hook that reads `kind`, resolved as far as can be known before there is a value."""
    while _is_alias(kind):
        kind = kind.__supertype__ if isinstance(kind, NewType) else get_args(kind)[0]
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        word = kind
        return lambda value, _: _read_word(value, word)
    return cast("Read", converter.get_structure_hook(kind))


def _is_optional(kind: object) -> bool:
    """Say whether `kind` is one type or None."""
    return get_origin(kind) in {Union, UnionType} and len(get_args(kind)) == 2 and NoneType in get_args(kind)


def _optional_reader(kind: object, converter: Converter) -> Read:
    inner = next(each for each in get_args(kind) if each is not NoneType)
    hook = _read_hook(inner, converter)
    return lambda value, _: None if value is None else hook(value, inner)


def _exact(wanted: type) -> Read:
    article = "an" if wanted is int else "a"

    def read(value: object, _: object) -> object:
        # The exact type: True is no integer and "1" is no number, whatever Python can convert.
        if type(value) is not wanted:
            raise _MismatchError(f"{_shown(value)} is not {article} {wanted.__name__}")
        return value

    return read


def _shown(value: object) -> str:
    """Return `value` short enough for one line of an error."""
    match value:
        case None | bool() | int() | float():
            return repr(value)
        case str():
            return repr(value[:40])
        case _:
            return f"a {type(value).__name__}"


def _register_records(converter: Converter) -> None:
    def factory(record: type) -> Read:
        inner = cast(
            "Read",
            make_dict_structure_fn(
                record,
                converter,
                _cattrs_forbid_extra_keys=converter.forbid_extra_keys,
                _cattrs_detailed_validation=converter.detailed_validation,
            ),
        )

        def read(value: object, _: object) -> object:
            if type(value) is not dict:
                raise _MismatchError(f"{_shown(value)} is not a mapping of {record.__name__}")
            return inner(value, record)

        return read

    converter.register_structure_hook_factory(is_dataclass, factory)


def _register_containers(converter: Converter) -> None:
    def sets(kind: type) -> Read:
        inner = homogenous_tuple_structure_factory(kind, converter)
        return _listed(kind, lambda value, wanted: frozenset(inner(value, wanted)))

    def mappings(kind: type) -> Read:
        detailed = converter.detailed_validation
        inner = cast("Read", mapping_structure_factory(kind, converter, dict, detailed_validation=detailed))

        def read(value: object, _: object) -> object:
            if type(value) is not dict:
                raise _MismatchError(f"{_shown(value)} is not a mapping")
            return inner(value, kind)

        return read

    converter.register_structure_hook_factory(_is_tuple, lambda kind: _tuple_reader(kind, converter))
    converter.register_structure_hook_factory(is_frozenset, sets)
    converter.register_structure_hook_factory(is_mapping, mappings)
    converter.register_unstructure_hook_factory(_is_tuple, lambda kind: _tuple_writer(kind, converter))
    converter.register_unstructure_hook_factory(is_frozenset, lambda kind: _set_writer(kind, converter))


def _is_tuple(kind: object) -> bool:
    return get_origin(kind) is tuple


def _listed(kind: type, inner: Read) -> Read:
    def read(value: object, _: object) -> object:
        if type(value) not in {list, tuple}:
            raise _MismatchError(f"{_shown(value)} is not a list")
        return inner(value, kind)

    return read


def _tuple_reader(kind: type, converter: Converter) -> Read:
    items = get_args(kind)
    if items[-1] is Ellipsis:
        return _listed(kind, homogenous_tuple_structure_factory(kind, converter))
    hooks = [(_read_hook(item, converter), item) for item in items]

    def read(value: object, _: object) -> object:
        if not isinstance(value, (list, tuple)) or len(value) != len(hooks):
            raise _MismatchError(f"{_shown(value)} is not a list of {len(hooks)} items")
        return tuple([hook(each, item) for each, (hook, item) in zip(value, hooks, strict=True)])

    return read


def _tuple_writer(kind: type, converter: Converter) -> Write:
    items = get_args(kind)
    if items[-1] is not Ellipsis:
        hooks = [converter.get_unstructure_hook(item) for item in items]
        return lambda value: [
            hook(each) for hook, each in zip(hooks, cast("tuple[object, ...]", value), strict=True)
        ]
    if _plain_text(items[0]):
        return lambda value: list(cast("tuple[object, ...]", value))
    hook = converter.get_unstructure_hook(items[0])
    return lambda value: [hook(each) for each in cast("tuple[object, ...]", value)]


def _set_writer(kind: type, converter: Converter) -> Write:
    hook = converter.get_unstructure_hook(get_args(kind)[0])
    return lambda value: [hook(each) for each in sorted(cast("frozenset[str]", value))]


def _plain_text(kind: object) -> bool:
    """Say whether values of `kind` are plain strings or integers as they are."""
    while isinstance(kind, NewType):
        kind = kind.__supertype__
    return kind is str or kind is int


def _read_word(value: object, kind: type[StrEnum]) -> StrEnum:
    known = _words(kind)
    if type(value) is not str or value not in known:
        raise _MismatchError(f"{_shown(value)} is not one of {', '.join(sorted(known))}")
    return known[value]


@cache
def _words(kind: type[StrEnum]) -> dict[str, StrEnum]:
    return {each.value: each for each in kind}


def _write_integer(value: int) -> int:
    # A number that only looks whole would be written, hashed, and never read again.
    if type(value) is not int:
        raise InvalidError(f"{_shown(value)} in a field of integers", expected="an int")
    return value


def _write_word(value: StrEnum) -> str:
    return value._value_


def _is_union(kind: object) -> bool:
    """Say whether `kind` is a union of two or more records; None may be among them."""
    return get_origin(kind) in {Union, UnionType} and len(_members(kind)) > 1


def _members(union: object) -> list[type]:
    members = [each for each in get_args(union) if each is not NoneType]
    return members if all(is_dataclass(each) for each in members) else []


def _tag(record: type) -> str:
    tag = _WORK_TAGS.get(record) or getattr(record, TAG, None)
    if not isinstance(tag, str) or any(field.name == TAG for field in fields(record)):
        raise TypeError(
            f"{record.__name__} is in a union and needs a class attribute {TAG!r} that is no field"
        )
    return str(tag)


def _union_reader(union: object, converter: Converter) -> Read:
    hooks = {_tag(each): (converter.get_structure_hook(each), each) for each in _members(union)}
    optional = NoneType in get_args(union)

    def read(value: object, _: object) -> object:
        if optional and value is None:
            return None
        tag = value.get(TAG) if isinstance(value, dict) else None
        if not isinstance(value, dict) or not isinstance(tag, str) or tag not in hooks:
            found = f"{TAG} {_shown(tag)}" if isinstance(value, dict) else _shown(value)
            raise _MismatchError(f"{found} is not one of {', '.join(sorted(hooks))}")
        hook, member = hooks[tag]
        values = value.copy()
        del values[TAG]
        return hook(values, member)

    return read


def _union_writer(union: object, converter: Converter) -> Write:
    hooks = {each: (_tag(each), converter.get_unstructure_hook(each)) for each in _members(union)}

    def write(value: object) -> object:
        if value is None:
            return None
        tag, hook = hooks[type(value)]
        return {TAG: tag, **hook(value)}

    return write
