"""The protocol of a handler, which runs artifacts of one kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from prowess.policy.grants import Grants
from prowess.run.call import Call, Output
from prowess.skill.kinds import Kind

__all__ = ["GrantLookup", "Grants"]


class Handler(Protocol):
    """Runs artifacts of one kind. It is handed its tools when it is made, and keeps nothing of one run for another.

    `Invalid` is raised where the inputs or the artifact are wrong, `NotFound` where something it names is not there,
    `Unavailable` where a fallback may serve, `RunFailed` in one of its forms where it ran and gave nothing good. It can be
    cancelled wherever it awaits. What it notes in `call.notes` is traced, however it ends.
    """

    kind: Kind

    async def run(self, call: Call) -> Output:
        """Run it."""
        ...


GrantLookup = Callable[[Call], Awaitable[Grants]]
"""Finds what a call is given."""
