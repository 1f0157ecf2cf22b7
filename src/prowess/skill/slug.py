"""Slugs: what a skill is called by programs.

A slug is `name` or `namespace.name`. Each segment is made of lowercase letters, digits and single hyphens, as the
open standard has it (letters of any script that have no upper case count as lowercase), and the last segment has at
most 64 characters.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

from prowess.errors import Invalid

MAX_NAME_CHARS = 64
MAX_SLUG_CHARS = 200
MAX_TOOL_NAME_CHARS = 64
"""The longest name of a tool that the APIs of models take."""

_PLAIN = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*(?:\.[a-z0-9]+(?:-[a-z0-9]+)*)*", re.ASCII)


def is_slug(text: str) -> bool:
    """Whether `text` is a slug as it stands."""
    if not text or len(text) > MAX_SLUG_CHARS:
        return False
    if _PLAIN.fullmatch(text):
        return len(text.rpartition(".")[2]) <= MAX_NAME_CHARS
    if text.isascii():
        return False
    segments = text.split(".")
    return all(_is_segment(segment) for segment in segments) and len(segments[-1]) <= MAX_NAME_CHARS


def _is_segment(segment: str) -> bool:
    return (
        bool(segment)
        and unicodedata.normalize("NFKC", segment) == segment
        and segment == segment.lower()
        and "--" not in segment
        and not segment.startswith("-")
        and not segment.endswith("-")
        and all(char.isalnum() or char == "-" for char in segment)
    )


def check_slug(text: str) -> str:
    """Give `text` back if it is a slug, else raise `Invalid` with the rule."""
    if is_slug(text):
        return text
    suggestion = slugify(text)
    hint = f"Try {suggestion!r}." if suggestion else "Use letters, digits and hyphens, such as 'release-notes'."
    raise Invalid(
        f"{text[:80]!r} is not a slug: lowercase letters, digits and single hyphens, segments joined by dots, "
        f"the last one at most {MAX_NAME_CHARS} characters.",
        hint=hint,
    )


def slugify(text: str) -> str:
    """The slug nearest to a free-text name, or '' when nothing of it can stay.

    Dots between words that are slugs already are kept as namespaces, so a slug is its own slug.
    """
    text = unicodedata.normalize("NFKC", text).strip()
    if is_slug(text):
        return text
    words = "".join(char if char.isalnum() else "-" for char in text.lower())
    words = unicodedata.normalize("NFKC", words)
    joined = "-".join(word for word in words.split("-") if word)
    return joined[:MAX_NAME_CHARS].strip("-")


def tool_name(slug: str) -> str:
    """The name under which agents call the skill as a tool: at most 64 of the characters a to z, 0 to 9 and `_`.

    A slug that is longer, or has other letters, is cut, and told from its like by a part of its digest.
    """
    name = "skill_" + slug.replace(".", "_").replace("-", "_")
    if name.isascii() and len(name) <= MAX_TOOL_NAME_CHARS:
        return name
    mark = hashlib.sha256(slug.encode()).hexdigest()[:8]
    kept = "".join(char for char in name if char.isascii())[: MAX_TOOL_NAME_CHARS - 1 - len(mark)]
    return f"{kept.rstrip('_')}_{mark}"
