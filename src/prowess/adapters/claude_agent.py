"""Claude Agent SDK: skills as an in-process MCP server, a hook and a permission callback.

    options = await add_skills(ClaudeAgentOptions(), skills, ask)
    async with ClaudeSDKClient(options) as client: …

The hook matches every prompt of the user, and adds the prompt blocks as context, because the system prompt of Claude Code
is fixed once it runs. Claude Code asks the permission callback before it calls a tool; one that a person must approve waits
there for `ask`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from prowess.adapters.agent_skills import AgentSkills, AskPerson, missing_framework
from prowess.errors import Conflict, Invalid
from prowess.tools.tool import Tool

try:
    from claude_agent_sdk import (
        ClaudeAgentOptions,
        HookContext,
        HookInput,
        HookJSONOutput,
        HookMatcher,
        PermissionResult,
        PermissionResultAllow,
        PermissionResultDeny,
        SdkMcpTool,
        ToolPermissionContext,
        create_sdk_mcp_server,
    )
except ImportError as error:
    raise missing_framework("Claude Agent SDK", "claude-agent") from error

SERVER = "prowess"
"""The name of the MCP server. Claude Code calls its tools `mcp__prowess__NAME`."""

_PREFIX = f"mcp__{SERVER}__"
_CALL = "claude"
"""The id of all calls. Claude Code tells the permission callback the id of a call, but not the tool."""


async def add_skills(options: ClaudeAgentOptions, skills: AgentSkills, ask: AskPerson) -> ClaudeAgentOptions:
    """Return options with the skills of one conversation. Those that are given stay, such as other servers and hooks.

    The tools are those that are offered now: Claude Code reads them once. Raise `Invalid` if there is a server with our name.
    """
    if not isinstance(options.mcp_servers, Mapping) or SERVER in options.mcp_servers:
        raise Invalid(
            f"These options cannot have another MCP server named {SERVER!r}.",
            hint="Give the servers as a mapping, and use another name.",
        )
    bridge = _Bridge(skills, ask, options)
    server = create_sdk_mcp_server(SERVER, tools=[bridge.make_tool(tool) for tool in await skills.tools()])
    hooks = {event: list(matchers) for event, matchers in (options.hooks or {}).items()}
    hooks.setdefault("UserPromptSubmit", []).append(HookMatcher(hooks=[bridge.on_prompt]))
    hooks.setdefault("PreCompact", []).append(HookMatcher(hooks=[bridge.on_compaction]))
    return replace(
        options,
        mcp_servers={**options.mcp_servers, SERVER: server},
        hooks=hooks,
        can_use_tool=bridge.permit,
    )


class _Bridge:
    """Connects one conversation of Claude Code to the skills of an agent."""

    def __init__(self, skills: AgentSkills, ask: AskPerson, options: ClaudeAgentOptions) -> None:
        self._skills, self._ask, self._others = skills, ask, options.can_use_tool
        self._shown = ""

    async def on_prompt(self, given: HookInput, call_id: str | None, context: HookContext) -> HookJSONOutput:
        """Match a prompt of the user, and add the blocks to it unless the conversation has them already."""
        await self._skills.begin(str(cast("Mapping[str, Any]", given).get("prompt") or ""))
        blocks = await self._skills.prompt()
        known, self._shown = self._shown, blocks
        if not blocks or blocks == known:
            return {}
        return {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": blocks}}

    async def on_compaction(self, given: HookInput, call_id: str | None, context: HookContext) -> HookJSONOutput:
        """Add the blocks to the next prompt again: the summary of a conversation does not have them."""
        self._shown = ""
        return {}

    async def permit(self, tool: str, arguments: dict[str, Any], context: ToolPermissionContext) -> PermissionResult:
        """Allow calls that the gate allows, and ask a person where it asks. Other tools are decided by the application."""
        if not tool.startswith(_PREFIX):
            if self._others is not None:
                return await self._others(tool, arguments, context)
            return PermissionResultDeny(message=f"Nobody can be asked about {tool}.")
        name = tool.removeprefix(_PREFIX)
        while (approval := await self._skills.check(name, arguments, call_id=_CALL)) is not None:
            approved = await self._ask(approval)
            try:
                await self._skills.answer(approval, approved=approved)
            except Conflict as error:
                return PermissionResultDeny(message=error.message)
            if not approved:
                return PermissionResultDeny(message="The user denied this call. Continue without it.")
        return PermissionResultAllow(updated_input=arguments)

    def make_tool(self, tool: Tool) -> SdkMcpTool[Any]:
        """Return one tool of the server. Its call passes the gate, whether Claude Code asked for a permission or not."""

        async def call(arguments: dict[str, Any]) -> dict[str, Any]:
            result = await self._skills.call(tool.name, arguments, call_id=_CALL)
            text = result.text
            # Skills that were just enabled must be known now, not only at the next prompt.
            if result.ok and tool.effect == "changes" and (blocks := await self._skills.prompt()) != self._shown:
                self._shown, text = blocks, f"{text}\n\n{blocks}"
            return {"content": [{"type": "text", "text": text}], "is_error": not result.ok}

        return SdkMcpTool(name=tool.name, description=tool.description, input_schema=tool.parameters, handler=call)
