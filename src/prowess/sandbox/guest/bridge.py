"""What a script can ask of its host: a module of functions, and what it prints."""

from __future__ import annotations

import io
import json
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

Call = Callable[[str, str], str]
"""The only way out: the name of a host function and its arguments as JSON, answered with JSON."""
Ask = Callable[[str, Sequence[Any], Mapping[str, Any]], Any]
"""Calls a host function with arguments; what it gives, or `HostError`."""

PRINT = "print"
"""The call that takes what was printed."""
PENDING_CHARS, PROMPT_LINES = 512, 100
"""How much waits to be handed over at most, and how many lines are handed over as soon as they are whole."""
ANSWERING = frozenset({"llm_query", "llm_query_batched"})
BULLET = re.compile(r"^\s*(?:[-*\u2022]|\d{1,3}[.)])\s+")

to_json = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode
"""Plain ASCII, since a lone surrogate cannot cross to the host."""
from_json = json.JSONDecoder().decode


class HostError(Exception):
    """A host function said no, or could not; `code` is a word for it."""

    def __init__(self, message: str, code: str = "error") -> None:
        super().__init__(message)
        self.code = code


class Answer(str):
    """What a model answered. It is a text, except that going over it gives what it lists, not its characters.

    That is the items of a JSON array, or else the lines that are not empty, without their bullets and numbers.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items())

    def _items(self) -> list[Any]:
        try:
            items = from_json(str(self).strip())
        except ValueError:
            items = None
        if isinstance(items, list):
            return cast("list[Any]", items)
        return [BULLET.sub("", line).strip() for line in str(self).splitlines() if line.strip()]


class Printed(io.TextIOBase):
    """Takes what a script prints to the host, in pieces."""

    encoding = "utf-8"

    def __init__(self, call: Call) -> None:
        self._call = call
        self._pending: list[str] = []
        self._chars = 0
        self._prompt = PROMPT_LINES

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, text: str, /) -> int:
        """Take a piece."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._pending.append(text)
        self._chars += len(text)
        if self._prompt and text.endswith("\n"):
            self._prompt -= 1
            self.flush()
        elif self._chars >= PENDING_CHARS:
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Hand over what waits."""
        if self._pending:
            text = "".join(self._pending)
            self._pending, self._chars = [], 0
            self._call(PRINT, text.encode("utf-8", "replace").decode())


class Result:
    """What the script submitted; the last time counts."""

    def __init__(self) -> None:
        self.json: str | None = None

    def submit(self, result: Any) -> None:
        """Give the result of the script: anything that JSON can say."""
        self.json = to_json(result)


def asking(call: Call, printed: Printed) -> Ask:
    """What asks the host; what was printed before is handed over first."""

    def ask(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        try:
            payload = to_json([list(args), dict(kwargs)])
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"{name}() takes only what JSON can say: {error}") from None
        printed.flush()
        answer = from_json(call(name, payload))
        if "error" in answer:
            raise HostError(answer["error"]["message"], answer["error"]["code"])
        return _answers(answer["value"]) if name in ANSWERING else answer["value"]

    return ask


def module(name: str, functions: Iterable[str], ask: Ask, result: Result) -> types.ModuleType:
    """The host's functions as a module."""
    made = types.ModuleType(name, "What this script can ask of its host.")
    for function in functions:
        setattr(made, function, _function(function, ask))
    made.submit = result.submit  # type: ignore[attr-defined]
    made.HostError = HostError  # type: ignore[attr-defined]
    return made


def _function(name: str, ask: Ask) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        return ask(name, args, kwargs)

    function.__name__ = function.__qualname__ = name
    return function


def _answers(value: Any) -> Any:
    if isinstance(value, list):
        return [_answers(item) for item in cast("list[Any]", value)]
    return Answer(value) if isinstance(value, str) else value
