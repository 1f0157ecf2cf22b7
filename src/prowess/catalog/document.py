"""What an index reads of a skill: everything that says when it should be used. Nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from prowess.skill.model import Skill


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One skill without its files. `triggers` are when it says to use it, and its trigger phrases."""

    slug: str
    title: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    triggers: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    body: str = ""
    version: str = ""
    scope: str = "workspace"
    digest: str = ""

    @classmethod
    def of(cls, skill: Skill) -> Self:
        """What there is to index in a skill."""
        when = (skill.when_to_use,) if skill.when_to_use else ()
        return cls(
            slug=skill.slug,
            title=skill.title,
            description=skill.description,
            tags=skill.tags,
            triggers=(*when, *skill.trigger_phrases),
            patterns=skill.intent_patterns,
            keywords=skill.keywords,
            body=skill.body,
            version=skill.version,
            scope=skill.scope,
            digest=skill.digest,
        )


class Fresh:
    """Skills that a look at a folder has just read, so that an index need not read them again.

    Each is kept until it is asked for; what there is no room for has to be read again.
    """

    MOST = 64 * 1024 * 1024
    """The most characters that all skills kept have together."""

    def __init__(self) -> None:
        self._skills: dict[str, Skill] = {}
        self._size = 0

    def take(self, location: str, skill: Skill) -> None:
        """Keep the skill that was read at a place, in the stead of what was there, if there is room."""
        self._drop(location)
        size = _characters(skill)
        if self._size + size <= self.MOST:
            self._skills[location] = skill
            self._size += size

    def give(self, location: str, digest: str) -> Skill | None:
        """The skill of a place, once, if it is kept and has these files."""
        skill = self._drop(location)
        return skill if skill is not None and skill.digest == digest else None

    def _drop(self, location: str) -> Skill | None:
        skill = self._skills.pop(location, None)
        self._size -= _characters(skill) if skill is not None else 0
        return skill


def _characters(skill: Skill) -> int:
    return sum(len(artifact.content) for artifact in skill.artifacts)
