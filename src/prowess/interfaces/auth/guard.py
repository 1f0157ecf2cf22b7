"""Check host, origin and token of every HTTP request before it is routed.

This stops a browser driven by a malicious page or by DNS rebinding: the Host must be allowed, the Origin must be ours
or absent, and the token must be valid. No response has a CORS header.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Callable, Collection, Mapping

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from prowess.interfaces.auth.caller import SCOPE_KEY, Caller

FindCaller = Callable[[str], Caller | None]
"""Returns the caller that a token belongs to, or None to refuse the request. Without a token, it is called with ''."""

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")


def known_tokens(callers: Mapping[str, Caller]) -> FindCaller:
    """Return a lookup of callers by token. It takes the same time for every wrong token."""
    expected = [(token.encode(), caller) for token, caller in callers.items()]

    def find(given: str) -> Caller | None:
        # Every token is compared, so that the time does not reveal which one was closest.
        matches = [caller for token, caller in expected if hmac.compare_digest(given.encode(), token)]
        return matches[0] if matches else None

    return find


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class RequestGuard:
    """An ASGI app that passes authenticated requests to another one, with the caller in the scope."""

    def __init__(self, app: ASGIApp, *, callers: FindCaller, hosts: Collection[str], origins: Collection[str]) -> None:
        self._app = app
        self._callers = callers
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origin.lower() for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request or pass it on. WebSockets are always refused."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        caller = self._callers(_bearer_token(scope))
        if caller is None:
            headers = {"WWW-Authenticate": "Bearer"}
            await PlainTextResponse("Missing or invalid token.", 401, headers)(scope, receive, send)
            return
        await self._app({**scope, SCOPE_KEY: caller}, receive, send)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        if not _is_length_clear(scope):
            return PlainTextResponse("Invalid Content-Length.", 400)
        host = _single_header(scope, b"host").lower()
        if _strip_port(host) not in self._hosts:
            return PlainTextResponse("Unknown host.", 421)
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        own = {f"http://{host}", f"https://{host}"} | self._origins
        if any(origin.decode("latin-1").lower() not in own for origin in origins):
            return PlainTextResponse("Origin not allowed.", 403)
        return None


def _is_length_clear(scope: Scope) -> bool:
    """Return False if the length of the body is invalid or given twice, which two servers would read differently."""
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    chunked = any(name == b"transfer-encoding" for name, _ in scope["headers"])
    # Checked here because an application may run this in a server that does not check it.
    return len(lengths) + chunked <= 1 and all(one.isdigit() and len(one) <= 18 for one in lengths)


def _single_header(scope: Scope, name: bytes) -> str:
    """Return the value of a header that must occur exactly once; otherwise ''."""
    values = [value for key, value in scope["headers"] if key == name]
    return values[0].decode("latin-1") if len(values) == 1 else ""


def _strip_port(host: str) -> str:
    """Return a Host header without its port."""
    name, _, port = host.rpartition(":")
    return name if name and port.isdigit() and port.isascii() else host


def _bearer_token(scope: Scope) -> str:
    kind, _, token = _single_header(scope, b"authorization").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""
