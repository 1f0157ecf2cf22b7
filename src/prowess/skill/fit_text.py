"""Names and descriptions that a profile accepts, as near as possible to those of the skill."""

from __future__ import annotations

import re
import unicodedata

from prowess.skill.model import Skill
from prowess.skill.profiles.bernstein import NAME as BERNSTEIN_NAME
from prowess.skill.profiles.claude_api import RESERVED
from prowess.skill.profiles.profile import ProfileName
from prowess.skill.slug import slugify


def choose_name(skill: Skill, profile: ProfileName) -> str:
    """Return the last segment of the slug, changed only as far as the profile requires."""
    name = skill.name
    if profile in ("claude-api", "bernstein"):
        name = _to_ascii(name)
    if profile == "claude-api":
        name = "-".join(word for word in name.split("-") if not any(taken in word for taken in RESERVED))
    if profile == "bernstein" and name and not BERNSTEIN_NAME.fullmatch(name):
        name = f"skill-{name}"[:64].rstrip("-")
    return name or f"skill-{skill.digest[:8]}"


def _to_ascii(name: str) -> str:
    """Return the name in the letters a to z: accents removed, other scripts left out."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii")
    return slugify(plain).rpartition(".")[2]


ELLIPSIS = "…"

_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？]")
_LEAST_KEPT = 0.5


def shorten(text: str, limit: int) -> str:
    """Return the start of a text within `limit` characters, including the ellipsis; a text that fits is returned unchanged.

    It ends at a sentence if that keeps at least half of what fits, else at a word.
    """
    if len(text) <= limit:
        return text
    # Room for a space and the ellipsis.
    room = text[: limit - len(ELLIPSIS) - 1]
    ends = [found.end() for found in _SENTENCE_END.finditer(text, 0, len(room) + 1) if found.end() <= len(room)]
    if ends and ends[-1] >= len(room) * _LEAST_KEPT:
        return room[: ends[-1]] + " " + ELLIPSIS
    words = room.rstrip() if text[len(room)].isspace() else room.rpartition(" ")[0].rstrip()
    return (words if len(words) >= len(room) * _LEAST_KEPT else room.rstrip()) + ELLIPSIS


def lengthen(text: str, title: str, least: int) -> str:
    """Return a text of at least `least` characters with the same meaning, by adding the title of the skill."""
    if len(text) >= least:
        return text
    longer = f"{text.rstrip().rstrip('.')}. Use this skill for {title.rstrip('.') or 'this'}."
    return longer.ljust(least, ".")


def replace_angle_brackets(text: str) -> str:
    """Return the text with angle brackets that no parser mistakes for a tag."""
    return text.replace("<", "‹").replace(">", "›")
