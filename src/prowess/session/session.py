"""A session: one conversation, the skills enabled in it, and its budget in characters and tokens."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, Literal

from prowess.errors import BudgetExceeded
from prowess.lazy_dataclass import dataclass
from prowess.patterns import lazy_pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class EnabledSkill:
    """A skill whose text is in the prompt: its bytes, and the characters and estimated tokens that they take."""

    slug: str
    title: str
    digest: str
    scope: str
    source_type: Literal["catalog", "registry"]
    content_length: int
    tokens: int
    enabled_at: str
    approval: str = ""
    """The id of the approval that admitted it, if one was needed."""
    by: str = ""
    """The label of who enabled it."""
    by_admin: bool = False
    """True if an administrator enabled it."""
    place: str = ""
    """The location that the skill was enabled from."""
    trust: str = ""
    """Its trust when it was admitted."""
    rules: str = ""
    """The fingerprint of the policy under which it was admitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How many characters the enabled skills may take together, and how many they do."""

    limit: int
    used: int

    @property
    def left(self) -> int:
        """The characters that are left; 0 if the limit was lowered below what is used."""
        return max(self.limit - self.used, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One conversation as of the moment it was read. A change returns a new value."""

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
        """The data of the event `skills_state_changed`."""
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
    def position(self) -> tuple[str, str]:
        """Its place in a list of sessions: when it was last changed, and its id."""
        return self.updated_at, self.id

    @property
    def name(self) -> str:
        """The conversation for a person to read: `default` without its folder."""
        return "default" if self.conversation.startswith("default:") else self.conversation

    @property
    def tokens(self) -> int:
        """An estimate of the tokens that the enabled skills take."""
        return sum(skill.tokens for skill in self.enabled)

    def get(self, slug: str) -> EnabledSkill | None:
        """Return the enabled skill with this slug, or None."""
        return next((skill for skill in self.enabled if skill.slug == slug), None)

    def has(self, slug: str) -> bool:
        """Return True if the skill is enabled."""
        return self.get(slug) is not None


CHARS_PER_TOKEN = 4

_CJK = lazy_pattern("[\u1100-\u11ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: one for four bytes of UTF-8, or one for a Chinese, Japanese or Korean character."""
    size = len(text.encode("utf-8", "surrogatepass"))
    # A CJK character takes three bytes in UTF-8; one more makes it a whole token.
    if size != len(text):
        size += len(_CJK.findall(text))
    return -(-size // CHARS_PER_TOKEN)


def fits_budget(slug: str, need: int, session: Session | None, limit: int) -> bool:
    """Return True if a skill fits into a session, or into a new one with this limit."""
    return need <= limit if session is None else check_budget(slug, need, 0, session) is None


def check_budget(slug: str, need: int, tokens: int, session: Session) -> BudgetExceeded | None:
    """Return the error for a skill that does not fit, with the skills that would make room; None if it fits.

    The skill's own text in the prompt does not count, because it is replaced. A text that is not longer than that
    always fits, even if the session's budget was lowered.
    """
    held = session.get(slug)
    own = held.content_length if held else 0
    budget = Budget(limit=session.budget.limit, used=session.budget.used - own)
    if need <= own or budget.used + need <= budget.limit:
        return None
    room = find_skills_to_disable(need, budget, [skill for skill in session.enabled if skill is not held])
    enough = f"raise the budget: `prowess sessions open {shlex.quote(session.name)} --budget {budget.used + need}`."
    if need > budget.limit:
        hint = f"It can never fit. Load it on demand with `prowess load {slug}`, or {enough}"
    elif room:
        hint = f"Disable {_join_quoted(room)} to make room, or {enough}"
    else:
        hint = f"Run `prowess load {slug}` to load it on demand, or {enough}"
    return BudgetExceeded(
        f"The skill {slug!r} needs {need:,} characters (about {tokens:,} tokens); "
        f"{budget.used:,} of {budget.limit:,} are in use, so {budget.left:,} are left.",
        limit=budget.limit,
        used=budget.used,
        need=need,
        room=room,
        hint=hint,
    )


def find_skills_to_disable(need: int, budget: Budget, enabled: Sequence[EnabledSkill]) -> tuple[str, ...]:
    """Return the fewest enabled skills that would make room, preferring older ones among equals; empty if impossible."""
    missing = need - (budget.limit - budget.used)
    by_size = sorted(enabled, key=lambda skill: -skill.content_length)
    alone = [skill for skill in enabled if skill.content_length >= missing]
    if missing <= 0 or need > budget.limit:
        return ()
    # Disabling one skill is better than several, and a small one better than a large one.
    if alone:
        return (min(alone, key=lambda skill: skill.content_length).slug,)
    chosen: list[str] = []
    for skill in by_size:
        if missing <= 0:
            break
        chosen.append(skill.slug)
        missing -= skill.content_length
    return tuple(chosen) if missing <= 0 else ()


def _join_quoted(slugs: Sequence[str]) -> str:
    quoted = [repr(slug) for slug in slugs]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
