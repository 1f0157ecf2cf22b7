"""Where a skill that is to be written came from: its files in their own form, and what was read from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from prowess.skill.forms.form import Reading
from prowess.skill.forms.layout import is_path, state_path_of
from prowess.skill.forms.origin import Origin
from prowess.skill.kinds import Artifact
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import FormName, Skill
from prowess.skill.package import File, Package

_BY_STORE = {"id", "scope", "location", "created_at", "updated_at"}
_BY_FILES = {"form", "manifest", "digest", "content_length", "frontmatter"}
_ARTIFACT_BY_STORE = {"id", "skill_id", "revision"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """The files of a skill before it is written, their reading, and the form they had first.

    `controls` are the files that say what the skill is in that form; a writing in another form replaces them.
    `claimed` are the files that the skill to be written has for its artifacts; `limits` are those of all reading.
    """

    package: Package
    reading: Reading
    origin: Origin | None
    controls: frozenset[str]
    claimed: frozenset[str] = frozenset()
    limits: Limits = DEFAULT_LIMITS

    def path_in(self, form: FormName, otherwise: str) -> str:
        """Where the skill stood when it was in this form; another path where it was not, or where that is no path."""
        path = self.origin.path if self.origin is not None and self.origin.form == form else None
        return path if path is not None and is_path(path) else otherwise

    def before(self, artifact: Artifact) -> Artifact | None:
        """The artifact as it was read from the file that it still has."""
        skill = self.reading.skill
        if skill is None or artifact.path is None:
            return None
        return next((other for other in skill.artifacts if other.path == artifact.path), None)

    @property
    def others(self) -> list[File]:
        """The files that are neither artifacts nor controls."""
        skill = self.reading.skill
        owned = {*self.controls, *self.claimed}
        for artifact in skill.artifacts if skill else ():
            if artifact.path is not None:
                owned.add(artifact.path)
                if artifact.kind == "dspy_module":
                    owned.add(state_path_of(artifact.path))
        return [file for file in self.package.files if file.path not in owned]


def content_of(skill: Skill) -> dict[str, Any]:
    """What a skill says, without what depends on where it is kept and in which files."""
    values = skill.model_dump(exclude=_BY_STORE | _BY_FILES)
    for artifact in values["artifacts"]:
        for field in _ARTIFACT_BY_STORE:
            del artifact[field]
    return values
