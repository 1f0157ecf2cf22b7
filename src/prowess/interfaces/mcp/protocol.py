"""Page cursors, tool results and errors as MCP represents them."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any, cast

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from prowess.errors import Invalid, NotFound, ProwessError
from prowess.skill.json_values import map_texts
from prowess.skill.text.hidden import show_controls
from prowess.view import error_answer

SKILLS_PER_PAGE = 50
PROMPTS_PER_PAGE = 100
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


# As JSON writes them: those below U+0020 are escaped, the others are not. White space is escaped as well, but shorter.
_CONTROLS = re.compile(r"\\u00[01][0-9a-f]|[\x7f-\x84\x86-\x9f]")


def tool_result(data: dict[str, Any], *, ok: bool) -> dict[str, Any]:
    """Return the answer of a tool as structured content, and as text for clients that read only that.

    It is a `CallToolResult` as it is sent; a model would only be written out again.
    """
    text = json.dumps(data, ensure_ascii=False)
    # What a skill printed may have terminal escapes in it, which must not reach a prompt.
    if _CONTROLS.search(text):
        data = map_texts(data, show_controls, names=show_controls)
        text = json.dumps(data, ensure_ascii=False)
    content = [{"text": text, "type": "text"}]
    return {"content": content, "isError": not ok, "resultType": "complete", "structuredContent": data}


def protocol_error(error: ProwessError, uri: str = "") -> MCPError:
    """Return the protocol error for a request that is not a tool call."""
    error = error.for_agent()
    code = INVALID_PARAMS if isinstance(error, NotFound | Invalid) else REFUSED
    about = {"uri": uri} if uri else {}
    return MCPError(code=code, message=error.message, data={**about, **error_answer(error)})


_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89abcdefABCDEF]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def find_broken_request(data: bytes) -> dict[str, Any] | None:
    r"""Return the answer to a request that contains half of a surrogate pair; None for all other messages.

    JSON can express such halves (`\ud800`), but they cannot be encoded as text. The SDK could not read the message, nor the
    id that the client waits for.
    """
    if not _SURROGATE_ESCAPE.search(data):
        return None
    try:
        message: Any = json.loads(data)
        written = json.dumps(message, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not _SURROGATE.search(written):
        return None
    request = cast("dict[str, Any]", message)
    request_id = request.get("id")
    if "method" not in request or not isinstance(request_id, str | int) or _SURROGATE.search(str(request_id)):
        return None
    broken = Invalid(
        "The request contains half of a surrogate pair.",
        hint="Send the whole character, or remove it.",
    )
    error = {"code": INVALID_PARAMS, "message": broken.message, "data": error_answer(broken)}
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


def resource_not_found(uri: str) -> MCPError:
    """Return the protocol error for an address without a resource."""
    return MCPError(code=INVALID_PARAMS, message="Resource not found", data={"uri": uri})
