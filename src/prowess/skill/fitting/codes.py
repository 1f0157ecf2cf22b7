"""Every change that fitting makes, by its stable code."""

from __future__ import annotations

CODES: dict[str, str] = {
    "completed": "A field that the profile wants was filled in from what else is known.",
    "left-out": "Something was left out because the profile has no place for it.",
    "lengthened": "A text was lengthened to reach the minimum of the profile.",
    "moved-to-sidecar": "A key was moved to agents/prowess.yaml because the profile does not allow it.",
    "renamed": "The skill was given a name that the profile accepts.",
    "replaced": "Characters that the profile refuses were replaced by similar ones.",
    "rewritten": "SKILL.md was written anew, with the same content, in the way the profile wants.",
    "shortened": "A text was shortened to the limit of the profile.",
}
"""What each code means, in one line."""
