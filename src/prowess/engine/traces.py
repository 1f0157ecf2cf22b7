"""Traces of runs: read, count, export and follow them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from prowess.engine.context import Part, check_limit, check_string
from prowess.errors import Invalid
from prowess.storage.clock import days_ago
from prowess.threads import offload

if TYPE_CHECKING:
    from prowess.storage.trace_stats import Bucket, GroupBy
    from prowess.storage.traces import Trace, TraceFilter, TracePosition, TraceSort
    from prowess.traces.export import ExportFormat
    from prowess.traces.report import Chart, Report, SeriesBy


async def _wait_one_second() -> None:
    import asyncio  # only those who follow traces need an event loop

    await asyncio.sleep(1)


class Traces(Part):
    """Traces of runs: those of the actor's own user, or all of the organization for an administrator; of an agent, its own.

    Traces of others are not found. An empty filter matches everything; `days` counts back from now.
    """

    async def list(
        self,
        *,
        skill: str = "",
        artifact: str = "",
        status: str = "",
        session: str = "",
        model: str = "",
        run: str = "",
        kind: str = "",
        sort: TraceSort = "started_at",
        days: float | None = None,
        limit: int = 50,
        after: TracePosition | None = None,
    ) -> list[Trace]:
        """Return traces without inputs and texts: the newest first, or the slowest, or the most expensive.

        `kind` is the kind of the artifact, such as `prompt_template`. `after` is the `sort_position` of the last trace on
        the page before.
        """
        from prowess.traces.history import list_newest

        check_limit(limit)
        which = self._visible(
            days, skill=skill, artifact=artifact, status=status, session=session, model=model, run=run, kind=kind
        )
        if not self._context.resources.has_records():
            return []
        return await offload(lambda: list_newest(self._context.resources.records(), which, limit, after, sort))

    async def count(
        self,
        *,
        skill: str = "",
        artifact: str = "",
        status: str = "",
        session: str = "",
        model: str = "",
        run: str = "",
        kind: str = "",
        days: float | None = None,
    ) -> int:
        """Return how many traces `list` would return without a limit."""
        from prowess.traces.history import count_traces

        which = self._visible(
            days, skill=skill, artifact=artifact, status=status, session=session, model=model, run=run, kind=kind
        )
        if not self._context.resources.has_records():
            return 0
        return await offload(lambda: count_traces(self._context.resources.records(), which))

    async def get(self, trace_id: str) -> Trace:
        """Return one complete trace by its id or at least its first four characters, or raise `NotFound`."""
        from prowess.traces.history import get_trace, unknown_trace

        check_string(trace_id, "The id of a trace")
        which = self._visible()
        if not self._context.resources.has_records():
            raise unknown_trace(trace_id)
        return await offload(lambda: get_trace(self._context.resources.records(), which, trace_id))

    async def stats(self, by: GroupBy = "skill", *, skill: str = "", days: float | None = None) -> Report:
        """Return runs, failures, assertions, tokens, cost and times per skill, artifact, model, user or day, and in total."""
        from prowess.storage.trace_stats import GROUPINGS
        from prowess.traces.report import build_report

        if by not in GROUPINGS:
            raise Invalid(f"Cannot group by {by[:40]!r}.", hint=f"Use one of: {', '.join(GROUPINGS)}.")
        which = self._visible(days, skill=skill)
        records = self._context.resources.records() if self._context.resources.has_records() else None
        return await offload(build_report, records, which, by)

    async def chart(
        self,
        by: SeriesBy = "skill",
        *,
        bucket: Bucket = "day",
        skill: str = "",
        artifact: str = "",
        status: str = "",
        session: str = "",
        model: str = "",
        days: float | None = None,
        top: int = 8,
    ) -> Chart:
        """Return runs, failures, costs, times and assertions over time, for the `top` groups with most runs and the rest."""
        from prowess.storage.clock import now
        from prowess.traces.report import build_chart

        which = self._visible(days, skill=skill, artifact=artifact, status=status, session=session, model=model)
        records = self._context.resources.records() if self._context.resources.has_records() else None
        return await offload(lambda: build_chart(records, which, by, bucket, top=top, until=now()))

    async def export(
        self,
        format: ExportFormat = "jsonl",
        *,
        skill: str = "",
        artifact: str = "",
        status: str = "",
        session: str = "",
        model: str = "",
        run: str = "",
        kind: str = "",
        days: float | None = None,
    ) -> AsyncGenerator[dict[str, Any]]:
        """Yield each run as a JSON object, oldest first: all columns of its trace, or an example for an evaluation data set."""
        from prowess.traces.export import EXPORT_FORMATS, export_traces
        from prowess.traces.history import iterate_pages

        if format not in EXPORT_FORMATS:
            raise Invalid(f"Unknown format {format[:40]!r}.", hint=f"Use one of: {', '.join(EXPORT_FORMATS)}.")
        which = self._visible(
            days, skill=skill, artifact=artifact, status=status, session=session, model=model, run=run, kind=kind
        )
        if not self._context.resources.has_records():
            return
        pages = iterate_pages(self._context.resources.records(), which)
        while page := await offload(next, pages, None):
            for row in export_traces(page, format):
                yield row

    async def follow(
        self,
        *,
        skill: str = "",
        artifact: str = "",
        status: str = "",
        session: str = "",
        pause: Callable[[], Awaitable[None]] = _wait_one_second,
    ) -> AsyncGenerator[Trace]:
        """Yield each run that starts from now on, once it has ended, in this process or another.

        `pause` is awaited between two database queries.
        """
        from prowess.traces.history import TraceFollower

        # No days back: only runs that start from now on.
        which = self._visible(0, skill=skill, artifact=artifact, status=status, session=session)
        tail: TraceFollower | None = None
        while True:
            # The database may be created after following has started.
            if tail is None and self._context.resources.has_records():
                tail = TraceFollower(self._context.resources.records(), which)
            for trace in await offload(tail.look) if tail else ():
                yield trace
            await pause()

    def _visible(self, days: float | None = None, **filters: str) -> TraceFilter:
        """Return a filter for the traces that the actor asks for and may see."""
        from prowess.storage.traces import TraceFilter

        actor = self._context.actor
        actor.require("skills.read")
        for name, value in filters.items():
            check_string(value, f"The filter `{name}`")
        return TraceFilter(
            organization_id=actor.organization,
            user_id=actor.visible_user,
            # What a person runs, or another agent of theirs, may have confidential inputs.
            actor="" if actor.is_person else actor.label,
            since="" if days is None else days_ago(days),
            **filters,
        )
