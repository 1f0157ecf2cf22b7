"""Plan the index of skills for a prompt, and explain which skills a message would get. Blocking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prowess.engine.context import Context, check_message
from prowess.errors import ProwessError
from prowess.match.recommendation import MAX_RESULTS, Recommendation
from prowess.policy.actor import Actor
from prowess.policy.rules import Ruling

if TYPE_CHECKING:
    from prowess.match.matcher import Matcher
    from prowess.policy.organization import OrgPolicy
    from prowess.session.explanation import Candidate, Explanation
    from prowess.session.index import IndexPlan
    from prowess.session.session import Session
    from prowess.skill.model import SkillCard
    from prowess.skill.outline import SkillOutline
    from prowess.storage.database import Connections

_RANKED_SKILLS = 200
_USAGE_DAYS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPlanner:
    """Plans indexes from the ranking of a message and the recent uses in the actor's organization."""

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
        """Return the plan and its budget of characters: the given one, or that of the session's context window."""
        from prowess.session.index import IndexCard, default_budget, plan_index

        limit = default_budget(session.window if session else None) if budget is None else budget
        ranked = {item.slug: item for item in self.matcher().rank(message, limit=_RANKED_SKILLS)} if message else {}
        matching = {slug: item.score for slug, item in ranked.items() if item.decision != "no"}
        uses = self._count_uses(actor)
        listed = [
            IndexCard(
                slug=card.slug,
                description=card.description,
                relevance=matching.get(card.slug, 0.0),
                uses=uses.get(card.slug, 0),
                nearness=ranked[card.slug].score if card.slug in ranked else 0.0,
            )
            for card in cards
        ]
        return plan_index(listed, limit), limit

    def plan_for_role(self, actor: Actor, cards: Sequence[SkillCard], about: str) -> IndexPlan:
        """Return the index for a role, of which `about` says what it does. Skills are ranked only if not all fit."""
        plan, _ = self.plan(actor, cards)
        if all(entry.form in ("full", "name") for entry in plan.shown) and not plan.omitted:
            return plan
        return self.plan(actor, cards, message=about)[0]

    def _count_uses(self, actor: Actor) -> dict[str, int]:
        if not self.has_records():
            return {}
        from prowess.feed.usage import count_recent_uses

        return count_recent_uses(self.records(), actor.organization, days=_USAGE_DAYS)


def plan_for_prompt(context: Context, message: str, *, session: Session | str, budget: int | None) -> IndexPlan:
    """Return the index of skills for a message in a session."""
    found = context.find_session(session)
    cards = _list_for_index(context, context.catalog.cards())
    return context.resources.planner.plan(context.actor, cards, message=message, session=found, budget=budget)[0]


def _list_for_index(context: Context, cards: Sequence[SkillCard]) -> list[SkillCard]:
    return [card for card in context.visibility.for_prompt(cards) if not _is_role_pack(context, card)]


def explain(context: Context, message: str, *, session: Session | str, limit: int, skill: str = "") -> Explanation:
    """Explain the ranking of a message, or the place of one skill in it, and what enabling each in the session would do.

    Raise `NotFound` if there is no such skill.
    """
    from prowess.session.explanation import ExplanationContext, explain_message
    from prowess.session.sessions import with_session_role

    check_message(message, limit)
    found = context.find_session(session)
    visibility, matcher = context.visibility, context.resources.matcher
    only = context.catalog.find_outline(skill)[1] if skill else None

    def rank(most: int) -> Sequence[Recommendation]:
        return matcher.rank(message, limit=most) if only is None else [_rank_one(context, message, only)]

    # For an agent, skills that are switched off do not exist.
    is_person = context.actor.is_person
    ranked = visibility.recommendations(rank(limit)) if is_person else visibility.usable(rank, limit)
    cards, policy, actor = context.catalog.cards(), context.read_policy(), context.actor
    listed = _list_for_index(context, cards)
    plan, budget = context.resources.planner.plan(actor, listed, message=message, session=found)
    explanation_context = ExplanationContext(
        actor=actor,
        session=found,
        policy=policy,
        cards=cards,
        skills=sum(not _is_role_pack(context, card) for card in cards),
        plan=plan,
        index_budget=budget,
        skill=only.slug if only else "",
    )
    acting = with_session_role(found, actor) if found else actor
    return explain_message(message, explanation_context, [_judge(context, item, acting, policy) for item in ranked])


def _rank_one(context: Context, message: str, skill: SkillOutline) -> Recommendation:
    """Return one skill as it is ranked for a message; with the score 0 if it is not a candidate at all."""
    ranked = context.resources.matcher.rank(message, limit=MAX_RESULTS)
    found = next((item for item in ranked if item.slug == skill.slug), None)
    return found or Recommendation(
        slug=skill.slug,
        title=skill.title,
        description=skill.description,
        tags=skill.tags,
        scope=skill.scope,
        digest=skill.digest,
        version=skill.version,
        people_only=skill.people_only,
        score=0.0,
        decision="no",
        why=_explain_unranked(context, skill),
    )


def _is_role_pack(context: Context, skill: SkillCard | SkillOutline) -> bool:
    return skill.scope == "system" and (context.resources.marketplace.bundled / skill.slug).is_dir()


def _explain_unranked(context: Context, skill: SkillOutline) -> str:
    """Return why a skill is not ranked for any message; '' if it could be for another one."""
    if skill.people_only:
        return "only people can start it, by name"
    if _is_role_pack(context, skill):
        return "built-in role packs are not matched"
    with suppress(ProwessError):
        if not context.catalog.get(f"{skill.scope}:{skill.slug}").described:
            return "it has no description, so it is not ranked"
    return ""


def _judge(context: Context, item: Recommendation, actor: Actor, policy: OrgPolicy) -> Candidate:
    """Return a ranked skill with what the gate would decide now, given the approvals there are."""
    from prowess.session.explanation import Candidate
    from prowess.session.text import read_skill_text

    try:
        text = read_skill_text(context.catalog, item.slug, context.actor)
    # A skill without text, or one that is just being changed, is still part of the explanation.
    except ProwessError as error:
        said = error if actor.is_person else error.for_agent()
        return Candidate(found=item, ruling=Ruling(answer="deny", rule="no-text", reason=said.message), need=0)
    ruling = context.resources.gate.preview(actor, text.subject, policy)
    return Candidate(found=item, ruling=ruling, need=len(text.block))
