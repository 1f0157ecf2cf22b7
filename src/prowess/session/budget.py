"""What to say when the prompt budget has no room."""

from __future__ import annotations

from collections.abc import Sequence

from prowess.errors import BudgetExceeded
from prowess.session.session import Budget, EnabledSkill, Session


def fits(slug: str, need: int, session: Session | None, limit: int) -> bool:
    """Whether a skill has room in a session, or in a new one with that limit."""
    return need <= limit if session is None else over_budget(slug, need, 0, session) is None


def over_budget(slug: str, need: int, tokens: int, session: Session) -> BudgetExceeded | None:
    """The error for a skill that does not fit: limit, use, need, and which enabled skills would make room.

    What the skill itself has in the prompt does not count: it is to be replaced. A text that is no longer than that
    always fits, as in a session whose budget was lowered.
    """
    held = session.get(slug)
    own = held.content_length if held else 0
    budget = Budget(limit=session.budget.limit, used=session.budget.used - own)
    if need <= own or budget.used + need <= budget.limit:
        return None
    room = making_room(need, budget, [skill for skill in session.enabled if skill is not held])
    if need > budget.limit:
        hint = f"It never fits: raise the budget of the session to at least {need:,}, or shorten the skill."
    elif room:
        hint = f"Disable {_listed(room)} to make room, or raise the budget of the session."
    else:
        hint = "Raise the budget of the session."
    return BudgetExceeded(
        f"The skill {slug!r} needs {need:,} characters (about {tokens:,} tokens); "
        f"{budget.used:,} of {budget.limit:,} are in use, so {budget.left:,} are left.",
        limit=budget.limit,
        used=budget.used,
        need=need,
        room=room,
        hint=hint,
    )


def making_room(need: int, budget: Budget, enabled: Sequence[EnabledSkill]) -> tuple[str, ...]:
    """The fewest enabled skills that would make room, those enabled longest first among equals; none where none would."""
    missing = need - (budget.limit - budget.used)
    by_size = sorted(enabled, key=lambda skill: -skill.content_length)
    alone = [skill for skill in enabled if skill.content_length >= missing]
    if missing <= 0 or need > budget.limit:
        return ()
    if alone:
        return (min(alone, key=lambda skill: skill.content_length).slug,)
    chosen: list[str] = []
    for skill in by_size:
        if missing <= 0:
            break
        chosen.append(skill.slug)
        missing -= skill.content_length
    return tuple(chosen) if missing <= 0 else ()


def _listed(slugs: Sequence[str]) -> str:
    quoted = [repr(slug) for slug in slugs]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
