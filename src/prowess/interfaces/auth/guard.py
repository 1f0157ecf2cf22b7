"""Check every HTTP request before it is routed: its host, origin, content type, size, rate and token.

The order is that of cost: what the headers alone show, then the token, then the limits of its caller. `browser.py` has the
rules about browsers, `limits.py` those about rates.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from inspect import isawaitable
from typing import TYPE_CHECKING

from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Receive, Scope, Send

from prowess.errors import ProwessError, Unavailable
from prowess.interfaces.auth.browser import BrowserRules, single_header
from prowess.interfaces.auth.caller import SCOPE_KEY, Caller
from prowess.interfaces.auth.exchange import MAX_BODY_BYTES, STOPPING, Exchange, too_large
from prowess.interfaces.auth.refusal import RETRY_SECONDS, Refusal, Respond, plain_response, retry_later, unavailable
from prowess.shares import Shares
from prowess.threads import share_threads

if TYPE_CHECKING:
    from prowess.interfaces.auth.limits import RateLimits

FindCaller = Callable[[str], Caller | Awaitable[Caller | None] | None]
"""Returns the caller that a token belongs to, or None to refuse the request. Without a token, it is called with ''."""

COOKIE = "prowess_session"
"""The cookie of a person who has signed in."""

MAX_RUNNING = 512
MAX_STREAMS = 2000
"""How many requests may run, and streams of events may be open, at once.

One caller gets half of both (`shares.py`): at 200 requests a second, a stall of a second refuses none."""

MAX_HELD_BYTES = 256 << 20
"""How large the bodies of all requests that run, and of open streams, may be together. One caller gets half.

