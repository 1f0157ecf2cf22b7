"""Codes of the problems that a store or the catalog reports about a skill it does not serve."""

from __future__ import annotations

from prowess.errors import Problem, ProwessError

CODES = {
    "slug-conflict": "Two skills of one scope claim the same slug with different files; the first is served.",
    "link-refused": "A symbolic link leads out of the skill folders and is not followed.",
    "unreadable": "The files cannot be read, or are not allowed in a skill.",
    "store-unavailable": "A place where skills are kept does not answer; the others are served.",
}


def fault_problem(code: str, message: str, hint: str) -> Problem:
    """A problem that keeps a skill from being served."""
    return Problem(code=code, severity="error", message=message, hint=hint)


def unreadable(error: ProwessError) -> Problem:
    """The problem of files that could not be read."""
    return fault_problem("unreadable", error.message, error.hint)


def slug_conflict(slug: str, served: str, other: str) -> Problem:
    """The problem of a skill whose slug another one of the same scope has."""
    return fault_problem(
        "slug-conflict",
        f"The slug {slug!r} is claimed by {served!r} and by {other!r}; the first is served.",
        f"Give {other!r} another name or slug, or remove one of the two.",
    )
