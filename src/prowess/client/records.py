"""Events and traces of runs, over HTTP."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from prowess.client.part import Part, decode, decode_all
from prowess.client.sessions import session_path
from prowess.client.transport import segment
from prowess.errors import Unavailable
from prowess.events import EVENTS_PRUNED, Event
from prowess.storage.clock import now

if TYPE_CHECKING:
    from prowess.storage.trace_stats import Bucket, GroupBy
    from prowess.storage.traces import Trace, TraceSort
    from prowess.traces.export import ExportFormat
    from prowess.traces.report import Chart, Report, SeriesBy

EVENT_PAGE = 1_000
"""How many events one request reads at most."""
SILENCE_SECONDS = 45.0
"""A stream without data for three heartbeats is dead, even if nothing closed the connection."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.25, 10.0
_RUN_ENDED = ("run_finished",)
_log = logging.getLogger(__name__)


class Events(Part):
    """Events of the caller's organization: those of its own user, or all of them for an administrator."""

    async def list(
        self, *, after: int = 0, limit: int = 200, names: Sequence[str] = (), session: str = ""
    ) -> list[Event]:
        """Return the events after a number, in order."""
        found: list[Event] = []
        while len(found) < limit:
            size = min(EVENT_PAGE, limit - len(found))
            page = await self._read(after, size, names, session)
            items = decode_all(Event, page["items"])
            found += items
            if len(items) < size:
                break
            after = items[-1].number
        return found

    async def first(self) -> int:
        """Return the number of the oldest event that is kept, or 1. Older ones were pruned."""
        return int((await self._read(0, 1, (), ""))["first"])

    async def last(self) -> int:
        """Return the number of the organization's newest event, or 0."""
        return int((await self._read(0, 1, (), ""))["last"])

    async def follow(
        self, *, after: int | None = None, names: Sequence[str] = (), session: str = ""
    ) -> AsyncGenerator[Event]:
        """Yield events as they happen; with `after`, from that number on. No event is lost or repeated.

        If the connection ends, a new one continues after the last event that was yielded, for as long as that takes. If
        events after the number are no longer kept, an event `events_pruned` takes their place. If the log was replaced by
        another one, as by a restored backup, that is followed from its start.
        """
        # A stream that starts with what happens from now on would forget its place if it broke before the first event.
        position = await self.last() if after is None else after
        params = {"names": ",".join(names)}
        path = f"{session_path(session)}/events" if session else "/events"
        pause = FIRST_PAUSE_SECONDS
        while True:
            latest = position
            try:
                headers = {"last-event-id": str(position)}
                async with self._transport.stream(
                    "GET", path, params=params, headers=headers, silence=SILENCE_SECONDS
                ) as stream:
                    async for frame in stream:
                        pause = FIRST_PAUSE_SECONDS
                        number = int(frame.id or 0)
                        # The numbers of a stream grow, unless the log was replaced.
                        if number < latest:
                            position = number - 1
                        latest = number
                        if not frame.data:
                            continue
                        if frame.event == EVENTS_PRUNED:
                            position = number
                            yield Event(number=number, name=EVENTS_PRUNED, data=json.loads(frame.data), at=now())
                        # The stream has only the data of an event. One request reads all that have come in the meantime.
                        while position < number:
                            events = await self.list(after=position, limit=EVENT_PAGE, names=names, session=session)
                            for event in events:
                                position = event.number
                                yield event
                            if len(events) < EVENT_PAGE:
                                position = max(position, number)
            except Unavailable as error:
                _log.warning("%s Following continues after event %d.", error.message, position)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _read(self, after: int, limit: int, names: Sequence[str], session: str) -> dict[str, Any]:
        return await self._transport.get(
            "/events/list", after=after, limit=limit, names=",".join(names), session=session
        )


class Traces(Part):
    """Traces of runs: those of the caller's own user, or all of the organization for an administrator.

    An empty filter matches everything; `days` counts back from now.
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
    ) -> list[Trace]:
        """Return traces without inputs and texts: the newest first, or the slowest, or the most expensive."""
        filters: dict[str, Any] = {"skill": skill, "artifact": artifact, "status": status, "session": session}
        filters |= {"model": model, "run": run, "kind": kind, "sort": sort, "days": days}
        found = self._transport.pages("/traces", most=limit, **filters)
        return [_decode_trace(one) async for one in found]

    async def get(self, trace_id: str) -> Trace:
        """Return one complete trace by its id or at least its first four characters, or raise `NotFound`."""
        return _decode_trace(await self._transport.get(trace_path(trace_id)))

    async def stats(self, by: GroupBy = "skill", *, skill: str = "", days: float | None = None) -> Report:
        """Return runs, failures, assertions, tokens, cost and times per skill, artifact, model, user or day, and in total."""
        from prowess.traces.report import Report

        found = await self._transport.get("/stats", by=by, skill=skill, days=days)
        return decode(Report, {**found, "since": found["since"] or ""})

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
        from prowess.traces.report import Chart

        filters: dict[str, Any] = {"skill": skill, "artifact": artifact, "status": status, "session": session}
        filters |= {"model": model, "days": days, "top": top}
        return decode(Chart, await self._transport.get("/stats/series", by=by, bucket=bucket, **filters))

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
        params: dict[str, Any] = {"format": format, "skill": skill, "artifact": artifact, "status": status}
        params |= {"session": session, "model": model, "run": run, "kind": kind, "days": days}
        async with aclosing(self._transport.lines("/traces/export", params)) as lines:
            async for line in lines:
                yield json.loads(line)

    async def follow(
        self,
        *,
        skill: str = "",
        artifact: str = "",
        status: str = "",
        session: str = "",
        pause: Callable[[], Awaitable[None]] | None = None,
    ) -> AsyncGenerator[Trace]:
        """Yield each run that ends from now on. Nothing is polled, so `pause` is not needed."""
        _ = pause
        filters = {"skill_slug": skill, "artifact_name": artifact, "status": status, "session_id": session}
        async with aclosing(Events(self._transport).follow(names=_RUN_ENDED)) as events:
            async for event in events:
                if event.name in _RUN_ENDED:
                    trace = await self.get(event.data["trace"])
                    if all(not value or getattr(trace, name) == value for name, value in filters.items()):
                        yield trace


def trace_path(trace_id: str) -> str:
    """Return the path of a trace."""
    return f"/traces/{segment(trace_id)}"


def _decode_trace(value: dict[str, Any]) -> Trace:
    from prowess.storage.traces import Trace

    return decode(Trace, value)
