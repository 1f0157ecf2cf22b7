"""`tools/list` and `tools/call`: the tools of whoever calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    ToolAnnotations,
)
from mcp_types import Tool as WireTool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from prowess.errors import ApprovalDenied
from prowess.interfaces.mcp.approval import settle
from prowess.interfaces.mcp.caller import Context
from prowess.interfaces.mcp.door import Door
from prowess.interfaces.mcp.paging import TOOLS_A_PAGE, cursor_after, key_of
from prowess.interfaces.mcp.progress import progress_of
from prowess.interfaces.mcp.refusals import tool_result, with_command
from prowess.interfaces.mcp.relay import Relay
from prowess.interfaces.mcp.sampling import SamplingModel, offers_model
from prowess.tools.answer import Answer
from prowess.tools.tool import Tool
from prowess.tools.toolbox import Toolbox, tools


async def list_tools(door: Door, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
    """The tools that make sense for this caller now, page by page: ours are all on the first."""
    after = key_of(params.cursor if params else None)
    offered = await door.toolbox(context).offered()
    left = [tool for tool in offered if tool.digest and tool.name > after] if after else offered
    page = left[:TOOLS_A_PAGE]
    cursor = cursor_after(page[-1].name) if len(left) > TOOLS_A_PAGE else None
    return ListToolsResult(tools=[_wire(tool) for tool in page], next_cursor=cursor)


def _wire(tool: Tool) -> WireTool:
    """The tool for the wire. What a skill's tool does to what lies outside is not known, so the hints tell the worst."""
    skill = bool(tool.digest)
    return WireTool(
        name=tool.name,
        title=tool.title or None,
        description=tool.description,
        input_schema=tool.parameters,
        output_schema=tool.result,
        annotations=ToolAnnotations(
            read_only_hint=tool.effect == "reads",
            destructive_hint=tool.effect == "destroys" or bool(tool.reach),
            open_world_hint=bool(tool.reach) if skill else tool.effect == "runs",
        ),
    )


async def call_tool(
    door: Door, context: Context, params: CallToolRequestParams
) -> CallToolResult | InputRequiredResult:
    """Call a tool; where a person must agree first and can be asked, they are asked."""
    async with progress_of(context) as watch:
        if not _may_ask_back(context, params):
            return await _settled(door, context, params, door.toolbox(context, watch=watch))

        async def begin(relay: Relay) -> CallToolResult | InputRequiredResult:
            model = SamplingModel(context, relay.ask)
            return await _settled(door, context, params, door.toolbox(context, watch=relay.tell, spare=model))

        return await door.relays.round(door.caller_of(context).key, params, watch, begin)


def _may_ask_back(context: Context, params: CallToolRequestParams) -> bool:
    """Whether the call may end with a request to its client's model."""
    modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    return modern and _runs(params.name) and offers_model(context)


def _runs(name: str) -> bool:
    """Whether a tool runs something; those that are not ours are skills."""
    tool = tools().get(name)
    return tool is None or tool.effect == "runs"


async def _settled(
    door: Door, context: Context, params: CallToolRequestParams, toolbox: Toolbox
) -> CallToolResult | InputRequiredResult:
    arguments = params.arguments or {}
    answer = await _called(door, toolbox, params.name, arguments)
    if approval_id := _approval_id(answer):
        verdict = await settle(door, context, params, approval_id)
        if isinstance(verdict, InputRequiredResult):
            return verdict
        if verdict == "denied":
            denied = ApprovalDenied("A person said no.", hint="Go on without it, or ask them why.")
            return _result(await toolbox.refusal(params.name, denied))
        if verdict == "approved":
            answer = await _called(door, toolbox, params.name, arguments)
    return _result(answer)


async def _called(door: Door, toolbox: Toolbox, name: str, arguments: Mapping[str, Any]) -> Answer:
    """The answer of a tool; who listens learns at once of what it wrote."""
    answer = await toolbox.call(name, arguments)
    tool = tools().get(name)
    if answer.ok and tool is not None and (name == "skill_reload" or tool.needs == "writing"):
        door.notices.wake()
    return answer


def _approval_id(answer: Answer) -> str:
    """The question that the answer waits for; '' where it waits for none."""
    return str(answer.data.get("approval_id") or "")


def _result(answer: Answer) -> CallToolResult:
    """The answer for the wire; one that says what went wrong is marked as such, whatever form it has."""
    data = answer.data
    if approval_id := _approval_id(answer):
        data = {**data, "hint": with_command(str(data.get("hint") or ""), approval_id)}
    return tool_result(data, ok=answer.ok and not data.get("error"))
