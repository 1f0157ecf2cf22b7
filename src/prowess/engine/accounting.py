"""Telling why: the index of skills for a prompt, and the account of a message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prowess.engine.frame import Frame, id_of
from prowess.errors import ProwessError
from prowess.policy.actor import Actor

if TYPE_CHECKING:
    from prowess.match.recommendation import Recommendation
    from prowess.policy.organization import OrgPolicy
    from prowess.session.account import Account, Candidate
    from prowess.session.index import IndexPlan
    from prowess.session.session import Session


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
            held = self._sessions.get(who, id_of(session)) if session else None
            return self._planner.plan(who, self.catalog.cards(), message=message, session=held, budget=budget)[0]

        return await self._blocking(work)

    async def why(
        self, message: str, *, session: Session | str = "", limit: int = 10, actor: Actor | None = None
    ) -> Account:
        """Why each candidate was or was not offered for a message, and what would become of enabling it. Changes nothing."""
        who = actor or self.actor

        def work() -> Account:
            held = self._sessions.get(who, id_of(session)) if session else None
            return self._account(message, who, held, self._matcher().rank(message, limit=limit))

        return await self._blocking(work)

    def _account(self, message: str, actor: Actor, session: Session | None, ranked: list[Recommendation]) -> Account:
        from prowess.session.account import Circumstances, account_of
        from prowess.session.sessions import acting_in

        cards = self.catalog.cards()
        policy = self._policy_of(actor)
        plan, budget = self._planner.plan(actor, cards, message=message, session=session)
        around = Circumstances(actor=actor, session=session, policy=policy, cards=cards, plan=plan, index_budget=budget)
        acting = acting_in(session, actor) if session else actor
        return account_of(message, around, [self._candidate(item, acting, policy) for item in ranked])

    def _candidate(self, item: Recommendation, actor: Actor, policy: OrgPolicy) -> Candidate:
        """A skill of the ranking with what the gate would say now, the answers that people gave included."""
        from prowess.policy.rules import Ruling
        from prowess.session.account import Candidate
        from prowess.session.text import read_text

        try:
            text = read_text(self.catalog, item.slug)
        except ProwessError as error:
            return Candidate(found=item, ruling=Ruling(answer="deny", rule="no-text", reason=error.message), need=0)
        return Candidate(found=item, ruling=self._gate.foresee(actor, text.subject, policy), need=len(text.block))
