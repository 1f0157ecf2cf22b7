"""What no code of a skill may leave in a folder of people: what would be read as a skill there, or run by tools that find it.

A skill that could write another one, or into a hidden folder such as `.git`, would have its words followed, or its programs run,
by whoever comes next, and nobody would have been asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from prowess.skill.borders import is_marker

SKILLS = "skills"
"""How every folder is called in which skills are looked for."""


def why_planted(folder: Sequence[str], names: Sequence[str]) -> str:
    """Why nothing is written at these names in a folder, which is given by its own names; '' where nothing speaks against it."""
    if is_hidden(names):
        return "tools read and run what they find under hidden names"
    if SKILLS in (name.lower() for name in (*folder, *names)) or is_marker(names[-1]):
        return "it would be read as a skill"
    return ""


def is_hidden(names: Sequence[str]) -> bool:
    """Whether one of the names is hidden."""
    return any(name.startswith(".") for name in names)
