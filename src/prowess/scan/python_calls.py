"""Determine what a Python call does by looking up the function or method in the tables."""

from __future__ import annotations

from prowess.scan.python_io import IO_FUNCTIONS, IO_METHODS, IO_PATTERNS
from prowess.scan.python_names import plain_name
from prowess.scan.python_text import (
    RUNNING,
    TEXT_FUNCTIONS,
    TEXT_METHODS,
    Call,
    Handler,
    Method,
    replace_args,
    write_to_file,
)
from prowess.scan.values import UNKNOWN, Value, join_labels

_FUNCTIONS: dict[str, Handler] = TEXT_FUNCTIONS | IO_FUNCTIONS
_METHODS: dict[str, Method] = TEXT_METHODS | IO_METHODS


def call_name(call: Call, name: str) -> Value | None:
    """Follow a call of a function by its dotted name; None if it is not in the table."""
    handler = _FUNCTIONS.get(name)
    if handler is not None:
        return handler(call)
    for pattern, handler in IO_PATTERNS:
        if pattern.match(name):
            return handler(call)
    return None


def functions_of(module: str) -> list[str]:
    """Return the functions of a module that are in the tables."""
    return [name.rpartition(".")[2] for name in _FUNCTIONS if name.rpartition(".")[0] == module]


def call_handed_over(call: Call) -> None:
    """Follow a function that runs code and is handed to another one, with what it will be called with.

    `Thread(target=os.system, args=(…,))`, `map(os.system, […])`, `atexit.register(os.system, …)`.
    """
    for function in call.everything:
        name = plain_name(function.name)
        if name in RUNNING:
            others = [value for value in call.everything if value is not function]
            # Commands are lists as well, so the arguments are tried as they are and one by one.
            for args in (others, *([item] for other in others for item in other.items)):
                _FUNCTIONS[name](replace_args(call, list(args)))


def call_method(call: Call, owner: Value, method: str, full: str) -> Value:
    """Follow a call of a method."""
    result = call_name(call, full) if full else None
    if result is not None:
        return result
    handler = _METHODS.get(method)
    if handler is not None:
        result = handler(call, owner)
        if result is not None:
            return result
    write_to_file(call)
    labels = join_labels([owner, *call.everything])
    name = owner.name if owner.name.startswith("<") else ""
    return Value(
        labels=labels,
        name=name,
        texts=owner.texts
        if method in ("expanduser", "resolve", "absolute", "strip", "as_posix", "__str__")
        else (UNKNOWN,),
    )
