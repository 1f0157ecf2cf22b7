"""Page cursors, tool results and errors as MCP represents them."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, TextContent

from prowess.errors import ApprovalRequired, Invalid, NotFound, ProwessError
from prowess.view import error_answer

SKILLS_PER_PAGE = 50
FILES_PER_PAGE = 250
TOOLS_PER_PAGE = 250
"""More than the built-in tools, so that these are all on the first page."""


def make_cursor(key: str) -> str:
    """Return the cursor of the page that starts after a key."""
    return base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")


def read_cursor(cursor: str | None) -> str:
    """Return the key of a cursor, or '' for the first page. Raise `MCPError` for a cursor that we did not make."""
    if not cursor:
        return ""
    try:
        key = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (binascii.Error, ValueError):
        key = ""
    if not key or make_cursor(key) != cursor:
        raise MCPError(code=INVALID_PARAMS, message="Invalid cursor")
    return key


REFUSED = -32010
"""The error code of a request that was understood but refused; `data` has the reason."""

_SHORT_ID_CHARS = 8
"""How many characters of an approval's id are shown, as in the messages of the gate."""


def _error_data(error: ProwessError) -> dict[str, Any]:
    """Return the `data` of a protocol error: the same as the answer of a tool, with the command that approves."""
    answer = error_answer(error)
    if isinstance(error, ApprovalRequired):
        answer["hint"] = add_approve_command(error.hint, error.approval_id)
    return answer


def add_approve_command(hint: str, approval_id: str) -> str:
    """Return the hint with the command that approves the request, unless the hint has it already."""
    command = f"prowess approvals approve {approval_id[:_SHORT_ID_CHARS]}"
    return hint if command in hint else f"{hint} A person approves it with `{command}`.".strip()


def tool_result(data: dict[str, Any], *, ok: bool) -> CallToolResult:
    """Return the answer of a tool as structured content, and as text for clients that read only that."""
    text = json.dumps(data, ensure_ascii=False)
    return CallToolResult(content=[TextContent(text=text)], structured_content=data, is_error=not ok)


def protocol_error(error: ProwessError, uri: str = "") -> MCPError:
    """Return the protocol error for a request that is not a tool call."""
    code = INVALID_PARAMS if isinstance(error, NotFound | Invalid) else REFUSED
    about = {"uri": uri} if uri else {}
    return MCPError(code=code, message=error.message, data={**about, **_error_data(error)})


def resource_not_found(uri: str) -> MCPError:
    """Return the protocol error for an address without a resource."""
    return MCPError(code=INVALID_PARAMS, message="Resource not found", data={"uri": uri})
