"""The protocol of a handler, which runs artifacts of one kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from prowess.run.call import Call, Output
from prowess.skill.kinds import Kind


class Handler(Protocol):
    """Runs artifacts of one kind. A handler gets its tools when it is made, and keeps nothing from one call to the next."""

    kind: Kind

    async def run(self, call: Call) -> Output:
        """Run the artifact of a call. Everything that the handler adds to `call.notes` is traced, however the call ends.

        Raise `Invalid` if the inputs or the artifact are wrong, `NotFound` if something that it names does not exist,
        `Unavailable` if a fallback may run instead, and `RunFailed` or one of its subclasses if it ran without a good
        result. Expect to be cancelled at every `await`.
        """
        ...


RunArtifact = Callable[[Call], Awaitable[Output]]
"""What a handler does with a call, and what each wrapper of the pipeline does around it."""
