"""Pages of a listing, cut after a key, so that what comes and goes meanwhile moves nothing else."""

from __future__ import annotations

import base64
import binascii

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

SKILLS_A_PAGE = 50
FILES_A_PAGE = 250
TOOLS_A_PAGE = 250
"""More than there are tools of our own, so that these are all on the first page."""


def cursor_after(key: str) -> str:
    """The cursor of the page that begins after a key."""
    return base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")


def key_of(cursor: str | None) -> str:
    """The key that a cursor stands for; '' for the first page."""
    if not cursor:
        return ""
    try:
        key = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (binascii.Error, ValueError):
        key = ""
    if not key or cursor_after(key) != cursor:
        raise MCPError(code=INVALID_PARAMS, message="Invalid cursor")
    return key
