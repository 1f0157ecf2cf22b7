"""Routes for the machines that operate Prowess: is it alive, is it ready, what has it counted."""

from __future__ import annotations

import logging
from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import Response

from prowess.engine.engine import Engine
from prowess.errors import TryLater, Unavailable
from prowess.feed.metrics import CONTENT_TYPE
from prowess.interfaces.rest.request import Reader, respond

router = APIRouter(tags=["operation"])
_log = logging.getLogger(__name__)
PUBLIC_PATHS = ("/healthz", "/readyz")
"""Paths that need no token."""


class HealthShape(BaseModel):
    """The process responds."""

    status: Literal["ok"]


@router.get("/healthz", response_model=HealthShape)
async def is_alive() -> Response:
    """Return 200 while the process answers requests."""
    return respond({"status": "ok"})


@router.get("/readyz", response_model=HealthShape)
async def is_ready(request: Request) -> Response:
    """Return 200 if the database answers and its tables are current, 503 otherwise."""
    engine: Engine = request.app.state.engine
    try:
        await engine.check_ready()
    except Unavailable as error:
        # The reason names hosts and users of the operator, and this route needs no token.
        _log.warning("The server is not ready: %s", error.message)
        raise TryLater(
            "The server is not ready: its database does not answer, or has the tables of another version.",
            hint="Try again later.",
        ) from error
    return respond({"status": "ok"})


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def read_metrics(engine: Reader) -> Response:
    """Return the organization's metrics in Prometheus' text format."""
    return Response(await engine.events.metrics(), headers={"content-type": CONTENT_TYPE})
