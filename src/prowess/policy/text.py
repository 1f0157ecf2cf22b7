"""Clean text from elsewhere before it is stored: limited in length, without control characters and hidden ones."""

from __future__ import annotations

import unicodedata

_TEXT_LIMIT = 2_000
_REPLACEMENT = "\ufffd"


def clean_text(text: str, *, limit: int = _TEXT_LIMIT) -> str:
    """Cut a text at the limit, replace control characters (except tab and line feed) and surrogates, and write out hidden ones.

    A person reads it to decide, and characters that turn the direction of a line would make it say something else.
    """
    kept = text[:limit]
    # The common case, and much faster than looking at each character.
    if kept.isascii() and kept.isprintable():
        return kept
    from prowess.skill.text.hidden import show_hidden  # lazy: most texts need no tables of Unicode

    return show_hidden("".join(_REPLACEMENT if _is_control_char(char) else char for char in kept))


def has_control_chars(text: str) -> bool:
    """Return True if the text has control characters (including tab and line feed) or surrogates."""
    return any(unicodedata.category(char) in ("Cc", "Cs") for char in text)


def _is_control_char(char: str) -> bool:
    return char not in "\n\t" and has_control_chars(char)
