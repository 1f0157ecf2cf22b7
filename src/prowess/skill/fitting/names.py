"""Names that a profile accepts, as near as possible to the skill's own slug."""

from __future__ import annotations

import unicodedata

from prowess.skill.model import Skill
from prowess.skill.profiles.bernstein import NAME as BERNSTEIN_NAME
from prowess.skill.profiles.claude_api import RESERVED
from prowess.skill.profiles.profile import ProfileName
from prowess.skill.slug import slugify


def name_for(skill: Skill, profile: ProfileName) -> str:
    """The last segment of the slug, changed only as far as the profile demands."""
    name = skill.name
    if profile in ("claude-api", "bernstein"):
        name = _ascii(name)
    if profile == "claude-api":
        name = "-".join(word for word in name.split("-") if not any(taken in word for taken in RESERVED))
    if profile == "bernstein" and name and not BERNSTEIN_NAME.fullmatch(name):
        name = f"skill-{name}"[:64].rstrip("-")
    return name or f"skill-{skill.digest[:8]}"


def _ascii(name: str) -> str:
    """The name in the letters a to z: accents dropped, other scripts left out."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii")
    return slugify(plain).rpartition(".")[2]
