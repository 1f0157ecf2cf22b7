"""The changes that fitting a skill to a profile can make, each reported as a `Problem` with a stable code."""

from __future__ import annotations

from collections.abc import Iterator

from prowess.errors import Problem, Severity
from prowess.skill.filenames import SKILL_MD
from prowess.skill.text.document import Document

FIT_CODES: dict[str, str] = {
    "completed": "A field that the profile wants was filled in from what else is known.",
    "left-out": "Something was left out because the profile has no place for it.",
    "lengthened": "A text was lengthened to reach the minimum of the profile.",
    "moved-to-sidecar": "A key was moved to agents/prowess.yaml because the profile does not allow it.",
    "renamed": "The skill was given a name that the profile accepts.",
    "replaced": "Characters that the profile refuses were replaced by similar ones.",
    "rewritten": "SKILL.md was written anew, with the same content, in the way the profile wants.",
    "shortened": "A text was shortened to the limit of the profile.",
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
    message = f"The name is {after!r} instead of {before[:80]!r}, as the profile and the folder need it."
    return change(
        "renamed", message, "Rename the skill itself if it should keep one name everywhere.", key="name", line=line
    )


def shortened(before: int, after: int, limit: int, line: int | None) -> Problem:
    """Report a shorter description."""
    message = f"The description was cut from {before:,} to {after:,} characters; the profile allows {limit:,}."
    return change("shortened", message, "Shorten it by hand to choose what stays.", key="description", line=line)


def lengthened(least: int, line: int | None) -> Problem:
    """Report a longer description."""
    message = f"The description was lengthened, because the profile wants at least {least} characters."
    return change("lengthened", message, "Say more about what the skill does.", key="description", line=line)


def replaced(line: int | None) -> Problem:
    """Report replaced brackets in the description."""
    message = "The angle brackets in the description were replaced by ‹ and ›, because the profile refuses them."
    return change("replaced", message, "Write the description without them.", key="description", line=line)


def completed(key: str, source: str) -> Problem:
    """Report a field that was filled in."""
    return change("completed", f"The {key} was filled in from {source}.", f"Write one with `{key}: …`.", key=key)


def rewritten() -> Problem:
    """Report that only the formatting changed."""
    message = "SKILL.md was written anew, with the same content, in a way that the profile takes."
    return change("rewritten", message, key=SKILL_MD, minor=True)


def moved(document: Document | None, kept: set[str]) -> Iterator[Problem]:
    """Report the keys of the source that are now in the sidecar."""
    for key, line in _removed_keys(document, kept):
        message = f"{key[:80]!r} was moved to agents/prowess.yaml, because the profile does not allow it in SKILL.md."
        yield change("moved-to-sidecar", message, key=key, line=line)


def left_out(document: Document | None, kept: set[str]) -> Iterator[Problem]:
    """Report the keys of the source that were removed."""
    for key, line in _removed_keys(document, kept):
        message = f"{key[:80]!r} was left out, because the profile does not allow it."
        yield change("left-out", message, "Keep the original if it matters.", key=key, line=line)


def file_left_out(path: str, size: int) -> Problem:
    """Report a file that was removed."""
    message = f"{path} ({size:,} bytes) was left out to stay within the limits of the profile."
    return change("left-out", message, "Make the files smaller or fewer to keep it.", key=path)


def _removed_keys(document: Document | None, kept: set[str]) -> Iterator[tuple[str, int | None]]:
    if document is not None:
        for key, value in document.fields.items():
            if key not in kept and value not in (None, "", [], {}):
                yield key, document.lines.get(key)
