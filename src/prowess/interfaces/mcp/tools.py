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
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    ToolAnnotations,
)
from mcp_types import Tool as WireTool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from prowess.errors import ApprovalDenied
from prowess.interfaces.mcp.backend import Backend
from prowess.interfaces.mcp.elicitation import request_approval, too_long_hint
from prowess.interfaces.mcp.protocol import TOOLS_PER_PAGE, make_cursor, read_cursor, tool_result
from prowess.interfaces.mcp.request import Context, sender_of
from prowess.interfaces.mcp.sampling import CallResult, SamplingModel, SamplingRelay, client_offers_model
from prowess.run.request import Step, StepListener
from prowess.tools.tool import Tool, ToolAnswer
from prowess.tools.toolbox import Toolbox, builtin_tools

_MAX_MESSAGE_CHARS = 2_000

_log = logging.getLogger(__name__)


@asynccontextmanager
async def report_progress(context: Context) -> AsyncGenerator[StepListener]:
    """Yield a listener that reports each step to the client, in order and before the answer of the call.

    Without a progress token nothing is sent. A step never waits for the client: while one notification is being sent,
    consecutive pieces of text are merged into one.
    """
    progress = _ProgressQueue(context)
    try:
        yield progress.add
        await progress.flush()
    finally:
        progress.stop()


class _ProgressQueue:
    """The steps that were not reported yet, and the task that sends them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._steps: deque[Step] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._number = 0

    def add(self, step: Step) -> None:
        """Queue a step."""
        if self._steps and step.text and self._steps[-1].text:
            step = replace(step, text=self._steps.pop().text + step.text)
        self._steps.append(step)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def flush(self) -> None:
        """Wait until everything is reported."""
        if self._sending is not None:
            await self._sending

    def stop(self) -> None:
        """Stop reporting."""
        if self._sending is not None:
            self._sending.cancel()

    async def _send(self) -> None:
        while self._steps:
            message = _progress_message(self._steps.popleft())
            self._number += 1
            try:
                await self._context.session.report_progress(self._number, None, message)
            except Exception:  # noqa: BLE001  (a client that cannot be reached must not end the run)
                _log.debug("A progress notification could not be sent.", exc_info=True)


def _progress_message(step: Step) -> str:
    return step.text[-_MAX_MESSAGE_CHARS:] if step.text else f"{step.artifact}: {step.state}"


async def list_tools(backend: Backend, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
    """Return a page of the tools that the caller can use now. The built-in tools are all on the first page."""
    after = read_cursor(params.cursor if params else None)
    offered = await backend.toolbox(context).offered()
    rest = [tool for tool in offered if tool.digest and tool.name > after] if after else offered
    page = rest[:TOOLS_PER_PAGE]
    cursor = make_cursor(page[-1].name) if len(rest) > TOOLS_PER_PAGE else None
    return ListToolsResult(tools=[_tool_definition(tool) for tool in page], next_cursor=cursor)


def _tool_definition(tool: Tool) -> WireTool:
    """Return a tool as MCP describes it."""
    return WireTool(
        name=tool.name,
        title=tool.title or None,
        description=tool.description,
        input_schema=tool.parameters,
        output_schema=tool.result,
        annotations=_annotations(tool),
    )


def _annotations(tool: Tool) -> ToolAnnotations:
    """Return the hints about a tool. Clients use them to decide what they may call without asking, and in parallel."""
    if tool.effect == "reads":
        # The other hints are about changes.
        return ToolAnnotations(read_only_hint=True, open_world_hint=tool.needs == "registry")
    # What a skill's tool does is unknown, so its hints assume the worst.
    return ToolAnnotations(
        destructive_hint=tool.effect == "destroys" or bool(tool.reach),
        idempotent_hint=True if tool.effect == "changes" and tool.needs == "conversation" else None,
        open_world_hint=bool(tool.reach) if tool.digest else tool.effect == "runs" or tool.needs == "live",
    )


async def call_tool(backend: Backend, context: Context, params: CallToolRequestParams) -> CallResult:
    """Call a tool. If the call needs an approval and the client can ask its user, ask."""
    async with report_progress(context) as on_step:
        if not _may_use_sampling(context, params):
            return await _call_with_approval(backend, context, params, backend.toolbox(context, on_step=on_step))

        async def begin(relay: SamplingRelay) -> CallResult:
            model = SamplingModel(context, relay.ask)
            return await _call_with_approval(
                backend, context, params, backend.toolbox(context, on_step=relay.report, fallback_model=model)
            )

        return await backend.relays.round(sender_of(context, backend.caller).key, params, on_step, begin)


def _may_use_sampling(context: Context, params: CallToolRequestParams) -> bool:
    """Return True if the call may end with a request to the client's model."""
    is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    return is_modern and _runs_code(params.name) and client_offers_model(context)


def _runs_code(name: str) -> bool:
    """Return True if a tool runs code; every tool that is not built in is a skill."""
    tool = builtin_tools().get(name)
    return tool is None or tool.effect == "runs"


async def _call_with_approval(
    backend: Backend, context: Context, params: CallToolRequestParams, toolbox: Toolbox
) -> CallResult:
    arguments = params.arguments or {}
    answer = await _call(backend, toolbox, params.name, arguments)
    approval_id = _approval_id(answer)
    if approval_id:
        verdict = await request_approval(backend, context, params, approval_id)
        if isinstance(verdict, InputRequiredResult):
            return verdict
        if verdict == "denied":
            denied = ApprovalDenied("A person denied this.", hint="Continue without it, or ask them why.")
            return _call_result(await toolbox.refusal(params.name, denied))
        if verdict == "approved":
            answer = await _call(backend, toolbox, params.name, arguments)
        else:
            resumed = await toolbox.resume(params.name, arguments, answer)
            _wake_after(backend, params.name, resumed)
            is_open = _approval_id(resumed) == approval_id
            hint = {"hint": too_long_hint(approval_id)} if verdict == "too-long" and is_open else {}
            answer = replace(resumed, data={**resumed.data, **hint})
    return _call_result(answer)


async def _call(backend: Backend, toolbox: Toolbox, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
    answer = await toolbox.attempt(name, arguments)
    _wake_after(backend, name, answer)
    return answer


def _wake_after(backend: Backend, name: str, answer: ToolAnswer) -> None:
    """Wake the notifier if the tool changed something."""
    tool = builtin_tools().get(name)
    if answer.ok and tool is not None and (name == "skill_reload" or tool.needs == "writing"):
        backend.notices.wake()


def _approval_id(answer: ToolAnswer) -> str:
    """Return the id of the approval that the answer waits for, or ''."""
    return str(answer.data.get("approval_id") or "")


def _call_result(answer: ToolAnswer) -> dict[str, Any]:
    """Return the answer as MCP sends it, marked as an error if it reports one in any form."""
    return tool_result(answer.data, ok=answer.ok and not answer.data.get("error"))
