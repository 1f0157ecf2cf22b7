"""Send requests to a server: the token, time limits, retries, pages, and every failure as a Prowess error.

`Unavailable` and `TryLater` mean that the same request may succeed later; an address, a certificate or an answer that is
wrong is `Invalid` or `Refused`.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from prowess.client.problems import TEMPORARY, error_of, retry_after
from prowess.errors import Invalid, ProwessError, Refused, RunFailed, TryLater, Unavailable
from prowess.net.addresses import is_loopback

if TYPE_CHECKING:
    import httpx2

API = "/api/v1"
PAGE = 200
"""How many items a request for a list asks for; servers send no more at once."""
ATTEMPTS = 3
"""How often a request that changes nothing is sent before its failure is raised."""
MAX_WAIT_SECONDS = 10.0
"""The longest wait before a request is repeated. If the server asks for more, the error is raised at once."""
CONNECT_SECONDS = 10.0
_SAFE = ("GET", "HEAD")
_log = logging.getLogger(__name__)


class Transport:
    """One connection pool to one server, with one token."""

    def __init__(
        self, url: str, token: str, *, timeout: float, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        httpx = _import_httpx()
        self._url = check_url(url)
        self._httpx = httpx
        if token and self._url.scheme == "http" and not is_loopback(self._url.host):
            _log.warning("The token is sent to %s without encryption. Use an https:// URL.", self._url.host)
        self._http = httpx.AsyncClient(
            base_url=self._url,
            headers={"user-agent": "prowess-client", **({"authorization": f"Bearer {token}"} if token else {})},
            timeout=httpx.Timeout(timeout, connect=min(CONNECT_SECONDS, timeout)),
            follow_redirects=False,
            # Proxies are honoured, but no .netrc may replace the token.
            trust_env=not is_loopback(self._url.host),
            # Loading the certificates is slow, and http:// needs none: it gets a context that trusts nobody.
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if self._url.scheme == "http" else True,
            transport=transport,
        )

    @property
    def url(self) -> str:
        """The address of the server."""
        return str(self._url).rstrip("/")

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def get(self, path: str, **params: Any) -> Any:
        """Return the JSON of a resource."""
        return read_json(await self.send("GET", path, params=params))

    async def pages(self, path: str, *, most: int | None = None, **params: Any) -> AsyncGenerator[Any]:
        """Yield the items of a list from all its pages, at most `most` of them."""
        cursor, left = "", most
        while left is None or left > 0:
            limit = PAGE if left is None else min(PAGE, left)
            page = await self.get(path, **params, limit=limit, cursor=cursor)
            for item in page["items"]:
                yield item
            if left is not None:
                left -= len(page["items"])
            cursor = page.get("next_cursor") or ""
            if not cursor:
                return

    async def post(self, path: str, body: Mapping[str, Any] | None = None, **params: Any) -> Any:
        """Send a JSON body, and return the JSON of the response; None if it has none."""
        return read_json(await self.send("POST", path, json=body or {}, params=params))

    async def send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  (httpx2 applies it to each read and write)
    ) -> httpx2.Response:
        """Send a request and return its response; raise the error of one that failed.

        Requests that change nothing are repeated after failures that pass, as the server's `Retry-After` says.
        """
        more = {} if timeout is None else {"timeout": timeout}
        request = self._build(method, path, params=params, json=json, content=content, headers=headers, **more)
        try:
            return await self._send_once(request)
        except _TemporaryError as failed:
            # A request that was refused because there were too many has changed nothing, whatever its method.
            if (method not in _SAFE and not failed.refused) or not failed.may_repeat:
                raise failed.error from None
            first = failed
        return await self._send_again(request, first)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
        silence: float | None = None,
    ) -> AsyncGenerator[httpx2.EventSource]:
        """Yield the server-sent events of a response. Raise `TryLater` if nothing comes for `silence` seconds."""
        all_headers = {"accept": "text/event-stream", **(headers or {})}
        async with self._open(method, path, params=params, json=json, headers=all_headers, silence=silence) as response:
            yield self._httpx.EventSource(response)

    async def lines(self, path: str, params: Mapping[str, Any]) -> AsyncGenerator[str]:
        """Yield the lines of a response as they come."""
        async with self._open("GET", path, params=params, json=None, headers={}, silence=60) as response:
            # Not `aiter_lines`, which also splits at U+2028 and others that JSON leaves as they are.
            rest = b""
            async for data in response.aiter_bytes():
                *whole, rest = (rest + data).split(b"\n")
                for line in whole:
                    yield line.decode()
            if rest:
                yield rest.decode()

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None,
        json: Any,
        headers: Mapping[str, str],
        silence: float | None,
    ) -> AsyncGenerator[httpx2.Response]:
        """Yield a response that is read as it comes; raise the error of one that failed."""
        httpx = self._httpx
        timeout = httpx.Timeout(CONNECT_SECONDS, read=silence, pool=None)
        request = self._build(method, path, params=params, json=json, headers=headers, timeout=timeout)
        try:
            async with aclosing(await self._http.send(request, stream=True)) as response:
                if not response.is_success:
                    await response.aread()
                    raise error_of(response)
                yield response
        except httpx.RequestError as error:
            raise self._describe(error) from error

    def _build(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
        **body_and_timeout: Any,
    ) -> httpx2.Request:
        """Return a request; raise `Invalid` if an argument cannot be sent, such as NaN, a path or half of a surrogate pair."""
        clean, more = _clean(params or {}), dict(headers or {})
        try:
            return self._http.build_request(method, API + path, params=clean, headers=more, **body_and_timeout)
        except (TypeError, ValueError, RecursionError) as error:
            raise Invalid(
                f"The request is not valid JSON: {error}.",
                hint="Use only strings, numbers, booleans, null, lists and objects.",
            ) from None

    async def _send_again(self, request: httpx2.Request, first: _TemporaryError) -> httpx2.Response:
        """Repeat a request that failed once, and raise its last error."""
        # Imported here, because most requests succeed at once, and this takes longer than a request to this machine.
        from tenacity import (
            AsyncRetrying,
            RetryCallState,
            retry_if_exception,
            stop_after_attempt,
            wait_random_exponential,
        )

        backoff = wait_random_exponential(multiplier=0.25, max=2)
        failed = [first]

        async def send() -> httpx2.Response:
            # The first failure counts as the first attempt, so that it is waited for as usual.
            if failed:
                raise failed.pop()
            return await self._send_once(request)

        def wait(state: RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome else None
            seconds = error.wait if isinstance(error, _TemporaryError) else None
            return backoff(state) if seconds is None else seconds

        retrying = AsyncRetrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait,
            retry=retry_if_exception(lambda error: isinstance(error, _TemporaryError) and error.may_repeat),
            reraise=True,
        )
        try:
            return await retrying(send)
        except _TemporaryError as error:
            raise error.error from None

    async def _send_once(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._http.send(request)
        except self._httpx.RequestError as error:
            raise _TemporaryError(self._describe(error)) from error
        if response.is_success:
            return response
        error = error_of(response)
        if response.status_code in TEMPORARY and not isinstance(error, RunFailed):
            raise _TemporaryError(error, retry_after(response), refused=response.status_code == 429)
        raise error

    def _describe(self, error: httpx2.RequestError) -> ProwessError:
        """Return why no response came."""
        httpx, where = self._httpx, self.url
        reason = str(error) or type(error).__name__
        if isinstance(error, httpx.TimeoutException):
            return TryLater(f"The server at {where} did not answer in time.", hint="Try again, or check the server.")
        if "CERTIFICATE_VERIFY_FAILED" in reason:
            return Refused(
                f"The certificate of {where} is not valid: {reason[:300]}",
                hint="Check the URL. For a certificate of your own, set SSL_CERT_FILE to the file of its authority.",
            )
        return TryLater(
            f"Cannot reach a server at {where}: {reason[:300]}.",
            hint="Check the URL, and that the server runs: `prowess serve` starts one.",
        )


class _TemporaryError(Exception):
    """A failure after which the same request may succeed. `wait` is how many seconds the server asks to wait, if it does."""

    def __init__(self, error: ProwessError, wait: float | None = None, *, refused: bool = False) -> None:
        super().__init__(error.message)
        self.error = error
        self.wait = wait
        self.refused = refused
        """True if the server did not start with the request."""

    @property
    def may_repeat(self) -> bool:
        """True if waiting is short enough; otherwise the caller decides."""
        return (self.wait or 0) <= MAX_WAIT_SECONDS


def segment(text: str) -> str:
    """Return a text as one segment of a path, such as a slug or an id. Raise `Invalid` for one that no route can have."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Invalid(f"A name must be a string, not {type(text).__name__}.")
    # Servers decode %2F before they look for a route.
    if "/" in text:
        raise Invalid(
            f"{text[:80]!r} is not a name on a server: it has a slash.",
            hint="Give a slug, an id or a name without slashes. `prowess list` shows the slugs of all skills.",
        )
    # An empty segment, or one of dots, would name another resource once the path is normalised.
    return quote(text, safe="").replace(".", "%2E") if text.strip(".") == "" else quote(text, safe=":")


