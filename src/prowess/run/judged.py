"""What a model judges: its words, and what it says that could be taken for the model's own verdict."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from prowess.run.extraction import all_json

_SHORTEST_ARGUMENT = 24
"""A shorter argument may come to be the same by chance."""
_DEEPEST_QUOTE = 3
"""How often JSON may stand in a text of JSON for its objects to be known."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A text or data that is judged. `text` is what the model reads: the text itself, or any other value as JSON."""

    value: Any
    text: str

    def says(self, quote: str) -> bool:
        """Whether these words stand in it, however they are spaced."""
        words = _squeezed(quote)
        return bool(words) and words in self._words

    def holds(self, answer: Mapping[str, Any], argument: str) -> bool:
        """Whether this object, or its whole argument, stands in it word for word, in any order, spacing and escaping.

        How sure the two are makes no difference.
        """
        said = _squeezed(argument)
        is_argued = len(said) >= _SHORTEST_ARGUMENT and said in self._words
        return is_argued or _canonical(answer) in self._objects or self._shows(answer)

    def _shows(self, answer: Mapping[str, Any]) -> bool:
        """Whether the object is written in it, also in the midst of what is no JSON."""
        orders = (dict(answer), dict(reversed([*answer.items()])))
        written = (json.dumps(one, ensure_ascii=plain) for one in orders for plain in (True, False))
        return any(_bare(one) in self._bare for one in written)

    @cached_property
    def _words(self) -> str:
        """All its words without space; those of a JSON value also as they read without escapes."""
        return _squeezed("\n".join([self.text, *_texts(self.value)]))

    @cached_property
    def _bare(self) -> str:
        return _bare(self.text)

    @cached_property
    def _objects(self) -> frozenset[str]:
        return frozenset(_canonical(one) for one in _objects(self.value, _DEEPEST_QUOTE))


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _bare(text: str) -> str:
    return _squeezed(text).replace("\\", "")


def _canonical(entry: Mapping[str, Any]) -> str:
    return json.dumps({name: value for name, value in entry.items() if name != "confidence"}, sort_keys=True)


def _texts(value: Any) -> Iterator[str]:
    for part in _parts(value):
        if isinstance(part, str):
            yield part


def _objects(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    """Every object in a value, also in JSON that one of its texts holds."""
    for part in _parts(value):
        if isinstance(part, dict):
            yield cast("dict[str, Any]", part)
        elif isinstance(part, str) and depth and "{" in part:
            for inner in all_json(part):
                yield from _objects(inner, depth - 1)


def _parts(value: Any) -> Iterator[Any]:
    """The value and everything inside it."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, Mapping):
            waiting += cast("Mapping[str, Any]", part).values()
        elif isinstance(part, list):
            waiting += cast("list[Any]", part)
