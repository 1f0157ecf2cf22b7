"""An account of one message: which skills were looked at, and what became of each, step by step.

It holds what it was made from, so that it can be made again: the same message over the same catalog under the same policy
gives the same account, and where it does not, `differences` says which step changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from prowess.policy.rules import Ruling
from prowess.session.budget import fits
from prowess.session.sessions import acting_in

if TYPE_CHECKING:
    from prowess.match.recommendation import Recommendation
    from prowess.policy.actor import Actor
    from prowess.policy.organization import OrgPolicy
    from prowess.session.index import IndexPlan
    from prowess.session.session import Session
    from prowess.skill.model import SkillCard

Choice = Literal["enabled", "offered", "possible", "not offered", "refused", "needs approval", "no room"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What became of one candidate."""

    slug: str
    digest: str
    score: float
    decision: str
    why: str
    fields: dict[str, list[str]]
    """What of the message was found in which field."""
    signals: dict[str, float]
    """The figures behind the score."""
    index: str
    """How the skill stands in the index: full, short, name or omitted."""
    rule: str
    answer: str
    reason: str
    need: int
    fits: bool
    choice: Choice


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Why each skill was, or was not, offered for a message, let in or refused."""

    message: str
    actor: str
    role: str
    skills: int
    catalog: str
    """Identifies all skills in reach, by slug and digest."""
    policy: dict[str, Any]
    index_budget: int
    index_omitted: int
    budget_used: int
    budget_max: int
    session: str
    steps: tuple[Step, ...]

    def as_json(self) -> dict[str, Any]:
        """The whole account."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One skill of the ranking, what the gate would say to enabling it, and the characters that its text takes."""

    found: Recommendation
    ruling: Ruling
    need: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What an account is made from, besides the message and its candidates."""

    actor: Actor
    session: Session | None
    policy: OrgPolicy
    cards: Sequence[SkillCard]
    plan: IndexPlan
    index_budget: int


def account_of(message: str, around: Circumstances, candidates: Iterable[Candidate]) -> Account:
    """The account of a message."""
    session, policy = around.session, around.policy
    acting = acting_in(session, around.actor) if session else around.actor
    forms = {entry.slug: entry.form for entry in around.plan.entries}
    steps = tuple(_step(one, forms.get(one.found.slug, "omitted"), session, policy) for one in candidates)
    return Account(
        message=message,
        actor=acting.label,
        role=acting.role,
        skills=len(around.cards),
        catalog=_identity(around.cards),
        policy={name: value for name, value in asdict(policy).items() if name != "faults"},
        index_budget=around.index_budget,
        index_omitted=around.plan.omitted,
        budget_used=session.budget.used if session else 0,
        budget_max=session.budget.limit if session else policy.skills_max_prompt_chars,
        session=session.id if session else "",
        steps=steps,
    )


def _step(candidate: Candidate, form: str, session: Session | None, policy: OrgPolicy) -> Step:
    item, ruling, need = candidate.found, candidate.ruling, candidate.need
    enabled = session is not None and session.has(item.slug)
    has_room = fits(item.slug, need, session, policy.skills_max_prompt_chars)
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
        choice=choice_of(enabled=enabled, decision=item.decision, answer=ruling.answer, fits=has_room),
    )


def _identity(cards: Sequence[SkillCard]) -> str:
    lines = "\n".join(f"{card.slug} {card.digest}" for card in cards)
    return hashlib.sha256(lines.encode()).hexdigest()


def choice_of(*, enabled: bool, decision: str, answer: str, fits: bool) -> Choice:
    """What a candidate comes to, the first thing that stands in its way."""
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


_STEPS_OF_THE_WALK = {
    "catalog": "the skills in reach are others",
    "policy": "the policy is another one",
    "index_budget": "the index has another budget",
    "index_omitted": "the index leaves out another number of skills",
    "budget_used": "other skills are enabled",
    "budget_max": "the prompt budget is another one",
    "actor": "somebody else asks",
    "role": "the role is another one",
}


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What is not as it was in an earlier account, in words; none where the message would fare the same."""
    told = [words for key, words in _STEPS_OF_THE_WALK.items() if before.get(key) != after.get(key)]
    old, new = ({step["slug"]: step for step in account.get("steps", ())} for account in (before, after))
    for slug in sorted(old.keys() | new.keys()):
        if slug not in new:
            told.append(f"{slug} is no candidate any more")
        elif slug not in old:
            told.append(f"{slug} is a candidate now")
        else:
            changed = [key for key in new[slug] if old[slug].get(key) != new[slug][key]]
            told += [f"{slug}: {', '.join(changed)} changed"] if changed else []
    return told