Most are kept until the end, and parsed JSON takes up to five times the memory of its text."""

CHECK_SECONDS = 15.0
"""How often the caller of an open stream is looked up again."""

_UNAUTHORIZED = Refusal(
    status=401,
    code="unauthorized",
    detail="Missing or invalid token.",
    hint="Send the header `Authorization: Bearer TOKEN`.",
    headers={"WWW-Authenticate": "Bearer"},
)


def known_tokens(callers: Mapping[str, Caller]) -> FindCaller:
    """Return a lookup of callers by token. It takes the same time for every wrong token."""
    expected = [(token.encode(), caller) for token, caller in callers.items()]

    def find(secret: str) -> Caller | None:
        # Every token is compared, so that the time does not reveal which one was closest.
        matches = [caller for token, caller in expected if hmac.compare_digest(secret.encode(), token)]
        return matches[0] if matches else None

    return find


class RequestGuard:
    """An ASGI app that passes authenticated requests to another one, with the caller in the scope.

    Requests for the paths in `public` need no token and have no caller, and neither do those below a path in it that ends
    with a slash; attempts to sign in at the paths in `sign_in` are
    counted more strictly. `cookies` returns the caller of a session cookie. `body_limits` maps a path to the size of its
    body, if that is not the usual one. `respond` makes the response to a request that is refused, and `log` gets one line
    per request.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        callers: FindCaller,
        rules: BrowserRules,
        public: Collection[str] = (),
        sign_in: Collection[str] = (),
        cookies: FindCaller | None = None,
        rates: RateLimits | None = None,
        body_limits: Mapping[str, int] | None = None,
        respond: Respond = plain_response,
        log: Callable[[str], None] | None = None,
        max_running: int = MAX_RUNNING,
        max_streams: int = MAX_STREAMS,
        max_held_bytes: int = MAX_HELD_BYTES,
    ) -> None:
        self._app = app
        self._callers = callers
        self._rules = rules
        self._public = frozenset(public)
        self._public_folders = tuple(path for path in public if path.endswith("/") and path != "/")
        self._sign_in = frozenset(sign_in)
        self._cookies = cookies
        self._rates = rates
        self._body_limits = dict(body_limits or {})
        self._respond = respond
        self._log = log
        self._running = Shares(max_running)
        self._streaming = Shares(max_streams)
        # The operator may allow archives that are larger.
        self._held = Shares(max(max_held_bytes, 2 * max(self._body_limits.values(), default=0)))
        self._keys: dict[Exchange, str] = {}
        self._streams: dict[Exchange, str] = {}
        self._watches: dict[Exchange, asyncio.Task[None]] = {}
        self._is_stopping = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request or pass it on. WebSockets are always refused."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        exchange = Exchange(
            scope,
            receive,
            send,
            headers=self._rules.response_headers(scope),
            respond=self._respond,
            max_bytes=self._max_bytes(scope),
            on_stream=self._open_stream,
        )
        caller: Caller | None = None
        try:
            refusal = self._rules.check(scope) or self._check_length(scope)
            if refusal is None and self._rules.is_preflight(scope):
                refusal = Refusal(status=204, code="", detail="")
            if refusal is None:
                caller, refusal = await self._authenticate(scope)
            if refusal is None:
                await self._pass_on(exchange, scope, caller)
            else:
                await exchange.refuse(refusal)
        finally:
            if self._log is not None:
                actor = caller.actor if caller else None
                line = exchange.log_line(actor.label if actor else "", actor.organization if actor else "")
                self._log(json.dumps(line))

    def stop(self) -> None:
        """End all streams, and open no more. Requests that are running continue."""
        self._is_stopping = True
        for exchange in self._keys:
            exchange.is_stopping = True
        for exchange in tuple(self._streams):
            exchange.end()

    async def _authenticate(self, scope: Scope) -> tuple[Caller | None, Refusal | None]:
        """Return the caller, or why there is none. Both are None for a public path."""
        client = scope.get("client")
        address = client[0] if client else ""
        if scope["path"] in self._public or scope["path"].startswith(self._public_folders):
            kind = "sign-in" if scope["path"] in self._sign_in and scope["method"] == "POST" else "anonymous"
            return None, self._rates.of_address(kind, address) if self._rates else None
        try:
            caller = await self._find_caller(scope)
        except Unavailable as error:
            return None, unavailable(error)
        if caller is None:
            slow = self._rates.of_address("failure", address) if self._rates else None
            return None, slow or _UNAUTHORIZED
        return caller, self._rates.of_caller(caller.key) if self._rates else None

    async def _find_caller(self, scope: Scope) -> Caller | None:
        authorization = single_header(scope, b"authorization")
        cookie = "" if authorization or self._cookies is None else self._cookie(scope)
        if cookie and self._cookies is not None:
            found = self._cookies(cookie)
        else:
            kind, _, token = authorization.partition(" ")
            found = self._callers(token.strip() if kind.lower() == "bearer" else "")
        return await found if isawaitable(found) else found

    def _cookie(self, scope: Scope) -> str:
        header = single_header(scope, b"cookie")
        return cookie_parser(header).get(COOKIE, "") if header and self._rules.is_own_page(scope) else ""

    async def _pass_on(self, exchange: Exchange, scope: Scope, caller: Caller | None) -> None:
        if caller is None:
            await exchange.run(self._app, scope)
            return
        key = caller.key
        if not self._running.has_room(key):
            await exchange.refuse(retry_later(503, "overloaded", "Too many requests are running.", 1))
            return
        self._running.add(key)
        self._keys[exchange] = key
        exchange.watch = lambda: self._watch(exchange, scope, caller)
        exchange.on_body = lambda size: self._hold(key, size)
        try:
            with share_threads(key):
                await exchange.run(self._app, {**scope, SCOPE_KEY: caller})
        finally:
            if self._streams.pop(exchange, None) is not None:
                self._streaming.add(key, -1)
            watch = self._watches.pop(exchange, None)
            if watch is not None:
                watch.cancel()
            self._release(exchange)
            self._held.add(key, -exchange.body_bytes)

    def _hold(self, key: str, size: int) -> Refusal | None:
        """Count bytes of a body. Return a refusal if there are too many."""
        has_room = self._held.has_room(key, size)
        self._held.add(key, size)
        if not has_room:
            return retry_later(503, "overloaded", "Too many large requests are running.", 1)
        return None

    def _open_stream(self, exchange: Exchange) -> Refusal | None:
        """Count a request as a stream from now on. Return a refusal if there are too many."""
        if self._is_stopping:
            return STOPPING
        key = self._keys.get(exchange, "")
        if not self._streaming.has_room(key):
            return retry_later(503, "overloaded", "Too many streams are open.", RETRY_SECONDS)
        self._release(exchange)
        self._streams[exchange] = key
        self._streaming.add(key)
        if exchange.watch is not None:
            self._watches[exchange] = asyncio.create_task(exchange.watch())
        return None

    async def _watch(self, exchange: Exchange, scope: Scope, caller: Caller) -> None:
        """End a stream when its token was revoked, has expired or has other permissions than at the beginning."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            # Without the database nobody can be found again.
            with suppress(ProwessError):
                if await self._find_caller(scope) != caller:
                    exchange.end()
                    return

    def _release(self, exchange: Exchange) -> None:
        key = self._keys.pop(exchange, None)
        if key is not None:
            self._running.add(key, -1)

    def _check_length(self, scope: Scope) -> Refusal | None:
        length = single_header(scope, b"content-length")
        limit = self._max_bytes(scope)
        return too_large(limit) if length and int(length) > limit else None

    def _max_bytes(self, scope: Scope) -> int:
        return self._body_limits.get(scope["path"], MAX_BODY_BYTES)
