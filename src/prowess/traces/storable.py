"""Values made fit to be stored: no secrets, of bounded length, and only characters that a database can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from prowess.redaction import Redactor

TEXT_CHARS = 256 * 1024
"""The longest text of a trace."""
JSON_CHARS = 1024 * 1024
"""About how much text the values of one JSON column may have together."""
DEPTH = 32

_MARGIN = 8 * 1024
"""So much of the end of a text that was cut is not kept: the rest of a secret may have been cut away with it."""


def storable(text: str) -> str:
    """The text without NUL characters and halves of surrogate pairs, which are replaced."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def capped(text: str, redactor: Redactor, most: int = TEXT_CHARS) -> str:
    """The text without secrets, cut to about `most` characters with a mark that says how many it had."""
    length = len(text)
    if length <= most:
        return redactor.text(storable(text))
    kept = redactor.text(storable(text[: 2 * most]))
    end = min(most, len(kept) - _MARGIN) if length > 2 * most else most
    return f"{kept[: max(end, 0)]}\n[cut: {length} characters in all]"


def storable_json(value: Any, redactor: Redactor) -> Any:
    """The same for a JSON value; what no JSON can hold is replaced by words that say so."""
    return redactor.value(_Plain(redactor).value(value, DEPTH))


class _Plain:
    """One walk through a value, which stops to keep texts when there are too many of them."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._left = JSON_CHARS

    def value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return value if value.bit_length() < 1024 else f"[a number of {value.bit_length()} bits]"
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if depth == 0:
            return "[cut: nested too deeply]"
        if isinstance(value, Mapping):
            return self._mapping(cast("Mapping[Any, Any]", value), depth)
        if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
            return self._list(cast("Sequence[Any]", value), depth)
        return f"[a value that is not JSON: {type(value).__name__}]"

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, inner in value.items():
            if self._left <= 0:
                made["[cut]"] = f"{len(value) - len(made)} more"
                break
            made[self._text(str(key))] = self.value(inner, depth - 1)
        return made

    def _list(self, value: Sequence[Any], depth: int) -> list[Any]:
        made: list[Any] = []
        for inner in value:
            if self._left <= 0:
                made.append(f"[cut: {len(value) - len(made)} more]")
                break
            self._left -= 2
            made.append(self.value(inner, depth - 1))
        return made

    def _text(self, text: str) -> str:
        self._left -= len(text)
        return storable(text) if len(text) <= TEXT_CHARS else capped(text, self._redactor)
