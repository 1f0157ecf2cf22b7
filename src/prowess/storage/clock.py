"""The time, as it is stored: ISO-8601 text in UTC that sorts as it passes."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """The present moment, such as `2026-03-01T09:30:00.000000Z`."""
    return datetime.now(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
