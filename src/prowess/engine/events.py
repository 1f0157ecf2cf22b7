"""Events of an organization: read, follow and count them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractContextManager, aclosing
from typing import TYPE_CHECKING

from prowess.engine.context import Part, check_limit
from prowess.events import Event
from prowess.threads import offload

if TYPE_CHECKING:
    from prowess.feed.event_feed import Subscription


class Events(Part):
    """Events of the actor's organization: those of its own user, or all of them for an administrator."""

    async def list(
        self, *, after: int = 0, limit: int = 200, names: Sequence[str] = (), session: str = ""
    ) -> list[Event]:
        """Return the events after a number, in order."""
        check_limit(limit)
        user = self._visible_user()
        feed = self._context.resources.feed(self._context.actor.organization)

        def read() -> list[Event]:
            # Events are written in the background: who lists them expects what was just done here.
            self._context.resources.recorder().flush()
            return feed.read(after, limit, names=names, session_id=session, user=user)

        return await offload(read)

    async def first(self) -> int:
        """Return the number of the oldest event that is kept, or 1. Older ones were pruned."""
        self._context.actor.require("skills.read")
        return await offload(self._context.resources.feed(self._context.actor.organization).first)

    async def last(self) -> int:
        """Return the number of the organization's newest event, or 0."""
        self._context.actor.require("skills.read")
        return await offload(self._context.resources.feed(self._context.actor.organization).last)

    async def follow(
        self, *, after: int | None = None, names: Sequence[str] = (), session: str = ""
    ) -> AsyncGenerator[Event]:
        """Yield events as they happen, in this process or another; with `after`, from that number on. No event is lost.

        If events after that number are no longer kept, an event `events_pruned` takes their place.
        """
        user = self._visible_user()
        feed = self._context.resources.feed(self._context.actor.organization)
        async with aclosing(feed.follow(after, names=names, session_id=session, user=user)) as events:
            async for event in events:
                yield event

    def subscribe(
        self, *, after: int | None = None, names: Sequence[str] = (), session: str = ""
    ) -> AbstractContextManager[Subscription]:
        """Return a subscription to the same events as `follow`, for a server with many clients. Use it as a context manager."""
        user = self._visible_user()
        feed = self._context.resources.feed(self._context.actor.organization)
        return feed.subscribe(after, names=names, session_id=session, user=user)

    async def metrics(self) -> bytes:
        """Return the organization's metrics in Prometheus' text format, for an endpoint or a file.

        They are counted from the records, so every process reports the same numbers.
        """
        from prowess.feed.metrics import empty_metrics

        resources = self._context.resources
        if not resources.has_records():
            return empty_metrics()
        return await offload(lambda: resources.metrics(self._context.actor.organization).exposition())

    def _visible_user(self) -> str | None:
        """Return whose events the actor sees: its own user's, or None for everyone's."""
        self._context.actor.require("skills.read")
        return self._context.actor.visible_user
