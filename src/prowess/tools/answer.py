"""What a call of a tool gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from prowess.errors import ProwessError


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a call gave; with an `error`, `data` tells the agent what went wrong and what to do."""

    data: dict[str, Any]
    error: ProwessError | None = None

    @property
    def ok(self) -> bool:
        """Whether the tool did what it was asked."""
        return self.error is None
