"""`tools/list` and `tools/call`, with progress notifications."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
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
from prowess.interfaces.mcp.backend import Backend
from prowess.interfaces.mcp.elicitation import request_approval
from prowess.interfaces.mcp.protocol import TOOLS_PER_PAGE, add_approve_command, make_cursor, read_cursor, tool_result
from prowess.interfaces.mcp.request import Context
from prowess.interfaces.mcp.sampling import SamplingModel, SamplingRelay, client_offers_model
from prowess.run.request import Step, StepListener
from prowess.tools.tool import Tool, ToolAnswer
from prowess.tools.toolbox import Toolbox, builtin_tools

_MAX_MESSAGE_CHARS = 2_000

_log = logging.getLogger(__name__)


@asynccontextmanager
async def report_progress(context: Context) -> AsyncGenerator[StepListener]:
    """Tell the client of each step, in order, and before its answer comes; of nothing where it gave no progress token.

    No step waits for the client: while one notice is under way, pieces of text that follow each other become one.
    """
    progress = _ProgressQueue(context)
    try:
        yield progress.watch
        await progress.told()
    finally:
        progress.stop()


class _ProgressQueue:
    """The steps that the client has not been told of yet, and the task that tells it while there are any."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._steps: deque[Step] = deque()
        self._telling: asyncio.Task[None] | None = None
        self._number = 0

    def watch(self, step: Step) -> None:
        """Take a step."""
        if self._steps and step.text and self._steps[-1].text:
            step = replace(step, text=self._steps.pop().text + step.text)
        self._steps.append(step)
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell())

    async def told(self) -> None:
        """Wait until the client has been told of everything."""
        if self._telling is not None:
            await self._telling

    def stop(self) -> None:
        """Tell it nothing more."""
        if self._telling is not None:
            self._telling.cancel()

    async def _tell(self) -> None:
        while self._steps:
            message = _progress_message(self._steps.popleft())
            self._number += 1
            try:
                await self._context.session.report_progress(self._number, None, message)
            except Exception:  # noqa: BLE001  (a client that cannot be told does not end the run)
                _log.debug("The client could not be told of progress.", exc_info=True)


def _progress_message(step: Step) -> str:
    return step.text[-_MAX_MESSAGE_CHARS:] if step.text else f"{step.artifact}: {step.state}"


async def list_tools(door: Backend, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
    """The tools that make sense for this caller now, page by page: ours are all on the first."""
    after = read_cursor(params.cursor if params else None)
    offered = await door.toolbox(context).offered()
    left = [tool for tool in offered if tool.digest and tool.name > after] if after else offered
    page = left[:TOOLS_PER_PAGE]
    cursor = make_cursor(page[-1].name) if len(left) > TOOLS_PER_PAGE else None
    return ListToolsResult(tools=[_tool_definition(tool) for tool in page], next_cursor=cursor)


def _tool_definition(tool: Tool) -> WireTool:
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
    door: Backend, context: Context, params: CallToolRequestParams
) -> CallToolResult | InputRequiredResult:
    """Call a tool; where a person must agree first and can be asked, they are asked."""
    async with report_progress(context) as watch:
        if not _may_use_sampling(context, params):
            return await _call_with_approval(door, context, params, door.toolbox(context, watch=watch))

        async def begin(relay: SamplingRelay) -> CallToolResult | InputRequiredResult:
            model = SamplingModel(context, relay.ask)
            return await _call_with_approval(
                door, context, params, door.toolbox(context, watch=relay.tell, spare=model)
            )

        return await door.relays.round(door.caller_of(context).key, params, watch, begin)


def _may_use_sampling(context: Context, params: CallToolRequestParams) -> bool:
    """Whether the call may end with a request to its client's model."""
    modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    return modern and _runs_code(params.name) and client_offers_model(context)


def _runs_code(name: str) -> bool:
    """Whether a tool runs something; those that are not ours are skills."""
    tool = builtin_tools().get(name)
    return tool is None or tool.effect == "runs"


async def _call_with_approval(
    door: Backend, context: Context, params: CallToolRequestParams, toolbox: Toolbox
) -> CallToolResult | InputRequiredResult:
    arguments = params.arguments or {}
    answer = await _call(door, toolbox, params.name, arguments)
    if approval_id := _approval_id(answer):
        verdict = await request_approval(door, context, params, approval_id)
        if isinstance(verdict, InputRequiredResult):
            return verdict
        if verdict == "denied":
            denied = ApprovalDenied("A person said no.", hint="Go on without it, or ask them why.")
            return _call_result(await toolbox.refusal(params.name, denied))
        if verdict == "approved":
            answer = await _call(door, toolbox, params.name, arguments)
    return _call_result(answer)


async def _call(door: Backend, toolbox: Toolbox, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
    """The answer of a tool; who listens learns at once of what it wrote."""
    answer = await toolbox.call(name, arguments)
    tool = builtin_tools().get(name)
    if answer.ok and tool is not None and (name == "skill_reload" or tool.needs == "writing"):
        door.notices.wake()
    return answer


def _approval_id(answer: ToolAnswer) -> str:
    """The question that the answer waits for; '' where it waits for none."""
    return str(answer.data.get("approval_id") or "")


def _call_result(answer: ToolAnswer) -> CallToolResult:
    """The answer for the wire; one that says what went wrong is marked as such, whatever form it has."""
    data = answer.data
    if approval_id := _approval_id(answer):
        data = {**data, "hint": add_approve_command(str(data.get("hint") or ""), approval_id)}
    return tool_result(data, ok=answer.ok and not data.get("error"))
