"""Find skills for a message, plan the index of skills for a prompt, and explain both."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prowess.engine.parts import Frame, session_key
from prowess.errors import ProwessError
from prowess.policy.actor import Actor

if TYPE_CHECKING:
    from prowess.match.matcher import Matcher
    from prowess.match.recommendation import Recommendation
    from prowess.policy.organization import OrgPolicy
    from prowess.session.explanation import Candidate, Explanation
    from prowess.session.index import IndexPlan
    from prowess.session.session import Session
    from prowess.skill.model import SkillCard
    from prowess.storage.database import Connections


class Finding(Frame):
    """The part of the engine that matches and searches."""

    async def match(
        self, message: str, *, limit: int = 5, tags: Collection[str] = (), context: str = ""
    ) -> list[Recommendation]:
        """The skills worth offering for a message, best first, with reasons; none where none fits. No model is asked.

        `context` is what was said before: it counts less than the message. The skills have all of `tags`.
        """
        return await self._blocking(lambda: self._matcher().match(message, limit=limit, tags=tags, context=context))

    async def rank(
        self, message: str, *, limit: int = 10, tags: Collection[str] = (), context: str = ""
    ) -> list[Recommendation]:
        """The whole ranking for a message, with the decision "no" on what does not fit."""
        return await self._blocking(lambda: self._matcher().rank(message, limit=limit, tags=tags, context=context))

    async def search(self, query: str = "", *, limit: int = 20, tags: Collection[str] = ()) -> list[Recommendation]:
        """What has anything of the query, best first; without one, all skills with the tags, by slug."""
        return await self._blocking(lambda: self._matcher().search(query, limit=limit, tags=tags))


_RANKED_SKILLS = 200
_USAGE_DAYS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPlanner:
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
        from prowess.session.index import IndexCard, default_budget, plan_index

        chosen = default_budget(session.window if session else None) if budget is None else budget
        fitting = (
            {item.slug: item.score for item in self.matcher().rank(message, limit=_RANKED_SKILLS)} if message else {}
        )
        uses = self._uses(actor)
        listed = [
            IndexCard(card.slug, card.description, fitting.get(card.slug, 0.0), uses.get(card.slug, 0))
            for card in cards
        ]
        return plan_index(listed, chosen), chosen

    def _uses(self, actor: Actor) -> dict[str, int]:
        """How often each skill was loaded lately."""
        if not self.has_records():
            return {}
        from prowess.feed.usage import count_recent_loads

        return count_recent_loads(self.records(), actor.organization, days=_USAGE_DAYS)


class Accounting(Frame):
    """The part of the engine that explains itself."""

    async def index(
        self, message: str = "", *, session: Session | str = "", budget: int | None = None, actor: Actor | None = None
    ) -> IndexPlan:
        """The list of available skills for a system prompt, within its own budget of characters.

        Those that fit the message best, and were used most, keep their description; the rest shrinks. Without a budget it
        is a share of the session's context window, or 8,000 characters.
        """
        who = actor or self.actor

        def work() -> IndexPlan:
            held = self._sessions.get(who, session_key(session)) if session else None
            return self._planner.plan(who, self.catalog.cards(), message=message, session=held, budget=budget)[0]

        return await self._blocking(work)

    async def why(
        self, message: str, *, session: Session | str = "", limit: int = 10, actor: Actor | None = None
    ) -> Explanation:
        """Why each candidate was or was not offered for a message, and what would become of enabling it. Changes nothing."""
        who = actor or self.actor

        def work() -> Explanation:
            held = self._sessions.get(who, session_key(session)) if session else None
            return self._account(message, who, held, self._matcher().rank(message, limit=limit))

        return await self._blocking(work)

    def _account(
        self, message: str, actor: Actor, session: Session | None, ranked: list[Recommendation]
    ) -> Explanation:
        from prowess.session.explanation import ExplanationContext, explain_message
        from prowess.session.sessions import with_session_role

        cards = self.catalog.cards()
        policy = self._policy_of(actor)
        plan, budget = self._planner.plan(actor, cards, message=message, session=session)
        around = ExplanationContext(
            actor=actor, session=session, policy=policy, cards=cards, plan=plan, index_budget=budget
        )
        acting = with_session_role(session, actor) if session else actor
        return explain_message(message, around, [self._candidate(item, acting, policy) for item in ranked])

    def _candidate(self, item: Recommendation, actor: Actor, policy: OrgPolicy) -> Candidate:
        """A skill of the ranking with what the gate would say now, the answers that people gave included."""
        from prowess.policy.rules import Ruling
        from prowess.session.explanation import Candidate
        from prowess.session.text import read_skill_text

        try:
            text = read_skill_text(self.catalog, item.slug)
        except ProwessError as error:
            return Candidate(found=item, ruling=Ruling(answer="deny", rule="no-text", reason=error.message), need=0)
        return Candidate(found=item, ruling=self._gate.foresee(actor, text.subject, policy), need=len(text.block))
