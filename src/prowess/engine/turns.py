"""Turns: the context package of a message, and a decision about it, without an agent loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prowess.engine.context import Context, Part
from prowess.errors import Conflict, NotFound
from prowess.policy.text import clean_text
from prowess.session.turn import ContextPackage, Turn, TurnDecision, suggest_decision
from prowess.threads import offload

if TYPE_CHECKING:
    from prowess.session.session import Session
    from prowess.skill.kinds import Artifact
    from prowess.skill.outline import SkillOutline
    from prowess.storage.ledger import EventEntry


class Turns(Part):
    """Prepares and records the decisions of an orchestrator for the actor."""

    async def context(
        self, message: str, *, session: Session | str = "", limit: int = 5, before: str = ""
    ) -> ContextPackage:
        """Return the context package of a message. No model is asked, and no artifact is read.

        `before` is what was said earlier; it counts less than the message.
        """
        context = self._context

        def read() -> ContextPackage:
            return read_context(context, message, context.find_session(session), limit=limit, before=before)

        return await offload(read)

    async def suggest(self, package: ContextPackage) -> TurnDecision:
        """Return the decision that follows from the ranking alone, for use without a model."""
        return suggest_decision(package.recommendations)

    async def decide(self, package: ContextPackage, decision: TurnDecision) -> Turn:
        """Carry out a decision and record it as the event `decision_made`.

        An activated skill passes the gate. Its text, with its `description` artifacts, enters the prompt of the package's
        session, and exactly the named artifacts are loaded. Raise `NotFound` for an unknown skill or artifact, and what
        `Prowess.enable` raises.
        """
        return await offload(carry_out, self._context, package, decision)


def read_context(
    context: Context, message: str, session: Session | None, *, limit: int = 5, before: str = ""
) -> ContextPackage:
    """Return the context package of a message in a session as it was just read. Blocking."""
    # Outside the snapshot: the index would be brought up to date from a state that is older than its record.
    ranked = context.resources.matcher.match(message, limit=limit, context=before)
    with context.resources.snapshot():
        found = context.visibility.recommendations(ranked)
    return ContextPackage(
        message=message,
        recommendations=tuple(found),
        descriptions={item.slug: item.description for item in found},
        session=session,
    )


def carry_out(
    context: Context, package: ContextPackage, decision: TurnDecision, *, more: Mapping[str, Any] | None = None
) -> Turn:
    """Carry out a decision and record it, with `more` about it. Blocking; see `Turns.decide`."""
    turn = _activate(context, package, decision) if decision.action == "activate" else Turn(decision=decision)
    session = package.session.id if package.session else ""
    offered = [{"skill": item.slug, "score": item.score, "fit": item.decision} for item in package.recommendations]
    context.resources.recorder().record(
        DecisionMade(
            data={**decision.as_json(), "reason": clean_text(decision.reason), "recommended": offered, **(more or {})},
            skill=decision.skill,
            session_id=session,
            user_id=context.actor.user,
            organization_id=context.actor.organization,
        )
    )
    return turn


def _activate(context: Context, package: ContextPackage, decision: TurnDecision) -> Turn:
    from prowess.session.text import read_skill_text, read_subject

    resources = context.resources
    store, outline = context.catalog.find_outline(decision.skill)
    # Names are checked before anything enters the prompt.
    ids = [_artifact_id(outline, name) for name in decision.artifacts]
    session = package.session
    if session is not None:
        session = resources.activation.enable(context.actor, session.id, decision.skill, reason=decision.reason)
        text = resources.activation.text(context.actor, session.id, outline.slug)
    else:
        resources.gate.check(context.actor, "load", read_subject(context.catalog, store, outline))
        read = read_skill_text(context.catalog, decision.skill, context.actor)
        if read.outline.digest != outline.digest:
            raise _changed(outline)
        text = read.block
    artifacts = tuple(_unchanged(store.get_artifact(artifact_id), outline) for artifact_id in ids)
    return Turn(decision=decision, artifacts=artifacts, session=session, text=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionMade:
    """A decision, for the event recorder."""

    data: dict[str, Any]
    skill: str
    session_id: str
    user_id: str
    organization_id: str | None

    def entry(self) -> EventEntry:
        """Return the event as the ledger stores it."""
        from prowess.storage.ledger import EventEntry

        return EventEntry(
            name="decision_made",
            data=self.data,
            session_id=self.session_id,
            user_id=self.user_id,
            subject=self.skill.rpartition(":")[2],
        )


def _artifact_id(outline: SkillOutline, name: str) -> str:
    parts: Sequence[Any] = [part for part in outline.parts if part.name == name]
    if not parts:
        there = ", ".join(dict.fromkeys(repr(part.name) for part in outline.parts))
        raise NotFound(f"The skill {outline.slug!r} has no artifact {name[:80]!r}.", hint=f"It has: {there or 'none'}.")
    return next((part.id for part in parts if part.variant is None), parts[0].id)


def _unchanged(artifact: Artifact | None, outline: SkillOutline) -> Artifact:
    # The gate decided about the outline's digest, so the content of another revision must not be returned.
    if artifact is None or artifact.revision != outline.digest:
        raise _changed(outline)
    return artifact


def _changed(outline: SkillOutline) -> Conflict:
    return Conflict(f"The skill {outline.slug!r} changed while it was being read.", hint="Try again.")
