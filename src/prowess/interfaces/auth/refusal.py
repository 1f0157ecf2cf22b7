"""A request that is refused before it is routed, and the plain response to it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from starlette.responses import PlainTextResponse, Response
from starlette.types import Scope

from prowess.errors import Unavailable

_log = logging.getLogger(__name__)

RETRY_SECONDS = 5
"""The default of `Retry-After`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a request is refused: an HTTP status, a stable code for programs, and what to do next."""

    status: int
    code: str
    detail: str
    hint: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


Respond = Callable[[Scope, Refusal], Response]
"""Returns the response to a request that is refused."""


def plain_response(_: Scope, refusal: Refusal) -> Response:
    """Return a refusal as plain text."""
    return PlainTextResponse(f"{refusal.detail} {refusal.hint}".strip(), refusal.status, dict(refusal.headers))


def retry_later(status: int, code: str, detail: str, seconds: float, *, hint: str = "Try again later.") -> Refusal:
    """Return a refusal with `Retry-After`."""
    return Refusal(
        status=status, code=code, detail=detail, hint=hint, headers={"Retry-After": str(max(1, round(seconds)))}
    )


def unavailable(error: Unavailable) -> Refusal:
    """Return the refusal of a request whose sender cannot be found now. The reason is only logged: anyone may have asked."""
    _log.warning("A request could not be authenticated: %s", error.message)
    return retry_later(503, error.code, "The server is not ready: its database does not answer.", RETRY_SECONDS)
