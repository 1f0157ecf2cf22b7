"""Routes of events: follow them as server-sent events, or read them page by page."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from prowess.engine.engine import Engine
from prowess.errors import Invalid
from prowess.events import EVENT_NAMES, Event
from prowess.interfaces.rest.request import Reader, Shape, respond, shape_of
from prowess.interfaces.rest.sessions import SessionId
from prowess.interfaces.rest.streams import STREAM_RESPONSE, EventStream, FrameCache, StreamResponse

router = APIRouter(tags=["events"])

_MAX_NUMBER = 10**15
After = Annotated[
    int | None,
    Query(ge=0, le=_MAX_NUMBER, description="Start after this number. Default: only new events."),
]
Names = Annotated[
    str,
    Query(max_length=500, description=f"Only events with these names, separated by commas: {', '.join(EVENT_NAMES)}."),
]


@shape_of(Event)
class EventShape(Shape):
    """One event. Numbers count from 1 in the organization, in the order in which things happened."""


class EventListShape(Shape):
    """Events in order. `next_after` is the number to continue after.

    `first` is the number of the oldest event that is kept, and `last` that of the newest. Events between `after` and `first`
    were pruned.
    """

    items: list[EventShape]
    next_after: int
    first: int
    last: int


@router.get("/events", response_class=Response, responses={200: STREAM_RESPONSE})
async def follow_events(request: Request, engine: Reader, after: After = None, names: Names = "") -> Response:
    """Stream the events of the organization that the caller may see.

    Each has its number as `id`; send the last one as `Last-Event-ID`, or as `after`, to resume without losing any.
    """
    return await _follow(request, engine, after, names)


@router.get("/sessions/{id}/events", response_class=Response, responses={200: STREAM_RESPONSE})
async def follow_session(
    request: Request, id: SessionId, engine: Reader, after: After = None, names: Names = ""
) -> Response:
    """Stream the events of one session."""
    session = await engine.sessions.get(id)
    return await _follow(request, engine, after, names, session=session.id)


@router.get("/events/list", response_model=EventListShape)
async def list_events(
    engine: Reader,
    after: Annotated[int, Query(ge=0, le=_MAX_NUMBER, description="Only events after this number.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 200,
    names: Names = "",
    session: Annotated[str, Query(max_length=300, description="Only events of this session.")] = "",
) -> Response:
    """Return the next events after a number, in order."""
    event_names = _parse_names(names)
    if session:
        session = (await engine.sessions.get(session)).id
    first, last = await engine.events.first(), await engine.events.last()
    found = await engine.events.list(after=after, limit=limit, names=event_names, session=session)
    # Up to `last`, everything was looked at; events after it may have been written in between.
    reached = found[-1].number if found else after
    position = max(reached, last if len(found) < limit else 0)
    return respond({"items": found, "next_after": position, "first": first, "last": last})


async def _follow(
    request: Request, engine: Engine, after: int | None, names: str, *, session: str = ""
) -> StreamResponse:
    # The header comes with a reconnection to the same URL, so it is newer than the parameter.
    last_id = request.headers.get("last-event-id", "").strip()
    if last_id:
        if not (last_id.isascii() and last_id.isdigit() and len(last_id) <= 15):
            raise Invalid("Invalid Last-Event-ID.", hint="Send the id of the last event that you received, a number.")
        after = int(last_id)
    subscription = engine.events.subscribe(after=after, names=_parse_names(names), session=session)
    state = request.app.state
    if not hasattr(state, "frames"):
        state.frames = FrameCache()
    return await EventStream(subscription, state.frames).respond()


def _parse_names(names: str) -> list[str]:
    parsed = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in parsed if name not in EVENT_NAMES]
    if unknown:
        raise Invalid(f"Unknown event {unknown[0][:80]!r}.", hint=f"Use one of: {', '.join(EVENT_NAMES)}.")
    return parsed
