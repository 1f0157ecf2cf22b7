"""What the handlers of the MCP door share."""

from __future__ import annotations

from dataclasses import dataclass

from prowess.engine.engine import Engine
from prowess.interfaces.mcp.caller import Caller, Context, caller_of, conversation_of
from prowess.interfaces.mcp.notices import Notices
from prowess.interfaces.mcp.shelf import Shelf
from prowess.tools.toolbox import Toolbox


@dataclass(frozen=True, kw_only=True)
class Door:
    """The engine, the skills as entries, and who calls where the transport says nothing about it."""

    engine: Engine
    shelf: Shelf
    caller: Caller
    notices: Notices

    def caller_of(self, context: Context) -> Caller:
        """Who a request comes from."""
        return caller_of(context, self.caller)

    def toolbox(self, context: Context) -> Toolbox:
        """The tools of whoever a request comes from, in the conversation it belongs to.

        What is enabled is handed over by the tool, since the client's system prompt is not ours to write.
        """
        caller = self.caller_of(context)
        conversation = conversation_of(context, caller)
        return Toolbox(self.engine, actor=caller.actor, conversation=conversation, hands_over=True)

    async def read(self, caller: Caller, slug: str, path: str) -> bytes:
        """One file of a skill, for this caller: the only way by which content leaves as a resource.

        It passes the same gate as loading the skill does.
        """
        return await self.engine.resource(slug, path, actor=caller.actor)
