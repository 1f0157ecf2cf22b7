"""How an error of ours crosses to the wire: as a result that a model can read, or as a protocol error."""

from __future__ import annotations

import json
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, TextContent

from prowess.errors import ApprovalRequired, Invalid, NotFound, ProwessError

REFUSED = -32010
"""The code of a request that was understood and refused; `data` says why."""

_SHOWN = 8
"""So many characters of an approval's id are shown, as the gate shows them."""


def refusal_data(error: ProwessError) -> dict[str, Any]:
    """The error as data, as the tools give it."""
    told: dict[str, Any] = {"error": {"code": error.code, "message": error.message}, "hint": error.hint}
    if isinstance(error, ApprovalRequired):
        told |= {"hint": with_command(error.hint, error.approval_id), "approval_id": error.approval_id}
    return told


def with_command(hint: str, approval_id: str) -> str:
    """The hint, with the command by which a person approves; the gate's own hints have it."""
    command = f"prowess approvals approve {approval_id[:_SHOWN]}"
    return hint if command in hint else f"{hint} A person approves it with `{command}`.".strip()


def tool_result(data: dict[str, Any], *, ok: bool) -> CallToolResult:
    """The answer of a tool: as structured content, and as text for clients that know nothing else."""
    text = json.dumps(data, ensure_ascii=False)
    return CallToolResult(content=[TextContent(text=text)], structured_content=data, is_error=not ok)


def protocol_error(error: ProwessError, uri: str = "") -> MCPError:
    """The error of a request that is not a tool call."""
    code = INVALID_PARAMS if isinstance(error, NotFound | Invalid) else REFUSED
    about = {"uri": uri} if uri else {}
    return MCPError(code=code, message=error.message, data={**about, **refusal_data(error)})


def nothing_at(uri: str) -> MCPError:
    """The error of an address at which nothing is served."""
    return MCPError(code=INVALID_PARAMS, message="Resource not found", data={"uri": uri})
