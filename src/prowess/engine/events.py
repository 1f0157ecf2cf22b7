"""Events of an organization: read, follow and count them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from prowess.engine.context import Context
from prowess.events import Event
from prowess.threads import offload


class Events:
    """Events of the actor's organization: those of its own user, or all of them for an administrator."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def list(
        self, *, after: int = 0, limit: int = 200, names: Sequence[str] = (), session: str = ""
    ) -> list[Event]:
        """Return the events after a number, in order."""
        user = self._visible_user()
        feed = self._context.resources.feed(self._context.actor.organization)
        return await offload(lambda: feed.read(after, limit, names=names, session_id=session, user=user))

    async def last(self) -> int:
        """Return the number of the organization's newest event, or 0."""
        self._context.actor.require("skills.read")
        return await offload(self._context.resources.feed(self._context.actor.organization).last)

    async def follow(
        self, *, after: int | None = None, names: Sequence[str] = (), session: str = ""
    ) -> AsyncGenerator[Event]:
        """Yield events as they happen, in this process or another; with `after`, from that number on. None is lost."""
        user = self._visible_user()
        feed = self._context.resources.feed(self._context.actor.organization)
        async with aclosing(feed.follow(after, names=names, session_id=session, user=user)) as events:
            async for event in events:
                yield event

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
        """Return whose events the actor sees: its own user's, or None for everybody's."""
        actor = self._context.actor
        actor.require("skills.read")
        return None if actor.admin else actor.user
