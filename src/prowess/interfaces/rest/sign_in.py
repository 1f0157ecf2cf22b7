"""Routes that sign people in to a browser and out again. They need no token; signing in gives a cookie."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import HTMLResponse, RedirectResponse, Response

from prowess.errors import NotFound
from prowess.interfaces.auth.oidc import ATTEMPT_SECONDS, CALLBACK_PATH, Provider, read_attempt
from prowess.interfaces.auth.tokens import clear_session_cookie, session_secret, set_session_cookie
from prowess.interfaces.rest.request import Body

router = APIRouter(tags=["sign-in"])

SIGN_IN_PATH = "/sign-in"
SIGN_OUT_PATH = "/sign-out"
PROVIDER_PATH = "/sign-in/oidc"
PUBLIC_PATHS = (SIGN_IN_PATH, SIGN_OUT_PATH, PROVIDER_PATH, f"{PROVIDER_PATH}/callback")
"""Paths below /api/v1 that need no token."""

_ATTEMPT_COOKIE = "prowess_sign_in"
# The provider sends the browser here, and in a request that another site has caused the browser would not send the session
# cookie. A page of our own starts its own request, which has the cookie.
_SIGNED_IN_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=/"><title>Signed in</title></head>
<body><p>You are signed in. <a href="/">Continue</a></p></body></html>
"""


class CodeBody(Body):
    """A one-time code: what follows `#` in the link that the server prints at its start."""

    code: Annotated[str, Field(min_length=1, max_length=200)]


def _is_secure(request: Request) -> bool:
    """Return True if browsers reach this server over HTTPS, so that the cookie must not be sent without."""
    public_url: str = request.app.state.public_url
    return public_url.startswith("https:") or request.url.scheme == "https"


@router.post(SIGN_IN_PATH, status_code=204)
async def sign_in(body: CodeBody, request: Request) -> Response:
    """Sign in with a one-time code. The response sets a cookie that scripts cannot read."""
    client = request.headers.get("user-agent", "")
    started = await request.app.state.engine.sign_ins.use_code(body.code, client=client)
    response = Response(status_code=204)
    set_session_cookie(response, started.secret, secure=_is_secure(request))
    return response


@router.post(SIGN_OUT_PATH, status_code=204)
async def sign_out(request: Request) -> Response:
    """Sign out: the web session ends at once, and the cookie is deleted."""
    secret = session_secret(request)
    if secret:
        await request.app.state.engine.sign_ins.sign_out(secret)
    response = Response(status_code=204)
    clear_session_cookie(response, secure=_is_secure(request))
    return response


@router.get(PROVIDER_PATH, status_code=303, response_class=RedirectResponse)
async def begin_sign_in(request: Request) -> Response:
    """Send the browser to the OpenID Connect provider of this server."""
    url, attempt = await _provider(request).begin()
    response = RedirectResponse(url, status_code=303)
    # Lax, because the provider sends the browser back. Anyone who can read the cookie is the browser that started the sign-in.
    response.set_cookie(
        _ATTEMPT_COOKIE,
        attempt.as_cookie(),
        max_age=ATTEMPT_SECONDS,
        path=CALLBACK_PATH,
        httponly=True,
        samesite="lax",
        secure=_is_secure(request),
    )
    return response


@router.get(f"{PROVIDER_PATH}/callback", response_class=HTMLResponse)
async def finish_sign_in(request: Request) -> Response:
    """Sign in with the answer of the provider. The response sets the session cookie."""
    provider = _provider(request)
    account = await provider.finish(request.query_params, read_attempt(request.cookies.get(_ATTEMPT_COOKIE, "")))
    started = await request.app.state.engine.sign_ins.sign_in(
        account,
        organization=provider.organization,
        domains=provider.domains,
        client=request.headers.get("user-agent", ""),
    )
    response = HTMLResponse(_SIGNED_IN_PAGE)
    response.delete_cookie(_ATTEMPT_COOKIE, path=CALLBACK_PATH, httponly=True, samesite="lax")
    set_session_cookie(response, started.secret, secure=_is_secure(request))
    return response


def _provider(request: Request) -> Provider:
    found: Provider | None = request.app.state.provider
    if found is None:
        raise NotFound(
            "This server has no OpenID Connect provider.", hint="Sign in with the link that the server prints."
        )
    return found
