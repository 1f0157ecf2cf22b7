"""The state that all MCP request handlers share."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass

from prowess.engine.engine import Engine
from prowess.errors import ProwessError
from prowess.interfaces.auth.caller import Caller
from prowess.interfaces.mcp.entry_index import EntryIndex
from prowess.interfaces.mcp.notifications import ChangeNotifier
from prowess.interfaces.mcp.request import Context, caller_of, conversation_of
from prowess.interfaces.mcp.sampling import SamplingRelays, waiting_client_model
from prowess.interfaces.mcp.skill_entry import SkillEntry, hide_entry
from prowess.llm.model import Model
from prowess.run.request import StepListener, ignore_step
from prowess.tools.toolbox import Toolbox

_log = logging.getLogger(__name__)
_PORTION = 64
"""How many entries are looked up together."""


@dataclass(frozen=True, kw_only=True)
class Backend:
    """The engine, its skills as entries, and the caller on a transport that identifies nobody.

    `approval_seconds` is how long a tool call waits for a person to approve it.
    """

    engine: Engine
    index: EntryIndex
    caller: Caller
    approval_seconds: float
    notices: ChangeNotifier
    relays: SamplingRelays

    def caller_of(self, context: Context) -> Caller:
        """Return the caller of a request."""
        return caller_of(context, self.caller)

    def may_read(self, context: Context) -> bool:
        """Return True if the caller of a request may see skills; for others the server has none."""
        return "skills.read" in self.caller_of(context).actor.permissions

    async def find(self, context: Context, uri: str) -> tuple[SkillEntry, str] | None:
        """Return the entry of an address and the path inside it, or None if the caller sees nothing there."""
        return await self.index.find(uri) if self.may_read(context) else None

    async def entries(self, context: Context, after: str = "") -> AsyncIterator[SkillEntry]:
        """Yield the entries after a slug as the caller may see them: of skills that nobody accepted, only the address."""
        portion: list[SkillEntry] = []
        async for entry in self.index.entries(after):
            portion.append(entry)
            if len(portion) == _PORTION:
                for seen in await self._as_seen(context, portion):
                    yield seen
                portion = []
        for seen in await self._as_seen(context, portion):
            yield seen

    async def find_seen(self, context: Context, uri: str) -> tuple[SkillEntry, str] | None:
        """Return the entry of an address as the caller may see it, and the path inside it, or None."""
        found = await self.find(context, uri)
        return ((await self._as_seen(context, [found[0]]))[0], found[1]) if found else None

    async def _as_seen(self, context: Context, entries: list[SkillEntry]) -> list[SkillEntry]:
        served = self.index.listing.remembered
        cards = [
            served[entry.slug][1].model_copy(update={"digest": entry.digest})
            for entry in entries
            if entry.slug in served
        ]
        engine = self.engine.as_actor(self.caller_of(context).actor)
        shown = await engine.skills.shown(cards) if cards else set[str]()
        return [entry if entry.slug in shown else hide_entry(entry) for entry in entries]

    def toolbox(
        self, context: Context, *, on_step: StepListener = ignore_step, fallback_model: Model | None = None
    ) -> Toolbox:
        """Return the tools of the caller of a request, in the conversation of the request.

        Enabling a skill also returns its text, because we do not write the client's system prompt. If no model is
        configured, runs use `fallback_model`, or else the client's model if it can be asked while the call waits.
        """
        caller = self.caller_of(context)
        conversation = conversation_of(context, caller)
        return Toolbox(
            self.engine,
            actor=caller.actor,
            conversation=conversation,
            return_content=True,
            approval_seconds=self.approval_seconds,
            on_step=on_step,
            fallback_model=fallback_model or waiting_client_model(context),
        )

    async def leave(self, caller: Caller, conversation: str) -> None:
        """Close the session of a conversation that ended. Write nothing if it had none."""
        try:
            session = await self.engine.as_actor(caller.actor).sessions.find(conversation)
            if session is not None:
                await self.engine.as_actor(caller.actor).sessions.close(session)
        except ProwessError as error:
            _log.warning("The session of %s stays open: %s", conversation, error.message)

    async def read(self, context: Context, slug: str, path: str) -> bytes:
        """Return one file of a skill. This is the only way in which content leaves as a resource.

        It passes the same gate as loading the skill, in the conversation of the request.
        """
        caller = self.caller_of(context)
        conversation = conversation_of(context, caller)
        return await self.engine.as_actor(caller.actor).skills.resource(slug, path, session=conversation)
