"""Telling what was run: traces, their figures, and traces for other programs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from prowess.engine.frame import Frame
from prowess.policy.actor import Actor

if TYPE_CHECKING:
    from prowess.storage.trace_figures import By
    from prowess.storage.traces import TraceFilter
    from prowess.traces.export import ExportFormat
    from prowess.traces.reports import Report
    from prowess.traces.trace import Trace

_DAY_SECONDS = 86_400


async def _a_second() -> None:
    await asyncio.sleep(1)


class Tracing(Frame):
    """The part of the engine that reads traces: an actor sees those of its own user, an administrator all of the organization.

    Those of others are as if they were not there. Filters that are '' let everything through; `days` are the last ones.
    """

    async def traces(
        self,
        *,
        skill: str = "",
        artifact: str = "",
        status: str = "",
        session: str = "",
        model: str = "",
        run: str = "",
        days: float | None = None,
        limit: int = 50,
        actor: Actor | None = None,
    ) -> list[Trace]:
        """The runs that began last, the last first, without their inputs and texts."""
        from prowess.traces.reading import newest

        which = _seen_by(
            actor or self.actor,
            days,
            skill=skill,
            artifact=artifact,
            status=status,
            session=session,
            model=model,
            run=run,
        )
        if not self._parts.has_records():
            return []
        return await self._blocking(lambda: newest(self._parts.records(), which, limit))

    async def trace(self, trace_id: str, *, actor: Actor | None = None) -> Trace:
        """One trace with all that it has, by its id or the first four or more characters of it; `NotFound` for any other."""
        from prowess.traces.reading import unknown, whole_trace

        which = _seen_by(actor or self.actor)
        if not self._parts.has_records():
            raise unknown(trace_id)
        return await self._blocking(lambda: whole_trace(self._parts.records(), which, trace_id))

    async def stats(
        self, by: By = "skill", *, skill: str = "", days: float | None = None, actor: Actor | None = None
    ) -> Report:
        """Runs, failures, assertions, tokens, cost and times of each skill, artifact, model or day, and of all together."""
        from prowess.errors import Invalid
        from prowess.traces.reports import GROUPINGS, report_on

        if by not in GROUPINGS:
            raise Invalid(f"There are no figures by {by[:40]!r}.", hint=f"Give one of: {', '.join(GROUPINGS)}.")
        which = _seen_by(actor or self.actor, days, skill=skill)
        records = self._parts.records() if self._parts.has_records() else None
        return await self._blocking(report_on, records, which, by)

    async def export_traces(
        self,
        format: ExportFormat = "jsonl",
        *,
        skill: str = "",
        artifact: str = "",
        status: str = "",
        days: float | None = None,
        actor: Actor | None = None,
    ) -> AsyncGenerator[dict[str, Any]]:
        """Each run as a JSON object, the oldest first: every column of its trace, or an example of an evaluation data set."""
        from prowess.errors import Invalid
        from prowess.traces.export import EXPORT_FORMATS, exported
        from prowess.traces.reading import every

        if format not in EXPORT_FORMATS:
            raise Invalid(f"There is no format {format[:40]!r}.", hint=f"Give one of: {', '.join(EXPORT_FORMATS)}.")
        which = _seen_by(actor or self.actor, days, skill=skill, artifact=artifact, status=status)
        if not self._parts.has_records():
            return
        pages = every(self._parts.records(), which)
        while page := await self._blocking(next, pages, None):
            for row in exported(page, format):
                yield row

    async def follow_traces(
        self,
        *,
        skill: str = "",
        artifact: str = "",
        status: str = "",
        session: str = "",
        pause: Callable[[], Awaitable[None]] = _a_second,
        actor: Actor | None = None,
    ) -> AsyncGenerator[Trace]:
        """Each run that begins from now on, when it is over, in this process or another; `pause` is waited for between looks."""
        from prowess.traces.following import TraceTail

        which = _seen_by(actor or self.actor, 0, skill=skill, artifact=artifact, status=status, session=session)
        tail: TraceTail | None = None
        while True:
            if tail is None and self._parts.has_records():
                tail = TraceTail(self._parts.records(), which)
            for trace in await self._blocking(tail.look) if tail else ():
                yield trace
            await pause()


def _seen_by(actor: Actor, days: float | None = None, **wanted: str) -> TraceFilter:
    """What an actor may see of what it wants to see."""
    from prowess.storage.clock import later
    from prowess.storage.traces import TraceFilter

    actor.require("skills.read")
    return TraceFilter(
        organization_id=actor.organization,
        user_id=None if actor.admin else actor.user,
        since="" if days is None else later(-days * _DAY_SECONDS),
        **wanted,
    )
