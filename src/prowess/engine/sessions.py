"""Sessions: what is enabled in them, their prompt, and single texts of skills."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from prowess.engine.parts import Frame, session_key
from prowess.policy.actor import Actor
from prowess.policy.text import clean_text

if TYPE_CHECKING:
    from prowess.session.load import LoadResult, ResourceResult
    from prowess.session.session import Session
    from prowess.skill.package import Package

_RECORDED_CHARS = 200
"""So many characters of a name that was asked for are kept."""


class Activating(Frame):
    """The part of the engine that lets skills into prompts. `actor` is who acts; without one, whoever opened the engine.

    A session is given as itself, or by its id or its conversation.
    """

    async def session(
        self,
        conversation: str = "",
        *,
        actor: Actor | None = None,
        role: str = "",
        model: str = "",
        window: int | None = None,
        budget: int | None = None,
    ) -> Session:
        """The session of a conversation: the one there is, or a new one; without a name, always a new one.

        `budget` is in characters; without one it is what the organization has set, 16,000 by default.
        """
        return await self._blocking(
            lambda: self._sessions.open(
                actor or self.actor, conversation, role=role, model=model, window=window, budget=budget
            )
        )

    async def sessions(self, *, actor: Actor | None = None) -> list[Session]:
        """The open sessions, the last changed first."""
        return await self._blocking(lambda: self._sessions.listed(actor or self.actor))

    async def get_session(self, session: Session | str, *, actor: Actor | None = None) -> Session:
        """A session as it is now."""
        return await self._blocking(lambda: self._sessions.get(actor or self.actor, session_key(session)))

    async def find_session(self, conversation: str, *, actor: Actor | None = None) -> Session | None:
        """The open session of a conversation, or of that id; None where there is none, and none is made."""
        who = actor or self.actor
        _, session = await self._blocking(self._gate.within, who, conversation)
        return await self.get_session(session, actor=who) if session else None

    async def acting(self, conversation: str, *, actor: Actor | None = None) -> Actor:
        """The actor as it acts in a conversation: with the role of its session, where it has none of its own."""
        return (await self._blocking(self._gate.within, actor or self.actor, conversation))[0]

    async def change_session(
        self,
        session: Session | str,
        *,
        budget: int | None = None,
        model: str | None = None,
        window: int | None = None,
        actor: Actor | None = None,
    ) -> Session:
        """Change the budget, the model or the context window. A budget below what is used takes nothing away."""
        return await self._blocking(
            lambda: self._sessions.change(
                actor or self.actor, session_key(session), budget=budget, model=model, window=window
            )
        )

    async def close_session(self, session: Session | str, *, actor: Actor | None = None) -> None:
        """End a session: nothing is enabled in it any more."""
        await self._blocking(lambda: self._sessions.close(actor or self.actor, session_key(session)))

    async def enable(
        self, session: Session | str, slug: str, *, reason: str = "", actor: Actor | None = None
    ) -> Session:
        """Put a skill's text into the prompt of a session; `Refused` in one of its forms where it may not enter.

        `BudgetExceeded` says what would make room, `ApprovalRequired` that a person has been asked. Enabling what is
        enabled already changes nothing.
        """
        return await self._blocking(
            lambda: self._activation.enable(actor or self.actor, session_key(session), slug, reason=reason)
        )

    async def enable_fetched(
        self, session: Session | str, package: Package, *, origin: str, reason: str = "", actor: Actor | None = None
    ) -> Session:
        """Put a skill that was fetched for this conversation into its prompt; no store keeps it."""
        return await self._blocking(
            lambda: self._activation.enable_fetched(
                actor or self.actor, session_key(session), package, origin=origin, reason=reason, limits=self._limits
            )
        )

    async def disable(self, session: Session | str, slug: str, *, actor: Actor | None = None) -> Session:
        """Take a skill's text out of the prompt; its room is free again."""
        return await self._blocking(lambda: self._activation.disable(actor or self.actor, session_key(session), slug))

    async def enabled_text(self, session: Session | str, slug: str, *, actor: Actor | None = None) -> str:
        """The block of one enabled skill, as it was admitted; `NotFound` where it is not enabled, or no longer may be."""
        name = slug.rpartition(":")[2]
        return await self._blocking(lambda: self._activation.text(actor or self.actor, session_key(session), name))

    async def prompt_blocks(
        self,
        session: Session | str,
        *,
        policies: str = "",
        memory: str = "",
        graph_context: str = "",
        actor: Actor | None = None,
    ) -> tuple[str, ...]:
        """The system blocks of a turn, in order: policies, memory, graph context, then the enabled skills.

        Every skill is there with the very bytes that were admitted; one whose files changed since passes the gate again
        or is left out.
        """
        from prowess.session.prompt import assemble_blocks

        _, skills = await self._blocking(lambda: self._activation.blocks(actor or self.actor, session_key(session)))
        return assemble_blocks(policies=policies, memory=memory, graph_context=graph_context, skills=skills)

    async def prompt(
        self,
        session: Session | str,
        *,
        into: str = "",
        policies: str = "",
        memory: str = "",
        graph_context: str = "",
        actor: Actor | None = None,
    ) -> str:
        """The same as one text. With `into`, a prompt that may have older blocks of ours: they are replaced."""
        from prowess.session.prompt import join_blocks, replace_blocks

        blocks = await self.prompt_blocks(
            session, policies=policies, memory=memory, graph_context=graph_context, actor=actor
        )
        return replace_blocks(into, blocks) if into else join_blocks(blocks)

    async def load(
        self,
        name: str,
        *,
        reference: str | None = None,
        script: str | None = None,
        session: Session | str = "",
        actor: Actor | None = None,
    ) -> dict[str, Any]:
        """One text of a skill: its instructions, a reference or a script. What went wrong stands in `error`.

        Every load is recorded and announced as `skill_loaded`.
        """
        who = actor or self.actor
        began = time.perf_counter()
        loaded = await self._blocking(
            lambda: self._loading.load(who, name, reference=reference, script=script, session=session_key(session))
        )
        self._record(who, name, reference, script, loaded, error=loaded.error, began=began)
        return loaded.as_json()

    async def resource(self, name: str, path: str, *, session: Session | str = "", actor: Actor | None = None) -> bytes:
        """One file of a skill by its exact path in the manifest, through the gate. It is recorded as a load of that path."""
        who = actor or self.actor
        began = time.perf_counter()
        handed = await self._blocking(lambda: self._loading.resource(who, name, path, session=session_key(session)))
        reference, script = (None, path) if handed.is_script else (path, None)
        error = handed.error.message if handed.error else None
        self._record(who, name, reference, script, handed, error=error, began=began)
        if handed.error is not None:
            raise handed.error
        return handed.content

    def _record(
        self,
        actor: Actor,
        name: str,
        reference: str | None,
        script: str | None,
        answer: LoadResult | ResourceResult,
        *,
        error: str | None,
        began: float,
    ) -> None:
        """Have a load written down, with no more of what was asked for than is worth keeping."""
        from prowess.feed.event_recorder import SkillLoad

        self._parts.recorder().record(
            SkillLoad(
                name=clean_text(name, limit=_RECORDED_CHARS),
                reference=None if reference is None else clean_text(reference, limit=_RECORDED_CHARS),
                script=None if script is None else clean_text(script, limit=_RECORDED_CHARS),
                source=answer.source,
                duration_s=round(time.perf_counter() - began, 6),
                error=None if error is None else clean_text(error),
                session_id=answer.session_id,
                user_id=actor.user,
                organization_id=actor.organization,
            )
        )
