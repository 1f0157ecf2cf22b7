"""Texts that fit: shortened at the end of a sentence or word, or lengthened with what is known."""

from __future__ import annotations

import re

ELLIPSIS = "…"

_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？]")
_MIDDLE = 0.5


def shorten(text: str, limit: int) -> str:
    """The beginning of a text within `limit` characters, the ellipsis included; a text that fits stays as it is.

    It ends with a sentence where that keeps at least half of what fits, else with a word.
    """
    if len(text) <= limit:
        return text
    room = text[: limit - len(ELLIPSIS) - 1]
    ends = [found.end() for found in _SENTENCE_END.finditer(text, 0, len(room) + 1) if found.end() <= len(room)]
    if ends and ends[-1] >= len(room) * _MIDDLE:
        return room[: ends[-1]] + " " + ELLIPSIS
    words = room.rstrip() if text[len(room)].isspace() else room.rpartition(" ")[0].rstrip()
    return (words if len(words) >= len(room) * _MIDDLE else room.rstrip()) + ELLIPSIS


def lengthen(text: str, title: str, least: int) -> str:
    """A text of at least `least` characters that says the same, with the title of the skill added."""
    if len(text) >= least:
        return text
    longer = f"{text.rstrip().rstrip('.')}. Use this skill for {title.rstrip('.') or 'this'}."
    return longer.ljust(least, ".")


def without_markup(text: str) -> str:
    """The text with angle brackets that no parser takes for a tag."""
    return text.replace("<", "‹").replace(">", "›")
