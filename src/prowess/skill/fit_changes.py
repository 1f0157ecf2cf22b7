"""The changes that fitting a skill to a profile can make, each reported as a `Problem` with a stable code."""

from __future__ import annotations

from collections.abc import Iterator

from prowess.errors import Problem, Severity
from prowess.skill.filenames import SKILL_MD
from prowess.skill.text.document import Document

FIT_CODES: dict[str, str] = {
    "completed": "A field that the profile requires was filled in from the rest of the skill.",
    "left-out": "Something was left out because the profile does not support it.",
    "lengthened": "A text was extended to reach the profile's minimum length.",
    "moved-to-sidecar": "A key was moved to agents/prowess.yaml because the profile does not allow it.",
    "renamed": "The skill was renamed to a name that the profile accepts.",
    "replaced": "Characters that the profile rejects were replaced with similar ones.",
    "rewritten": "SKILL.md was reformatted for the profile; its content is the same.",
    "shortened": "A text was shortened to the profile's limit.",
}
"""The meaning of each code, in one line."""


def change(
    code: str, message: str, hint: str = "", *, key: str | None = None, line: int | None = None, minor: bool = False
) -> Problem:
    """Return one change; `minor` if the content is the same."""
    severity: Severity = "info" if minor else "warning"
    return Problem(code=code, severity=severity, message=message, hint=hint, field=key, line=line)


def renamed(before: str, after: str, line: int | None) -> Problem:
    """Report a new name."""
    message = f"The skill was renamed from {before[:80]!r} to {after!r} to match the profile and its folder."
    return change(
        "renamed", message, "Rename the original skill to use the same name everywhere.", key="name", line=line
    )


def shortened(before: int, after: int, limit: int, line: int | None) -> Problem:
    """Report a shorter description."""
    message = f"The description was shortened from {before:,} to {after:,} characters; the profile allows {limit:,}."
    return change(
        "shortened", message, "Shorten the description yourself to choose what is kept.", key="description", line=line
    )


def lengthened(minimum: int, line: int | None) -> Problem:
    """Report a longer description."""
    message = f"The description was extended because the profile requires at least {minimum} characters."
    return change("lengthened", message, "Add a sentence about what the skill does.", key="description", line=line)


def replaced(line: int | None) -> Problem:
    """Report replaced brackets in the description."""
    message = "Angle brackets in the description were replaced with ‹ and › because the profile rejects them."
    return change("replaced", message, "Remove the angle brackets from the description.", key="description", line=line)


def completed(key: str, source: str) -> Problem:
    """Report a field that was filled in."""
    return change("completed", f"The {key} was filled in from {source}.", f"Set it with `{key}: …`.", key=key)


def rewritten() -> Problem:
    """Report that only the formatting changed."""
    message = "SKILL.md was reformatted for the profile; its content is the same."
    return change("rewritten", message, key=SKILL_MD, minor=True)


def moved(document: Document | None, kept: set[str]) -> Iterator[Problem]:
    """Report the keys of the source that are now in the sidecar."""
    for key, line in _removed_keys(document, kept):
        message = f"{key[:80]!r} was moved to agents/prowess.yaml because the profile does not allow it in SKILL.md."
        yield change("moved-to-sidecar", message, key=key, line=line)


def left_out(document: Document | None, kept: set[str]) -> Iterator[Problem]:
    """Report the keys of the source that were removed."""
    for key, line in _removed_keys(document, kept):
        message = f"{key[:80]!r} was left out because the profile does not allow it."
        yield change("left-out", message, "Keep the original skill if you need this key.", key=key, line=line)


def file_left_out(path: str, size: int) -> Problem:
    """Report a file that was removed."""
    message = f"{path} ({size:,} bytes) was left out to stay within the profile's limits."
    return change("left-out", message, "Reduce the number or size of the files to keep it.", key=path)


def _removed_keys(document: Document | None, kept: set[str]) -> Iterator[tuple[str, int | None]]:
    if document is not None:
        for key, value in document.fields.items():
            if key not in kept and value not in (None, "", [], {}):
                yield key, document.lines.get(key)
