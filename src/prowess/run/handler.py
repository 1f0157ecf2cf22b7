"""What runs artifacts of one kind."""

from __future__ import annotations

from typing import Protocol

from prowess.run.call import Call, Output
from prowess.skill.kinds import Kind


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
