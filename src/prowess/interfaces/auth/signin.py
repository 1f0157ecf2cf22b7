"""The cookie of a person who has signed in to a browser, and the caller that it stands for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from prowess.engine.engine import Engine
from prowess.interfaces.auth.caller import Caller
from prowess.interfaces.auth.guard import COOKIE
from prowess.policy.sign_in import LONGEST_SECONDS

_MAX_SECRET_CHARS = 200
"""Longer than every secret. A longer text is refused without hashing it."""


def find_session_callers(engine: Engine) -> Callable[[str], Awaitable[Caller | None]]:
    """Return a lookup of callers by session cookie. It costs one query, so a session ends everywhere at once."""

    async def find(given: str) -> Caller | None:
        if not given or len(given) > _MAX_SECRET_CHARS:
            return None
        actor = await engine.sign_ins.authenticate(given)
        return Caller(actor=actor) if actor is not None else None

    return find


def session_secret(request: Request) -> str:
    """Return the secret in the session cookie of a request, or ''."""
    return request.cookies.get(COOKIE, "")[:_MAX_SECRET_CHARS]


def set_session_cookie(response: Response, secret: str, *, secure: bool) -> None:
    """Make a browser send the secret of a web session with each request to this server.

    Scripts cannot read the cookie, and requests from pages of other sites do not have it. The server decides when the
    session ends; the cookie only lasts as long as a session can.
    """
    response.set_cookie(
        COOKIE, secret, max_age=LONGEST_SECONDS, path="/", httponly=True, samesite="strict", secure=secure
    )


def clear_session_cookie(response: Response, *, secure: bool) -> None:
    """Make a browser forget the cookie."""
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict", secure=secure)
