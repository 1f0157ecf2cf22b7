"""Progress of what is run, told to a client that asked to be told."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

from prowess.interfaces.mcp.caller import Context
from prowess.run.call import Step, Watch

_MESSAGE_LIMIT = 2_000

_log = logging.getLogger(__name__)


@asynccontextmanager
async def progress_of(context: Context) -> AsyncGenerator[Watch]:
    """Tell the client of each step, in order, and before its answer comes; of nothing where it gave no progress token.

    No step waits for the client: while one notice is under way, pieces of text that follow each other become one.
    """
    progress = _Progress(context)
    try:
        yield progress.watch
        await progress.told()
    finally:
        progress.stop()


class _Progress:
    """The steps that the client has not been told of yet, and the task that tells it while there are any."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._steps: deque[Step] = deque()
        self._telling: asyncio.Task[None] | None = None
        self._number = 0

    def watch(self, step: Step) -> None:
        """Take a step."""
        if self._steps and step.text and self._steps[-1].text:
            step = replace(step, text=self._steps.pop().text + step.text)
        self._steps.append(step)
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell())

    async def told(self) -> None:
        """Wait until the client has been told of everything."""
        if self._telling is not None:
            await self._telling

    def stop(self) -> None:
        """Tell it nothing more."""
        if self._telling is not None:
            self._telling.cancel()

    async def _tell(self) -> None:
        while self._steps:
            message = _message(self._steps.popleft())
            self._number += 1
            try:
                await self._context.session.report_progress(self._number, None, message)
            except Exception:  # noqa: BLE001  (a client that cannot be told does not end the run)
                _log.debug("The client could not be told of progress.", exc_info=True)


def _message(step: Step) -> str:
    return step.text[-_MESSAGE_LIMIT:] if step.text else f"{step.artifact}: {step.state}"