def read_json(response: httpx2.Response) -> Any:
    """Return the JSON of a response; None for an empty one. Raise `Invalid` for anything else."""
    if not response.content:
        return None
    try:
        if b'"command_hint"' not in response.content:
            return response.json()
        return response.json(object_hook=_keep_commands)
    except (ValueError, RecursionError) as error:
        raise Invalid(
            f"{response.request.url.host} did not answer with JSON, so it is probably not a Prowess server.",
            hint="Check the URL.",
        ) from error


def _keep_commands(fields: dict[str, Any]) -> dict[str, Any]:
    """Give an error inside a response the hint with commands: the other one names requests, for callers without a shell."""
    if "command_hint" in fields:
        fields["hint"] = fields.pop("command_hint")
    return fields


def check_url(url: str) -> httpx2.URL:
    """Return the address of a server; raise `Invalid` if it is not one, or contains more than scheme, host and port."""
    httpx = _import_httpx()
    try:
        found = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise _invalid_url(str(url), "it is not a URL") from error
    if found.userinfo:
        raise Invalid(
            "The server URL contains a name or password.", hint="Pass the token in PROWESS_TOKEN, never in the URL."
        )
    if found.scheme not in ("http", "https") or not found.host:
        raise _invalid_url(url, "it does not start with http:// or https:// and a host")
    if found.path.strip("/") or found.query or found.fragment:
        raise _invalid_url(url, "it has a path or a query")
    return found


def _invalid_url(url: str, why: str) -> Invalid:
    return Invalid(
        f"{url[:200]!r} is not the address of a server: {why}.", hint="Give a URL like http://127.0.0.1:7717."
    )


def _clean(params: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out parameters without a value, so that the server's defaults apply."""
    return {name: value for name, value in params.items() if value is not None and value not in ("", (), [])}


def _import_httpx() -> Any:
    try:
        import httpx2
    except ImportError as error:
        raise Unavailable(
            "The HTTP client is not installed.", hint="Install it: pip install 'prowess[client]'"
        ) from error
    return httpx2
