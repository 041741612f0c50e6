"""`dataclass` for records: what the standard library's makes, in a third of the time.

Of a frozen class with slots the standard library writes six methods and runs each
through the compiler; with three hundred records that was two thirds of a daemon's
start. Here `__init__` alone is compiled, when the first record is made, and the rest are
functions over the fields.
Which fields there are, their order, defaults and slots stays the standard library's
matter, and so does every class that is not frozen, is ordered, is made of another, or asks
for anything else than fields with and without defaults.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Type checkers know this one.
    from dataclasses import dataclass
else:
    import dataclasses
    import sys
    from dataclasses import MISSING, FrozenInstanceError, fields
    from operator import attrgetter

    _OWN = frozenset({"__init__", "__setattr__", "__delattr__", "__hash__", "__getstate__", "__setstate__"})

    def dataclass(cls=None, /, *, frozen=False, slots=False, kw_only=False, order=False):
        """Make a dataclass; arguments and errors are those of `dataclasses.dataclass`."""
        if cls is None:
            options = {"frozen": frozen, "slots": slots, "kw_only": kw_only, "order": order}
            return lambda decorated: dataclass(decorated, **options)
        if not frozen or not slots or order or _is_unusual(cls, kw_only):
            return dataclasses.dataclass(cls, frozen=frozen, slots=slots, kw_only=kw_only, order=order)
        made = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=True, kw_only=kw_only)
        for name in ("init", "repr", "eq", "frozen"):
            setattr(made.__dataclass_params__, name, True)
        compared = _getter([each.name for each in fields(made) if each.compare])
        methods = {
            "__init__": _deferred_init(made),
            "__eq__": _eq(compared),
            "__hash__": lambda self: hash(compared(self)),
            "__repr__": _repr,
            "__getstate__": _get_state,
            "__setstate__": _set_state,
            "__setattr__": _refuse_change,
            "__delattr__": _refuse_removal,
        }
        for name, method in methods.items():
            if made.__dict__.get(name) is None:
                setattr(made, name, method)
        return made

    def _is_unusual(cls, kw_only):
        """Say whether a class asks for what is not made here; its own fields are looked at."""
        if any(dataclasses.is_dataclass(base) for base in cls.__mro__[1:]):
            return True
        if not _OWN.isdisjoint(vars(cls)):
            return True
        with_default = False
        for name, kind in vars(cls).get("__annotations__", {}).items():
            given = vars(cls).get(name, MISSING)
            described = isinstance(given, dataclasses.Field)
            if name.startswith("_") or name == "self" or isinstance(kind, dataclasses.InitVar):
                return True
            if described and (given.hash is not None or not given.init):
                return True
            has_default = given is not MISSING
            if described:
                has_default = given.default is not MISSING or given.default_factory is not MISSING
            if with_default and not has_default and not kw_only:
                return True  # It is refused, in the library's words.
            with_default = with_default or has_default
        return False

    def _getter(names):
        if len(names) > 1:
            return attrgetter(*names)
        return (lambda self: (getattr(self, names[0]),)) if names else lambda _: ()

    def _eq(compared):
        def equal(self, other):
            if other.__class__ is not self.__class__:
                return NotImplemented
            return compared(self) == compared(other)

        return equal

    def _repr(self):
        shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def _get_state(self):
        return [getattr(self, each.name) for each in fields(self)]

    def _set_state(self, state):
        for each, value in zip(fields(self), state, strict=True):
            object.__setattr__(self, each.name, value)

    def _refuse_change(_self, name, _value):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_removal(_self, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def _deferred_init(cls):
        """Return an `__init__` that is replaced by the real one when the first record is made."""

        def __init__(self, /, *values, **named):  # noqa: N807
            cls.__init__ = made = _init(cls)
            made(self, *values, **named)

        return __init__

    def _init(cls):
        """Return `__init__`: each value goes into its slot, past the `__setattr__` that refuses."""
        given = {each.name: each for each in fields(cls)}
        # No field begins with an underscore (`_is_unusual`), so none can be taken for one of these.
        scope = {f"_put_{each.name}": getattr(cls, each.name).__set__ for each in fields(cls)}
        for each in fields(cls):
            _add_default(each, scope)
        by_place = [_parameter(each, scope) for each in given.values() if not each.kw_only]
        by_name = [_parameter(each, scope) for each in given.values() if each.kw_only]
        parameters = ", ".join(["_self", *by_place, *(["*"] if by_name else []), *by_name])
        lines = [f"  _put_{each.name}(_self, {_value(each, scope)})" for each in fields(cls)]
        if hasattr(cls, "__post_init__"):
            lines.append("  _self.__post_init__()")
        body = "\n".join(lines) or "  pass"
        # Names of fields are all that goes in. Annotations are looked up in the class's own module.
        text = f"def make({', '.join(scope)}):\n def __init__({parameters}):\n{body}\n return __init__"
        made = {}
        exec(text, sys.modules[cls.__module__].__dict__, made)  # noqa: S102
        init = made["make"](**scope)
        init.__qualname__ = f"{cls.__qualname__}.__init__"
        init.__annotations__ = {name: each.type for name, each in given.items()} | {"return": None}
        return init

    def _add_default(field, scope):
        if field.default_factory is not MISSING:
            scope[f"_new_{field.name}"] = field.default_factory
        if field.default is not MISSING or field.default_factory is not MISSING:
            scope[f"_default_{field.name}"] = field.default

    def _parameter(field, scope):
        default = f"_default_{field.name}"
        return f"{field.name}={default}" if default in scope else field.name

    def _value(field, scope):
        default, new = f"_default_{field.name}", f"_new_{field.name}"
        # Without a value, what stands in its place is MISSING, the default of such a field.
        return f"{new}() if {field.name} is {default} else {field.name}" if new in scope else field.name


__all__ = ["dataclass"]
