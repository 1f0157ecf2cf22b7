"""A session: one conversation with the skills that are enabled in it, and the room that is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class EnabledSkill:
    """A skill whose text is in the prompt: which bytes, and how many characters (and about how many tokens) they take."""

    slug: str
    title: str
    digest: str
    scope: str
    source_type: Literal["catalog", "registry"]
    content_length: int
    tokens: int
    enabled_at: str
    approval: str = ""
    """The id of the approval that let it in, where one was needed."""
    by: str = ""
    """The label of who enabled it."""
    by_admin: bool = False
    """Whether that was an administrator."""
    place: str = ""
    """Where the skill lay that was let in."""
    rules: str = ""
    """The mark of the policy under which it was let in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How many characters the enabled skills may take together, and how many they do."""

    limit: int
    used: int

    @property
    def left(self) -> int:
        """The room that is left; none where the limit was lowered below what is used."""
        return max(self.limit - self.used, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One conversation, as of the moment it was read; a change gives a new value."""

    id: str
    conversation: str
    organization: str
    user: str
    actor: str
    role: str
    model: str
    window: int | None
    budget: Budget
    enabled: tuple[EnabledSkill, ...]
    created_at: str
    updated_at: str

    @property
    def state(self) -> dict[str, Any]:
        """What `skills_state_changed` announces."""
        return {
            "enabled_skills": [
                {
                    "name": skill.title,
                    "slug": skill.slug,
                    "content_length": skill.content_length,
                    "source_type": skill.source_type,
                }
                for skill in self.enabled
            ],
            "budget_used_chars": self.budget.used,
            "budget_max_chars": self.budget.limit,
        }

    @property
    def tokens(self) -> int:
        """About how many tokens the enabled skills take."""
        return sum(skill.tokens for skill in self.enabled)

    def get(self, slug: str) -> EnabledSkill | None:
        """The enabled skill of that slug; None where it is not enabled."""
        return next((skill for skill in self.enabled if skill.slug == slug), None)

    def has(self, slug: str) -> bool:
        """Whether the skill is enabled."""
        return self.get(slug) is not None
