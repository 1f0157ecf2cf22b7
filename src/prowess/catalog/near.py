"""What to say when a name is not found: the names nearest to it."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from heapq import nsmallest

from prowess.errors import NotFound

_COMPARED = 400


def unknown_skill(name: str, known: Collection[str], location: str) -> NotFound:
    """The error for a slug that is not there, with the slugs that look like it."""
    return NotFound(f"There is no skill {name[:80]!r} in {location}.", hint=near_hint(name, known))


def unknown_id(what: str, id: str, location: str) -> NotFound:
    """The error for an id that is not there; an id of somebody else reads exactly the same."""
    return NotFound(
        f"There is no {what} with the id {id[:80]!r} in {location}.", hint="List the skills to see them all."
    )


def near_hint(name: str, known: Collection[str]) -> str:
    """A sentence with the known names nearest to `name`, whatever letters are capital."""
    if not known:
        return "Nothing is kept here yet."
    lowered = {other.lower(): other for other in _comparable(name.lower(), known)}
    found = difflib.get_close_matches(name[:200].lower(), lowered, n=3, cutoff=0.5)
    if not found:
        return "List the skills to see them all."
    return "Did you mean " + " or ".join(repr(lowered[match]) for match in found) + "?"


def _comparable(name: str, known: Collection[str]) -> Collection[str]:
    """Comparing takes long, so a large catalog is cut down to those names that begin most alike."""
    if len(known) <= _COMPARED:
        return known
    return nsmallest(_COMPARED, known, key=lambda other: (-_alike(name, other), abs(len(name) - len(other))))


def _alike(one: str, other: str) -> int:
    """With how many of the same characters two names begin."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
