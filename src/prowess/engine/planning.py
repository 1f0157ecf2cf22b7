"""The plan of an index: which skills keep their description, by how well they fit and how much they are used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prowess.policy.actor import Actor

if TYPE_CHECKING:
    from prowess.match.matcher import Matcher
    from prowess.session.index import IndexPlan
    from prowess.session.session import Session
    from prowess.skill.model import SkillCard
    from prowess.storage.database import Connections

_RANKED = 200
_USED_DAYS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """Plans indexes from the ranking of a message and the recent uses in the actor's organization. Blocking."""

    matcher: Callable[[], Matcher]
    records: Callable[[], Connections]
    has_records: Callable[[], bool]

    def plan(
        self,
        actor: Actor,
        cards: Sequence[SkillCard],
        *,
        message: str = "",
        session: Session | None = None,
        budget: int | None = None,
    ) -> tuple[IndexPlan, int]:
        """The plan, and the budget of characters that it keeps to: the given one, or that of the session's window."""
        from prowess.session.index import IndexCard, default_budget, plan

        chosen = default_budget(session.window if session else None) if budget is None else budget
        fitting = {item.slug: item.score for item in self.matcher().rank(message, limit=_RANKED)} if message else {}
        uses = self._uses(actor)
        listed = [
            IndexCard(card.slug, card.description, fitting.get(card.slug, 0.0), uses.get(card.slug, 0))
            for card in cards
        ]
        return plan(listed, chosen), chosen

    def _uses(self, actor: Actor) -> dict[str, int]:
        """How often each skill was loaded lately."""
        if not self.has_records():
            return {}
        from prowess.delivery.uses import recent_uses

        return recent_uses(self.records(), actor.organization, days=_USED_DAYS)
