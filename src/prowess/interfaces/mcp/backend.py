"""The state that all MCP request handlers share."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from prowess.engine.engine import Engine
from prowess.errors import ProwessError
from prowess.interfaces.auth.caller import Caller
from prowess.interfaces.mcp.entry_index import EntryIndex
from prowess.interfaces.mcp.notifications import ChangeNotifier
from prowess.interfaces.mcp.request import Context, caller_of, conversation_of
from prowess.interfaces.mcp.sampling import SamplingRelays, waiting_client_model
from prowess.interfaces.mcp.skill_entry import SkillEntry
from prowess.llm.model import Model
from prowess.run.request import StepListener, ignore_step
from prowess.tools.toolbox import Toolbox

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Backend:
    """The engine, the skills as entries, and who calls where the transport says nothing about it."""

    engine: Engine
    shelf: EntryIndex
    caller: Caller
    notices: ChangeNotifier
    relays: SamplingRelays

    def caller_of(self, context: Context) -> Caller:
        """Who a request comes from."""
        return caller_of(context, self.caller)

    def may_read(self, context: Context) -> bool:
        """Whether a request comes from somebody who may know of the skills; to others there are none."""
        return "skills.read" in self.caller_of(context).actor.permissions

    async def find(self, context: Context, uri: str) -> tuple[SkillEntry, str] | None:
        """The entry an address belongs to and the path in it, for whoever a request comes from."""
        return await self.shelf.find(uri) if self.may_read(context) else None

    def toolbox(self, context: Context, *, watch: StepListener = ignore_step, spare: Model | None = None) -> Toolbox:
        """The tools of whoever a request comes from, in the conversation it belongs to.

        What is enabled is handed over by the tool, since the client's system prompt is not ours to write. Where no model is
        configured, `spare` is asked, or else the client's own, if it can be asked while its call waits.
        """
        caller = self.caller_of(context)
        conversation = conversation_of(context, caller)
        return Toolbox(
            self.engine,
            actor=caller.actor,
            conversation=conversation,
            return_content=True,
            on_step=watch,
            fallback_model=spare or waiting_client_model(context),
        )

    async def leave(self, caller: Caller, conversation: str) -> None:
        """End the session of a conversation that is over; where it had none, nothing is written."""
        try:
            session = await self.engine.as_actor(caller.actor).sessions.find(conversation)
            if session is not None:
                await self.engine.as_actor(caller.actor).sessions.close(session)
        except ProwessError as error:
            _log.warning("The session of %s stays open: %s", conversation, error.message)

    async def read(self, caller: Caller, slug: str, path: str) -> bytes:
        """One file of a skill, for this caller: the only way by which content leaves as a resource.

        It passes the same gate as loading the skill does.
        """
        return await self.engine.as_actor(caller.actor).skills.resource(slug, path)
