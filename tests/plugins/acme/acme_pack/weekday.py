"""A tool that agents can call."""

from datetime import date
from typing import Any

from prowess.errors import Invalid
from prowess.tools.tool import ToolContext


async def acme_weekday(_context: ToolContext, day: str) -> dict[str, Any]:
    """Tell the day of the week of a date, given as YYYY-MM-DD."""
    try:
        return {"weekday": date.fromisoformat(day).strftime("%A")}
    except ValueError:
        raise Invalid(f"{day[:40]!r} is not a date.", hint="Give it as YYYY-MM-DD.") from None
