"""One redactor: whatever goes into traces, logs and answers about errors passes through it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from prowess.redaction.known import REDACTED, KnownValues, readable
from prowess.redaction.linear import linear
from prowess.redaction.names import NAME_HINT, has_secret_name, redact_named
from prowess.redaction.shapes import SHAPE_HINT, redact_shapes

HINT = f"{NAME_HINT}|{SHAPE_HINT}"
"""Finds something in every text that has a named or shaped secret, and in few others."""


class Redactor:
    """Removes secrets from texts and JSON values: these known ones however they are written, and what looks like others.

    Safe for many threads. Known values never stay; of unknown ones those do that neither their name nor their shape gives
    away.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._known = KnownValues(secrets)

    def is_clean(self, text: str) -> bool:
        """Whether a glance shows that nothing in the text, which may be JSON, is to be replaced; False where it must be read."""
        text = readable(text)
        return not linear(HINT).search(text) and not self._known.found_in(text)

    def text(self, text: str) -> str:
        """The text with every secret replaced by `[redacted]` or, where its kind is known, `[redacted:kind]`."""
        text = self._known.redact(readable(text))
        return redact_shapes(redact_named(text)) if linear(HINT).search(text) else text

    def value(self, value: Any) -> Any:
        """A JSON value of the same form; what stands under a secret's name is replaced whatever it looks like."""
        return self._walk(value, hidden=False)

    def _walk(self, value: Any, *, hidden: bool) -> Any:
        if isinstance(value, str):
            return REDACTED if hidden and value else self.text(value)
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value).items()
            return {self.text(key): self._walk(inner, hidden=hidden or has_secret_name(key)) for key, inner in members}
        if isinstance(value, list | tuple):
            return [self._walk(inner, hidden=hidden) for inner in cast("list[Any]", value)]
        if value is None or isinstance(value, bool):
            return value
        return REDACTED if hidden or self._known.has_number(value) else value
