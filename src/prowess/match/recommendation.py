"""The result of a match: a skill, how well it fits the message, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, get_args

from prowess.lazy_dataclass import dataclass

Decision = Literal["offer", "maybe", "no"]
DECISIONS: tuple[Decision, ...] = get_args(Decision)
"""Best first: worth offering, worth a look, does not fit."""
OFFER_SCORE, MAYBE_SCORE = 0.5, 0.17
"""The lowest scores for the decisions `offer` and `maybe`."""

MAX_RESULTS = 1_000
"""The most skills that are ranked."""

FieldName = Literal["name", "description", "tags", "triggers", "patterns", "keywords", "body"]
FIELD_NAMES: tuple[FieldName, ...] = get_args(FieldName)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The words of the message found in one field of a skill.

    `terms` are spelled as in the message. A body is not disclosed before its skill is chosen, so there is only a `count`.
    """

    field: FieldName
    count: int
    terms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """A skill for a message. `score` estimates from 0 to 1 how likely it fits."""

    slug: str
    title: str
    description: str
    tags: tuple[str, ...]
    scope: str
    digest: str
    score: float
    decision: Decision
    version: str = ""
    chars: int = 0
    """The characters that it takes in a prompt, as the budget of a session counts them."""
    people_only: bool = False
    """True if agents are not offered the skill: only people start it."""
    evidence: tuple[Evidence, ...] = ()
    why: str = ""
    trust: str = ""
    """How far the skill is trusted here; '' where nobody has looked that up."""
    signals: Mapping[str, float] = field(default_factory=dict[str, float])
    """The signals behind the score, for `--explain`."""

    def as_json(self, *, explain: bool = False) -> dict[str, Any]:
        """Return a JSON object, with the signals behind the score on request."""
        value: dict[str, Any] = {
            "slug": self.slug,
            "title": self.title,
            "description": self.description,
            "tags": list(self.tags),
            "scope": self.scope,
            "trust": self.trust,
            "digest": self.digest,
            "version": self.version,
            "chars": self.chars,
            "people_only": self.people_only,
            "score": self.score,
            "decision": self.decision,
            "why": self.why,
            "evidence": [
                {"field": item.field, "count": item.count, "terms": list(item.terms)} for item in self.evidence
            ],
        }
        return {**value, "signals": dict(self.signals)} if explain else value


def decide(score: float) -> Decision:
    """Return the decision for a score."""
    return "offer" if score >= OFFER_SCORE else "maybe" if score >= MAYBE_SCORE else "no"


def format_score(score: float) -> str:
    """Return a score with two digits, which are those of the same decision: 0.4996 is no offer, and 0.50 would be one."""
    rounded = round(score, 2)
    return f"{rounded if decide(rounded) == decide(score) else rounded - 0.01:.2f}"
