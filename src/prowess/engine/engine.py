"""The engine: everything that a door can ask for, over one catalog."""

from __future__ import annotations

from typing import Self

from prowess.engine.approvals import Deciding
from prowess.engine.grants import Granting
from prowess.engine.registry import Registering
from prowess.engine.runs import Calling, Running
from prowess.engine.search import Accounting, Finding
from prowess.engine.sessions import Activating
from prowess.engine.skills import Keeping, Writing
from prowess.engine.traces import Reporting, Tracing
from prowess.errors import RunFailed


class Engine(
    Keeping,
    Writing,
    Finding,
    Activating,
    Deciding,
    Accounting,
    Reporting,
    Registering,
    Running,
    Calling,
    Granting,
    Tracing,
):
    """Keeps, finds, admits, runs and gives out skills. Opened by `prowess.Prowess.open`; close it, or use `async with`.

    Each part stands on the frame alone and knows no other.
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        try:
            await self.close()
        except RunFailed:
            if kind is None:  # otherwise what ended the block is the news
                raise

    async def close(self) -> None:
        """Let go of models, workers, databases and files.

        `RunFailed`, after all of that, where a script that answers for a model was not asked for all of its steps.
        """
        try:
            await self._parts.aclose()
        finally:
            await self._blocking(self._parts.close)
