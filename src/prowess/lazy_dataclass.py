"""Dataclasses whose methods are generated when a class is first used.

Generating them takes about a millisecond for each class. Prowess has five hundred, of which a short command imports a
hundred and uses a third. With those of the standard library, `prowess list` executes 12 % more instructions and `prowess
prompt` 14 %; if all methods were generated at once when a class is first used, 3 % and 5 % (Python 3.11, callgrind).
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_lock = threading.RLock()
_OF_A_CLASS = ("__dict__", "__weakref__")
_FIRST = ("__init__", "__dataclass_fields__")
_STATE = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")


def _lazy_dataclass(*, frozen: bool = False, eq: bool = True, repr: bool = True, **others: bool) -> Callable[..., type]:
    """Do what `dataclasses.dataclass` does with these options, of which `slots=True` must be one."""

    def decorate(plain: type) -> type:
        return _LateMethods(plain, {"frozen": frozen, "eq": eq, "repr": repr, **others}).new_class

    return decorate


class _LateMethods:
    """Generates the methods of one class at the first use of any of them."""

    def __init__(self, plain: type, options: dict[str, bool]) -> None:
        self._plain: type | None = plain
        self._options = options
        self._has_init = False
        own, frozen = vars(plain), options["frozen"]
        late = {
            "__init__": True,
            "__repr__": options["repr"],
            "__eq__": options["eq"],
            "__hash__": options["eq"] and frozen,
        }
        # Python sets `__hash__` to None where a class has an `__eq__` of its own. That is no reason not to generate one.
        self._names = [name for name, is_late in late.items() if is_late and own.get(name) is None]
        namespace: dict[str, Any] = {"__hash__": None} if options["eq"] and not frozen else {}
        if frozen:
            namespace |= {
                "__setattr__": _refuse,
                "__delattr__": _refuse,
                "__getstate__": _state,
                "__setstate__": _restore,
            }
        namespace |= own
        namespace |= {name: self._stub(name) for name in self._names}
        namespace |= {name: _LateAttribute(self, name) for name in _STATE}
        fields = [name for name, kind in own.get("__annotations__", {}).items() if "ClassVar" not in str(kind)]
        for name in (*fields, *_OF_A_CLASS):
            namespace.pop(name, None)  # the default of a field would hide its slot
        inherited = {slot for base in plain.__mro__[1:] for slot in vars(base).get("__slots__", ())}
        weak = ("__weakref__",) if options.get("weakref_slot") else ()
        namespace["__slots__"] = (*(name for name in fields if name not in inherited), *weak)
        self.new_class: type = type(plain)(plain.__name__, plain.__bases__, namespace)
        self.new_class.__qualname__ = plain.__qualname__

    def complete(self, name: str) -> None:
        """Generate a method, and replace its stub with it."""
        with _lock:
            if self._plain is None:
                return
            if not self._has_init:
                self._complete_init(self._plain)
            if name not in _FIRST:
                self._take((*self._names, *_STATE, "__replace__"), self._plain, self._options)
                self._plain = None

    def _complete_init(self, plain: type) -> None:
        """Generate `__init__` alone. Most classes need no other method, and the others take most of the time."""
        self._has_init = True
        # From a copy, because the standard library removes the defaults that it has read.
        own = {name: value for name, value in vars(plain).items() if name not in _OF_A_CLASS}
        copy = type(plain)(plain.__name__, plain.__bases__, own)
        frozen = self._options["frozen"]
        # Frozen only if it has to be, because it inherits from a frozen class: that generates two methods more.
        inherits = any("__dataclass_fields__" in vars(base) for base in plain.__mro__[1:])
        options = {"kw_only": self._options.get("kw_only", False), "frozen": frozen and inherits}
        self._take(("__dataclass_fields__",), copy, {**options, "init": False, "repr": False, "eq": False})
        if "__init__" in self._names:
            self._names.remove("__init__")
            self.new_class.__init__ = _make_init(self.new_class, frozen=frozen)

    def _take(self, names: Sequence[str], plain: type, options: dict[str, bool]) -> None:
        make = cast("Callable[..., Callable[[type], type]]", dataclasses.dataclass)
        generated = vars(make(**options)(plain))
        for name in names:
            if name in generated:
                setattr(self.new_class, name, generated[name])

    def _stub(self, name: str) -> Callable[..., Any]:
        def call(instance: Any, *arguments: Any, **named: Any) -> Any:
            self.complete(name)
            return getattr(self.new_class, name)(instance, *arguments, **named)

        return call


def _make_init(target: type, *, frozen: bool) -> Callable[..., None]:
    """Return the `__init__` that the standard library would generate; it sets the slots of a frozen class three times as fast.

    A slot's own descriptor sets it. `object.__setattr__`, which the standard library uses, has to find that first.
    """
    names: dict[str, Any] = {"_missing": dataclasses.MISSING}
    positional, named, lines = ["self"], ["*"], ["pass"]
    for field in dataclasses.fields(target):
        name = value = field.name
        default = ""
        if field.default_factory is not dataclasses.MISSING:
            # `dict` for `dict[str, int]`, which also tries to note its arguments at the dict, and fails.
            names[f"_make_{name}"] = getattr(field.default_factory, "__origin__", field.default_factory)
            default = "=_missing"
            value = f"_make_{name}() if {name} is _missing else {name}" if field.init else f"_make_{name}()"
        elif field.default is not dataclasses.MISSING:
            names[f"_default_{name}"] = field.default
            default = f"=_default_{name}"
            value = name if field.init else f"_default_{name}"
        elif not field.init:
            continue
        if field.init:
            (named if field.kw_only else positional).append(name + default)
        if frozen:
            names[f"_set_{name}"] = getattr(target, name).__set__
        lines.append(f"_set_{name}(self, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(target, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join([*positional, *(named if len(named) > 1 else [])])
    text = f"def make({', '.join(names)}):\n def __init__({parameters}):\n  {'; '.join(lines)}\n return __init__"
    found: dict[str, Any] = {}
    exec(text, vars(sys.modules[target.__module__]), found)  # noqa: S102  (as the standard library does)
    init = found["make"](**names)
    init.__qualname__ = f"{target.__qualname__}.__init__"
    init.__annotations__ = {field.name: field.type for field in dataclasses.fields(target) if field.init}
    init.__annotations__["return"] = None
    return init


class _LateAttribute:
    """An attribute of a class that exists once its methods are generated."""

    def __init__(self, methods: _LateMethods, name: str) -> None:
        self._methods = methods
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        self._methods.complete(self._name)
        return vars(self._methods.new_class)[self._name]


def _refuse(instance: object, name: str, value: object = None) -> None:  # noqa: ARG001
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _state(instance: Any) -> list[Any]:
    """Return the values of all fields, to pickle or copy an instance that cannot be changed."""
    return [getattr(instance, field.name) for field in dataclasses.fields(instance)]


def _restore(instance: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(instance), state, strict=True):
        object.__setattr__(instance, field.name, value)


if TYPE_CHECKING:
    dataclass = dataclasses.dataclass  # what type checkers know how to read
else:
    dataclass = _lazy_dataclass
