"""Explain one message: which skills were considered, and what happened to each, step by step.

An explanation holds its inputs, so it can be made again: the same message, catalog and policy give the same explanation.
If they do not, `diff_explanations` says which step changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from prowess.policy.rules import Ruling
from prowess.session.session import Session, fits_budget
from prowess.session.sessions import with_session_role

if TYPE_CHECKING:
    from prowess.match.recommendation import Recommendation
    from prowess.policy.actor import Actor
    from prowess.policy.organization import OrgPolicy
    from prowess.session.index import IndexPlan
    from prowess.skill.model import SkillCard

Choice = Literal["enabled", "offered", "possible", "not offered", "refused", "needs approval", "no room"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The outcome of one candidate."""

    slug: str
    digest: str
    score: float
    decision: str
    why: str
    fields: dict[str, list[str]]
    """Terms of the message, by the field in which they were found."""
    signals: dict[str, float]
    """The numbers behind the score."""
    index: str
    """How the skill appears in the index: full, short, name or omitted."""
    rule: str
    answer: str
    reason: str
    need: int
    fits: bool
    choice: Choice


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why each skill was or was not offered for a message, and whether it could be enabled."""

    message: str
    actor: str
    role: str
    skills: int
    catalog: str
    """A digest of all skills in reach, by slug and digest."""
    policy: dict[str, Any]
    index_budget: int
    index_omitted: int
    budget_used: int
    budget_max: int
    session: str
    skill: str = ""
    """The only skill that is explained; '' for all candidates."""
    steps: tuple[Step, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the explanation as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One ranked skill, what the gate would decide about enabling it, and the characters of its text."""

    found: Recommendation
    ruling: Ruling
    need: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplanationContext:
    """The material of an explanation, besides the message and its candidates."""

    actor: Actor
    session: Session | None
    policy: OrgPolicy
    cards: Sequence[SkillCard]
    skills: int
    """How many of the cards are skills, not role packs."""
    plan: IndexPlan
    index_budget: int
    skill: str = ""


def explain_message(message: str, around: ExplanationContext, candidates: Iterable[Candidate]) -> Explanation:
    """Explain a message."""
    session, policy = around.session, around.policy
    acting = with_session_role(session, around.actor) if session else around.actor
    forms = {entry.slug: entry.form for entry in around.plan.entries}
    steps = tuple(
        _make_step(candidate, forms.get(candidate.found.slug, "omitted"), session, policy) for candidate in candidates
    )
    return Explanation(
        message=message,
        actor=acting.label,
        role=acting.role,
        skills=around.skills,
        catalog=_catalog_digest(around.cards),
        policy={name: value for name, value in asdict(policy).items() if name != "faults"},
        index_budget=around.index_budget,
        index_omitted=around.plan.omitted,
        budget_used=session.budget.used if session else 0,
        budget_max=session.budget.limit if session else policy.skills_max_prompt_chars,
        session=session.id if session else "",
        skill=around.skill,
        steps=steps,
    )


def _make_step(candidate: Candidate, form: str, session: Session | None, policy: OrgPolicy) -> Step:
    item, ruling, need = candidate.found, candidate.ruling, candidate.need
    enabled = session is not None and session.has(item.slug)
    has_room = fits_budget(item.slug, need, session, policy.skills_max_prompt_chars)
    return Step(
        slug=item.slug,
        digest=item.digest,
        score=item.score,
        decision=item.decision,
        why=item.why,
        fields={found.field: list(found.terms) for found in item.evidence},
        signals=dict(item.signals),
        index=form,
        rule=ruling.rule,
        answer=ruling.answer,
        reason=ruling.reason,
        need=need,
        fits=enabled or has_room,
        choice=decide_choice(enabled=enabled, decision=item.decision, answer=ruling.answer, fits=has_room),
    )


def _catalog_digest(cards: Sequence[SkillCard]) -> str:
    # Slugs have no spaces or line ends, so no two catalogs give the same text.
    lines = "\n".join(f"{card.slug} {card.digest}" for card in cards)
    return hashlib.sha256(lines.encode()).hexdigest()


def decide_choice(*, enabled: bool, decision: str, answer: str, fits: bool) -> Choice:
    """Return the outcome for a candidate: the first obstacle, if there is one."""
    if enabled:
        return "enabled"
    if decision == "no":
        return "not offered"
    if answer == "deny":
        return "refused"
    if answer == "ask":
        return "needs approval"
    if not fits:
        return "no room"
    return "offered" if decision == "offer" else "possible"


_CHANGE_DESCRIPTIONS = {
    "catalog": "the available skills changed",
    "policy": "the policy changed",
    "index_budget": "the budget of the index changed",
    "index_omitted": "the number of skills omitted from the index changed",
    "budget_used": "the enabled skills changed",
    "budget_max": "the prompt budget changed",
    "actor": "the actor changed",
    "role": "the role changed",
}


def diff_explanations(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the differences to an earlier explanation in words; empty if the message would get the same result."""
    changes = [words for key, words in _CHANGE_DESCRIPTIONS.items() if before.get(key) != after.get(key)]
    old, new = ({step["slug"]: step for step in account.get("steps", ())} for account in (before, after))
    for slug in sorted(old.keys() | new.keys()):
        if slug not in new:
            changes.append(f"{slug} is no longer a candidate")
        elif slug not in old:
            changes.append(f"{slug} is now a candidate")
        else:
            changed = [key for key in new[slug] if old[slug].get(key) != new[slug][key]]
            changes += [f"{slug}: {', '.join(changed)} changed"] if changed else []
    return changes
