"""Telling why: the index of skills for a prompt, and the account of a message."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from prowess.engine.writing import Writing
from prowess.policy.actor import Actor

if TYPE_CHECKING:
    from prowess.match.recommendation import Recommendation
    from prowess.policy.organization import OrgPolicy
    from prowess.session.account import Account, Step
    from prowess.session.index import IndexPlan
    from prowess.session.session import Session
    from prowess.skill.model import SkillCard

_RANKED = 200
_USED_DAYS = 30


class Accounting(Writing):
    """The part of the engine that explains itself."""

    async def index(
        self, message: str = "", *, session: Session | str = "", budget: int | None = None, actor: Actor | None = None
    ) -> IndexPlan:
        """The list of available skills for a system prompt, within its own budget of characters.

        Those that fit the message best, and were used most, keep their description; the rest shrinks. Without a budget it
        is a share of the session's context window, or 8,000 characters.
        """
        held = await self.get_session(session, actor=actor) if session else None
        cards = await self.cards()
        return await self._blocking(lambda: self._plan(message, cards, held, budget)[0])

    async def why(
        self, message: str, *, session: Session | str = "", limit: int = 10, actor: Actor | None = None
    ) -> Account:
        """Why each candidate was or was not offered for a message, and what would become of enabling it. Changes nothing."""
        held = await self.get_session(session, actor=actor) if session else None
        policy = await self.policy(actor=actor)
        ranked = await self.rank(message, limit=limit)
        cards = await self.cards()
        return await self._blocking(lambda: self._account(message, actor or self.actor, held, policy, ranked, cards))

    def _plan(
        self, message: str, cards: list[SkillCard], session: Session | None, budget: int | None
    ) -> tuple[IndexPlan, int]:
        from prowess.session.index import IndexCard, default_budget, plan

        chosen = default_budget(session.window if session else None) if budget is None else budget
        fitting = {item.slug: item.score for item in self._matcher().rank(message, limit=_RANKED)} if message else {}
        uses = self._uses()
        listed = [
            IndexCard(card.slug, card.description, fitting.get(card.slug, 0.0), uses.get(card.slug, 0))
            for card in cards
        ]
        return plan(listed, chosen), chosen

    def _uses(self) -> dict[str, int]:
        """How often each skill was loaded lately."""
        if not self._parts.has_records():
            return {}
        from prowess.delivery.uses import recent_uses

        return recent_uses(self._parts.records(), self.actor.organization, days=_USED_DAYS)

    def _account(
        self,
        message: str,
        actor: Actor,
        session: Session | None,
        policy: OrgPolicy,
        ranked: list[Recommendation],
        cards: list[SkillCard],
    ) -> Account:
        from prowess.session.account import Account

        plan, budget = self._plan(message, cards, session, None)
        forms = {entry.slug: entry.form for entry in plan.entries}
        acting = replace(actor, role=session.role) if session and session.role and not actor.role else actor
        steps = tuple(self._step(item, forms.get(item.slug, "omitted"), acting, session, policy) for item in ranked)
        return Account(
            message=message,
            actor=acting.label,
            role=acting.role,
            skills=len(cards),
            catalog=_identity(cards),
            policy={name: value for name, value in asdict(policy).items() if name != "faults"},
            index_budget=budget,
            index_omitted=plan.omitted,
            budget_used=session.budget.used if session else 0,
            budget_max=session.budget.limit if session else policy.skills_max_prompt_chars,
            session=session.id if session else "",
            steps=steps,
        )

    def _step(self, item: Recommendation, form: str, actor: Actor, session: Session | None, policy: OrgPolicy) -> Step:
        from prowess.errors import ProwessError
        from prowess.policy.gate import judge
        from prowess.session.account import Step, choice_of
        from prowess.session.text import read_text

        try:
            text = read_text(self.catalog, item.slug)
            ruling, need = judge(actor, "enable", text.subject, policy), len(text.block)
            answer, rule, reason = ruling.answer, ruling.rule, ruling.reason
        except ProwessError as error:
            answer, rule, reason, need = "deny", "no-text", error.message, 0
        left = session.budget.left if session else policy.skills_max_prompt_chars
        enabled = session is not None and session.has(item.slug)
        return Step(
            slug=item.slug,
            digest=item.digest,
            score=item.score,
            decision=item.decision,
            why=item.why,
            fields={found.field: list(found.terms) for found in item.evidence},
            signals=dict(item.signals),
            index=form,
            rule=rule,
            answer=answer,
            reason=reason,
            need=need,
            fits=enabled or need <= left,
            choice=choice_of(enabled=enabled, decision=item.decision, answer=answer, fits=need <= left),
        )


def _identity(cards: list[SkillCard]) -> str:
    lines = "\n".join(f"{card.slug} {card.digest}" for card in cards)
    return hashlib.sha256(lines.encode()).hexdigest()
