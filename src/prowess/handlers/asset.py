"""The asset that a review judges: which of the inputs it is, its words, and what it says that could be taken for a verdict."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from prowess.errors import Invalid
from prowess.run.extraction import all_json

NAMES = ("asset", "content", "text", "output")
"""The inputs that are taken for the asset, in this order."""
LONGEST_ASSET = 1_000_000

_SPACE = re.compile(r"\s+")
_SHORTEST_ARGUMENT = 24
"""A shorter reasoning may come to be the same by chance."""
_DEEPEST_QUOTE = 3
"""How often JSON may stand in a text of JSON for its verdicts to be known."""


@dataclass(frozen=True, kw_only=True)
class Asset:
    """What is judged. `text` is what the model reads: the text itself, or any other value as JSON."""

    value: Any
    text: str

    def says(self, quote: str) -> bool:
        """Whether these words stand in it, however they are spaced."""
        words = _squeezed(quote)
        return bool(words) and words in self._squeezed

    def holds(self, entry: Mapping[str, Any]) -> bool:
        """Whether this object, or its whole reasoning, stands in it word for word, in any order and with any spacing.

        How sure the two are makes no difference.
        """
        reasoning = _squeezed(str(entry.get("reasoning", "")))
        return _canonical(entry) in self._objects or (
            len(reasoning) >= _SHORTEST_ARGUMENT and reasoning in self._squeezed
        )

    @cached_property
    def _squeezed(self) -> str:
        """All its words without space; those of a JSON value also as they read without escapes."""
        return _squeezed("\n".join([self.text, *_texts(self.value)]))

    @cached_property
    def _objects(self) -> frozenset[str]:
        return frozenset(_canonical(one) for one in _objects(self.value, _DEEPEST_QUOTE))


def asset_of(inputs: Mapping[str, Any]) -> Asset:
    """The input called `asset`, else `content`, `text` or `output`, else what the artifact before gave, else all inputs.

    A field of what the artifact before gave is no input of that name. `Invalid` where there is nothing, or too much.
    """
    previous = inputs.get("previous")
    given = {name: inputs[name] for name in NAMES if name in inputs and not _is_field(previous, name, inputs[name])}
    value = next(iter(given.values()), inputs if previous is None else previous)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    if not inputs or not text.strip():
        raise Invalid("There is nothing to judge.", hint="Give the input `asset`: a text, or any JSON.")
    if len(text) > LONGEST_ASSET:
        message = f"The asset has {len(text):,} characters; a review takes at most {LONGEST_ASSET:,}."
        raise Invalid(message, hint="Judge it part by part.")
    return Asset(value=value, text=text)


def _is_field(previous: Any, name: str, value: Any) -> bool:
    return isinstance(previous, dict) and name in previous and cast("dict[str, Any]", previous)[name] == value


def _squeezed(text: str) -> str:
    return _SPACE.sub("", text)


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
