"""One turn of a conversation: what is known before a model is asked, and what is decided.

Phase 1 is deterministic: the context package has the ranked skills and the state of the session, and no content of any
skill. Phase 2 is a decision, made by a model, by code, or by `suggest_decision`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from prowess.errors import Invalid

if TYPE_CHECKING:
    from prowess.match.recommendation import Recommendation
    from prowess.session.session import Session
    from prowess.skill.kinds import Artifact

TurnAction = Literal["answer", "activate", "research", "clarify"]
TURN_ACTIONS: tuple[TurnAction, ...] = get_args(TurnAction)
MAX_REASON_CHARS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPackage:
    """The context for a decision about a message. `descriptions` has the description of each skill by slug."""

    message: str
    recommendations: tuple[Recommendation, ...]
    descriptions: Mapping[str, str]
    session: Session | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the package as JSON, for the prompt of a model."""
        return {
            "message": self.message,
            "skill_recommendations": [recommendation.as_json() for recommendation in self.recommendations],
            "descriptions": dict(self.descriptions),
            "session": self.session and {"id": self.session.id, "role": self.session.role, **self.session.state},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDecision:
    """Answer directly, activate a skill with these artifacts, do research first, or ask the user a question.

    Without `artifacts`, an activated skill has only its text in the prompt.
    """

    action: TurnAction
    skill: str = ""
    artifacts: tuple[str, ...] = ()
    reason: str = ""

    def __post_init__(self) -> None:
        if self.action not in TURN_ACTIONS:
            raise Invalid(f"Invalid action {str(self.action)[:40]!r}.", hint=f"Use one of: {', '.join(TURN_ACTIONS)}.")
        if (self.action == "activate") != bool(self.skill):
            raise Invalid(
                "A decision names a skill if it activates one, and only then.",
                hint='Use for example TurnDecision(action="activate", skill="SLUG").',
            )
        if self.artifacts and not self.skill:
            raise Invalid("Only a decision that activates a skill names artifacts.", hint="Leave `artifacts` out.")

    def as_json(self) -> dict[str, Any]:
        """Return the decision as JSON."""
        return {
            "action": self.action,
            "skill": self.skill or None,
            "artifacts": list(self.artifacts),
            "reason": self.reason[:MAX_REASON_CHARS],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A decision that was carried out: the loaded artifacts, and the session as it is now."""

    decision: TurnDecision
    artifacts: tuple[Artifact, ...] = ()
    session: Session | None = None
    text: str = ""
    """The block of the activated skill for the prompt; empty for other decisions."""


def suggest_decision(recommendations: Sequence[Recommendation]) -> TurnDecision:
    """Return the decision that follows from the ranking alone: activate a skill that fits, ask if unsure, else answer."""
    offered = [recommendation for recommendation in recommendations if recommendation.decision == "offer"]
    possible = [one for one in recommendations if one.decision == "maybe"]
    if offered:
        return TurnDecision(action="activate", skill=offered[0].slug, reason=offered[0].why)
    if possible:
        names = ", ".join(one.slug for one in possible[:3])
        return TurnDecision(action="clarify", reason=f"These skills may fit: {names}.")
    return TurnDecision(action="answer", reason="No skill fits the message.")
