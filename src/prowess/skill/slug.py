"""Slugs: the names that identify skills.

A slug is `name` or `namespace.name`. As in the open standard, each segment has lowercase letters, digits and single hyphens
(letters of a script without upper case count as lowercase). The last segment has at most 64 characters.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

from prowess.errors import Invalid
from prowess.patterns import lazy_pattern

MAX_NAME_CHARS = 64
MAX_SLUG_CHARS = 200
MAX_TOOL_NAME_CHARS = 64
"""The longest tool name that model APIs accept."""

_PLAIN = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*(?:\.[a-z0-9]+(?:-[a-z0-9]+)*)*", re.ASCII)
_SEPARATORS = lazy_pattern(r"[\W_]+")


def is_slug(text: str) -> bool:
    """Return True if `text` is a valid slug."""
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
        # Two names that look the same, such as one with full-width letters, must not be two slugs.
        and unicodedata.normalize("NFKC", segment) == segment
        and segment == segment.lower()
        and "--" not in segment
        and not segment.startswith("-")
        and not segment.endswith("-")
        and all(char.isalnum() or char == "-" for char in segment)
    )


def check_slug(text: str) -> str:
    """Return `text` if it is a slug; raise `Invalid`, with a suggestion, if not."""
    if is_slug(text):
        return text
    suggestion = slugify(text)
    hint = f"Try {suggestion!r}." if suggestion else "Use letters, digits and hyphens, such as 'release-notes'."
    raise Invalid(
        f"Invalid slug {text[:80]!r}. Use lowercase letters, digits and single hyphens; join segments "
        f"with dots; the last segment can have at most {MAX_NAME_CHARS} characters.",
        hint=hint,
    )


def check_name(name: str) -> str:
    """Return what a caller names a skill by, a slug or an address; raise `Invalid` if it is not a string."""
    if isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        return name
    raise Invalid(f"The name of a skill must be a string, not {type(name).__name__}.")


def slugify(text: str) -> str:
    """Return the slug nearest to a free-text name, or '' if no character of it can be kept.

    A valid slug is returned unchanged, with its namespace.
    """
    text = unicodedata.normalize("NFKC", text).strip()
    if is_slug(text):
        return text
    words = unicodedata.normalize("NFKC", _SEPARATORS.sub("-", text.lower()))
    joined = "-".join(word for word in words.split("-") if word)
    return joined[:MAX_NAME_CHARS].strip("-")


def tool_name(slug: str) -> str:
    """Return the name under which agents call the skill as a tool: at most 64 characters of a-z, 0-9 and `_`.

    A slug that is too long, or has other letters, is shortened and made unique by the start of its digest.
    """
    name = "skill_" + slug.replace(".", "_").replace("-", "_")
    if name.isascii() and len(name) <= MAX_TOOL_NAME_CHARS:
        return name
    mark = hashlib.sha256(slug.encode()).hexdigest()[:8]
    ascii_name = "".join(char for char in name if char.isascii())[: MAX_TOOL_NAME_CHARS - 1 - len(mark)]
    return f"{ascii_name.rstrip('_')}_{mark}"
