"""A description cut into what it says the skill is for; what it is not for is left out."""

from __future__ import annotations

import re

_BEGINS = r"(?:(?<=^)|(?<=[\n.;:!?()\[\]—–-])|(?<=, )|(?<=\bbut )|(?<=\band ))\s*(?:\*\*|__)?"
_SUBJECT = r"(?:please |you |(?:(?:this|the)(?: skill)?|it) )?"
_USED = r"(?:use|trigger|apply|invoke|activate|cover)"
_REFUSES = (
    r"(?:is )?not (?:(?:suitable|intended|meant|designed|suited|recommended|ideal|useful|needed|used) )?for",
    r"isn['’]t (?:(?:suitable|intended|meant|designed|suited|recommended) )?for",
    r"(?:is )?not to be used",
    r"(?:is )?not applicable",
    rf"do(?:es)? not {_USED}",
    rf"do(?:es)?n['’]?t {_USED}",
    r"(?:should|must) not (?:be used|use)",
    r"(?:when )?not to use",
    r"never use",
    r"avoid (?:using|for|when)",
    r"skip (?:this|if|when|for)",
    r"unsuitable for",
    r"not when",
)
_TO_ITS_END = r"(?:\b(?:e\.g|i\.e)\.|[^.;!?\n]|\.(?=(?-i:[a-z0-9])))*(?:[.;!?\n]+|$)"
"""A dot inside a name or a number (`.docx`, `2.0`) ends nothing."""

_NOT_FOR = re.compile(rf"{_BEGINS}{_SUBJECT}(?:{'|'.join(_REFUSES)})\b{_TO_ITS_END}", re.IGNORECASE)
_REFUSING = ("not", "isn", "don", "doesn", "never", "avoid", "skip", "unsuitable")
"""Without any of these there is no such clause, which is far quicker to tell."""

_PARTS = re.compile(r"[\s,:](?:(?<=[.;!?]\s)\s*|(?<=\n)\n*|(?<=,)\s+|(?<=\s)[—–-]\s|(?<=:)\s+)")
"""Begins with the characters that may part, so that all others are passed over quickly."""
_LEAST = 9
MOST_PARTS = 24


def wanted(text: str) -> str:
    """The text without its "not for …" clauses."""
    if text.isascii():
        lower = text.lower()
        if not any(word in lower for word in _REFUSING):
            return text
    return _NOT_FOR.sub(" ", text)


def parts(text: str) -> list[str]:
    """The sentences and list members of a text, each a thing that somebody may ask for; nothing of it is lost.

    What is too short to stand alone joins the part before it, and so does all that comes after the last of `MOST_PARTS`.
    """
    found: list[str] = []
    for part in _PARTS.split(text):
        if found and (len(part) < _LEAST or len(found) == MOST_PARTS):
            found[-1] += f" {part}"
        elif part.strip():
            found.append(part)
    return found
