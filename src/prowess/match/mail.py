"""Tell what an e-mail says from what mail programs and signatures put around it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

# Each of these may say something else in one line of a message; so a pattern covers a whole line.
_HEADER = re.compile(
    r"(?:from|to|cc|sent|date|reply-to|von|an|gesendet|datum|de|para|enviado|fecha|à|envoyé|date)\s?: \S.{0,200}",
    re.IGNORECASE,
)
_SUBJECT = re.compile(r"(?:subject|betreff|asunto|objet)\s?:\s*(?:(?:re|fwd?|aw|wg|rv|tr)\s?:\s*)*", re.IGNORECASE)
_FORWARDED = re.compile(
    r"-{2,20} ?(?:(?:original|forwarded) message|ursprüngliche nachricht|weitergeleitete nachricht|mensaje (?:original|reenviado)"
    r"|message (?:d'origine|transféré)) ?-{2,20}|begin forwarded message:",
    re.IGNORECASE,
)
_ATTRIBUTION = re.compile(r"(?:on|am|el|le)\b.{5,200}\b(?:wrote|schrieb|escribió|a écrit)\b.{0,80}:", re.IGNORECASE)
"""`On Tue, Oct 1, 2024 at 9:14 AM Peter <peter@olsen.example> wrote:`"""
_DEVICE = re.compile(
    r"(?:sent from my|get outlook for|von meinem .{1,40} gesendet|enviado desde mi|envoyé de(?:puis)? mon)\b.{0,60}",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"(?:(?:with )?(?:best|kind|warm|many)(?: regards| wishes| thanks)?|regards|cheers|thanks|thank you|thx|sincerely|yours(?: sincerely)?"
    r"|(?:viele|liebe|beste|schöne|mit (?:freundlichen|besten)) grü(?:ß|ss)en?|mfg|vg|lg|danke|(?:un )?saludos?|atentamente|gracias"
    r"|(?:bien )?cordialement|bien à vous|bonne journée|merci(?: d'avance)?)(?: in advance| schon mal)?\s?[,.!]*",
    re.IGNORECASE,
)
"""The line before the name of the sender."""
_DELIMITER = "--"
_LONGEST_SIGNATURE, _LONGEST_NAME = 12, 60
_FEWEST_LINES = 3


class Mail(NamedTuple):
    """A text in two parts."""

    text: str
    quoted: str
    """The lines of others that it answers."""


def read_mail(text: str) -> Mail:
    """Return what the sender of an e-mail wrote, and what was quoted; any other text stays as it is."""
    lines = text.split("\n")
    if len(lines) < _FEWEST_LINES:
        return Mail(text, "")
    kept: list[str] = []
    quoted: list[str] = []
    headers = sum(bool(_HEADER.fullmatch(line.strip()) or _SUBJECT.match(line.strip())) for line in lines)
    left = 0
    for place, line in enumerate(lines):
        said = line.strip()
        if said.startswith(">"):
            quoted.append(said.lstrip("> "))
            left = 0
        elif _ATTRIBUTION.fullmatch(said) or _FORWARDED.fullmatch(said):
            left = 0
        elif headers > 1 and (_HEADER.fullmatch(said) or _SUBJECT.match(said)):
            kept += [said[found.end() :]] if (found := _SUBJECT.match(said)) else []
            left = 0
        elif (line.rstrip() == _DELIMITER or _is_closing(said, lines, place)) and _is_text(kept):
            left = _LONGEST_SIGNATURE
        elif left:
            left -= 1
        elif not _DEVICE.fullmatch(said):
            kept.append(line)
    return Mail("\n".join(kept), "\n".join(quoted)) if _is_text(kept) else Mail(text, "")


def _is_closing(said: str, lines: Sequence[str], place: int) -> bool:
    """Return True for the line before the name of the sender: "thanks" may also come between two requests."""
    if not _CLOSING.fullmatch(said):
        return False
    name = next((name for after in range(place + 1, len(lines)) if (name := lines[after].strip())), "")
    return (
        not name
        or name.startswith(">")
        or (name[0].isupper() and len(name) <= _LONGEST_NAME and name[-1] not in ".?!:")
    )


def _is_text(lines: Sequence[str]) -> bool:
    return any(letter.isalnum() for line in lines for letter in line)
