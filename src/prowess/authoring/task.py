"""A long task of authoring that reports its progress, so that it can be a durable job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProgress:
    """How far a task is. `cost` is in US dollars, None if no price is known."""

    total: int = 0
    done: int = 0
    failed: int = 0
    cost: float | None = None


ProgressListener = Callable[[TaskProgress], None]
"""Receives progress. It returns at once, and may be called for every small step."""


def ignore_progress(progress: TaskProgress) -> None:
    """Ignore progress."""
