"""Turns that run in this process. A turn has its own task, so any number of clients can follow it, from its beginning.

A client that loses its connection comes back and follows the rest. The conversation in the database says whether a turn
runs at all; a turn that is not here runs in another process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from prowess.agent.updates import HelperUpdated, TextWritten, TurnEnded, Update
from prowess.errors import ProwessError, TryLater
from prowess.shares import Shares
from prowess.storage.clock import now
from prowess.storage.owner import Owner

MAX_TURNS = 256
"""How many turns may run at once. Those in the background have no request that is counted elsewhere."""
STOPPED = {"code": "stopped", "message": "The turn was stopped.", "hint": "Resume it, or send another message."}
"""The error of a turn that its user stopped."""
_log = logging.getLogger(__name__)


class LiveTurn:
    """One turn that is being worked on, and everything that has happened in it.

    `message` is what the user said, '' for a turn that was resumed. `after` is the number of the last message that the
    conversation had when it started.
    """

    def __init__(
        self, session: str, turn: Callable[[], AsyncGenerator[Update]], *, owner: Owner, message: str, after: int
    ) -> None:
        self.session = session
        self.owner = owner
        self.message = message
        self.after = after
        self.started_at = now()
        self._updates: list[Update] = []
        self._was_stopped = False
        self._changed = asyncio.Event()
        self.task = asyncio.create_task(self._play(turn))
        self.task.add_done_callback(self._finish)

    @property
    def is_done(self) -> bool:
        """True if nothing more will happen."""
        return self.task.done()

    async def begin(self) -> None:
        """Wait for the first update, or until the turn is stopped. Raise the error that prevents the turn."""
        while not self._updates and not self.is_done:
            await self._changed.wait()
        if not self._updates and not self.task.cancelled():
            self.task.result()

    async def follow(self) -> AsyncGenerator[Update]:
        """Yield all updates from the first on, and new ones as they happen. Raise the error that ended the turn early.

        Pieces of text that wait for the caller come as one. Any number of callers can follow; one who stops listening
        stops nothing.
        """
        sent = 0
        while sent < len(self._updates) or not self.is_done:
            changed = self._changed
            waiting, sent = self._updates[sent:], len(self._updates)
            for update in join_texts(waiting):
                yield update
            if sent == len(self._updates) and not self.is_done:
                await changed.wait()
        if self.task.cancelled():
            if not self._was_stopped:
                raise TryLater("The server is closing.", hint="Resume the turn later.")
            yield TurnEnded(state="stopped", error=STOPPED)
        elif (error := self.task.exception()) is not None:
            if isinstance(error, ProwessError):
                raise error
            _log.error("A turn failed unexpectedly.", exc_info=error)
            raise ProwessError("Internal error.", hint="See the server's log.")

    def cancel(self) -> None:
        """Stop the turn because the process ends. What it has done so far is stored."""
        self.task.cancel()

    async def stop(self) -> None:
        """Stop the turn because its user wants that, and wait until it has ended."""
        self._was_stopped = True
        self.task.cancel()
        await asyncio.wait([self.task])

    async def _play(self, turn: Callable[[], AsyncGenerator[Update]]) -> None:
        async with aclosing(turn()) as updates:
            async for update in updates:
                self._updates.append(update)
                self._notify()

    def _finish(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio does not report an error that nobody follows
        self._notify()

    def _notify(self) -> None:
        # Everyone who waits has this event; those who come later wait for the next.
        self._changed.set()
        self._changed = asyncio.Event()


class LiveTurns:
    """The turns that run in this process, by session. Use it on one event loop."""

    def __init__(self) -> None:
        self._all: list[LiveTurn] = []

    def start(
        self,
        session: str,
        turn: Callable[[], AsyncGenerator[Update]],
        *,
        owner: Owner,
        message: str = "",
        after: int = 0,
    ) -> LiveTurn:
        """Start a turn of a session. One that cannot start, because another runs, fails without disturbing that one.

        Raise `TryLater` if too many turns are running, or too many of this owner.
        """
        if not Shares(MAX_TURNS, (_party(turn.owner) for turn in self._all)).has_room(_party(owner)):
            raise TryLater("Too many turns are running already.", hint="Wait until one has ended.")
        live = LiveTurn(session, turn, owner=owner, message=message, after=after)
        self._all.append(live)
        live.task.add_done_callback(lambda _: self._all.remove(live))
        return live

    def find(self, session: str) -> LiveTurn | None:
        """Return the turn of a session that runs here, or None. Of several, it is the first: the others cannot start."""
        return next((live for live in self._all if live.session == session), None)

    async def close(self) -> None:
        """Stop all turns. They can be resumed later."""
        for live in tuple(self._all):
            live.cancel()
        tasks = [live.task for live in self._all]
        if tasks:
            await asyncio.wait(tasks)


def _party(owner: Owner) -> str:
    return f"{owner.organization_id}\x00{owner.user_id}"


def join_texts(updates: Sequence[Update]) -> list[Update]:
    """Return updates with pieces of text that follow each other joined."""
    joined: list[Update] = []
    for update in updates:
        last = joined[-1] if joined else None
        both = _join(last, update)
        if both is None:
            joined.append(update)
        else:
            joined[-1] = both
    return joined


def _join(first: Update | None, second: Update) -> Update | None:
    """Return two pieces of one text as one, also if a helper wrote it, or None if they are not."""
    if isinstance(first, TextWritten) and isinstance(second, TextWritten):
        return TextWritten(text=first.text + second.text)
    if not isinstance(first, HelperUpdated) or not isinstance(second, HelperUpdated) or first.role != second.role:
        return None
    if not first.update["kind"] == second.update["kind"] == "text":
        return None
    return replace(first, update={**first.update, "text": first.update["text"] + second.update["text"]})
