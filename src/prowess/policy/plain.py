"""Text from elsewhere, made fit to be kept: every database takes it, and it has an end."""

from __future__ import annotations

import unicodedata

_LIMIT = 2_000
_MARK = "\ufffd"


def plain(text: str, *, limit: int = _LIMIT) -> str:
    """The text, cut at the limit, with a mark for each control character (but tab and line feed) and surrogate."""
    kept = text[:limit]
    if kept.isprintable():
        return kept
    return "".join(_MARK if _is_unfit(char) else char for char in kept)


def has_unfit(text: str) -> bool:
    """Whether there are control characters or surrogates in a text, tab and line feed included."""
    return any(unicodedata.category(char) in ("Cc", "Cs") for char in text)


def _is_unfit(char: str) -> bool:
    return char not in "\n\t" and has_unfit(char)
