"""Format times the way they are stored: ISO-8601 text in UTC, which sorts chronologically."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from prowess.errors import Invalid

SKEW_SECONDS = 3_600.0
"""How far ahead of ours another clock may be. A later time was recorded before a clock was set back, and is over."""

_DAY_SECONDS = 86_400


def now() -> str:
    """Return the current time, such as `2026-03-01T09:30:00.000000Z`."""
    # A run takes the time five times, and formatting the date takes most of it.
    second, microseconds = divmod(time.time_ns() // 1000, 1_000_000)
    return f"{_format_second(second)}.{microseconds:06}Z"


@lru_cache(maxsize=1)
def _format_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat().removesuffix("+00:00")


def seconds_from_now(seconds: float) -> str:
    """Return the time that many seconds from now."""
    return _format(datetime.now(UTC) + timedelta(seconds=seconds))


def is_recent(moment: str, seconds: float) -> bool:
    """Return True if a recorded time is at most that many seconds ago."""
    return seconds_from_now(-seconds) <= moment <= seconds_from_now(SKEW_SECONDS)


def is_ahead(moment: str) -> bool:
    """Return True if a time at which something ends, such as a lease of minutes, has not come yet."""
    return is_recent(moment, 0)


def days_ago(days: float) -> str:
    """Return the time that many days ago. Raise `Invalid` if that is not a number, or no calendar goes back so far."""
    try:
        return seconds_from_now(-days * _DAY_SECONDS)
    except (OverflowError, TypeError, ValueError):
        raise Invalid(f"Invalid number of days {str(days)[:40]!r}.", hint="Pass a number such as 30.") from None


def parse_moment(text: str) -> str:
    """Return a time that a person or program wrote, such as `2026-03-01` or `2026-03-01T09:30:00+01:00`, in this format.

    Without a zone it is in UTC. Raise `ValueError` if it is not a time.
    """
    parsed = datetime.fromisoformat(text)
    try:
        return _format(parsed.astimezone(UTC) if parsed.tzinfo else parsed.replace(tzinfo=UTC))
    except OverflowError as error:
        raise ValueError(text) from error


def start_of_day(moment: str, days_before: int) -> str:
    """Return the midnight, in UTC, that started the day so many days before a time."""
    day = datetime.fromisoformat(moment).astimezone(UTC) - timedelta(days=days_before)
    return _format(day.replace(hour=0, minute=0, second=0, microsecond=0))


def format_nanoseconds(nanoseconds: int) -> str:
    """Return a file system's time, in nanoseconds since 1970, in the same format."""
    return _format(datetime.fromtimestamp(nanoseconds / 1e9, UTC))


def _format(moment: datetime) -> str:
    # Always with microseconds: `isoformat` drops a fraction of zero, and texts of different lengths do not sort by
    # time.
    return moment.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
