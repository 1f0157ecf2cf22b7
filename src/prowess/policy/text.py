"""Clean text from elsewhere before it is stored: limited in length, without control characters."""

from __future__ import annotations

import unicodedata

_TEXT_LIMIT = 2_000
_REPLACEMENT = "\ufffd"


def clean_text(text: str, *, limit: int = _TEXT_LIMIT) -> str:
    """The text, cut at the limit, with a mark for each control character (but tab and line feed) and surrogate."""
    kept = text[:limit]
    if kept.isprintable():
        return kept
    return "".join(_REPLACEMENT if _is_control_char(char) else char for char in kept)


def has_control_chars(text: str) -> bool:
    """Whether there are control characters or surrogates in a text, tab and line feed included."""
    return any(unicodedata.category(char) in ("Cc", "Cs") for char in text)


def _is_control_char(char: str) -> bool:
    return char not in "\n\t" and has_control_chars(char)
