"""Download one file from a URL that a person chose: through the guarded client, within limits, and only if it changed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from prowess.errors import Invalid, NotFound, ProwessError, Refused, RunFailed, TryLater, Unavailable
from prowess.net.request import HttpClient, HttpRequest, HttpResponse
from prowess.net.target import parse_target
from prowess.skill.limits import MIB

MAX_BYTES = 16 * MIB
MAX_SECONDS = 30.0
MAX_REDIRECTS = 5

_MAX_RETRY_SECONDS = 24 * 3600.0
_ETAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e]{0,256}"', re.ASCII)
_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)
# What servers say about files that they know nothing about: accepted for every kind of file.
_GENERIC_TYPES = frozenset({"", "application/octet-stream", "binary/octet-stream", "text/plain"})
_WEB_PAGE = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<!doctype html|<html[\s>])", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """A downloaded file, or the confirmation that it has not changed."""

    url: str
    """The URL after all redirects; relative links in the file are relative to it."""
    body: bytes = field(default=b"", repr=False)
    etag: str = ""
    """For the next download; '' if the server sent none that can be used. May be weak (`W/"…"`)."""
    content_type: str = ""
    """Lower case, without parameters; '' if the server did not say."""
    unchanged: bool = False
    """True if the server confirmed the ETag that was sent; then there is no body."""


class RoutedClient:
    """Sends requests through another client, with the organization's `host_routes`.

    A route is the only way to a private address or to plain http, for example
    `{"127.0.0.1:8080": "http://127.0.0.1:8080"}` for a registry on this machine.
    """

    def __init__(self, client: HttpClient, routes: Mapping[str, str]) -> None:
        self._client = client
        self._routes = dict(routes)

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request; a route of the request itself wins."""
        return await self._client.send(replace(request, routes={**self._routes, **request.routes}))


def route_to(url: str) -> dict[str, str]:
    """Return the route that lets a registry be on this machine or in a private network, as the operator may choose it."""
    target = parse_target(url)
    host = f"[{target.host}]" if ":" in target.host else target.host
    return {f"{host}:{target.port}": f"{target.scheme}://{target.shown}"}


async def download(
    client: HttpClient,
    url: str,
    *,
    etag: str = "",
    max_bytes: int = MAX_BYTES,
    seconds: float = MAX_SECONDS,
    accept: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
) -> Download:
    """Return the file at a URL, or an `unchanged` download if the server confirms `etag`.

    `accept` lists the content types that can be used; an empty one means any but a web page. `headers` are sent to the host
    of the URL only, not to hosts that it redirects to.

    Raise `NotFound` (404, 410), `Refused` (sign-in required, or a host, address or redirect that is not allowed), `TryLater`
    (time is up, the connection broke, 429 or a server error; with `retry_after` if the server named a time), `Invalid` (not a
    URL, or another type of file), and `Unavailable` for any other answer that is not the file.
    """
    fields = {"accept": ", ".join((*accept, "*/*;q=0.1")) if accept else "*/*", **(headers or {})}
    if etag and _ETAG.fullmatch(etag):
        fields["if-none-match"] = etag
    request = HttpRequest(
        url=url, headers=fields, any_host=True, seconds=seconds, answer_bytes=max_bytes, redirects=MAX_REDIRECTS
    )
    try:
        response = await client.send(request)
    except RunFailed as error:
        # The client words its errors for runs of skills; a source that gives no usable answer is a missing dependency.
        raise Unavailable(error.message, hint="Check the URL, or use another source.") from error
    if response.status == 304 and "if-none-match" in fields:
        return Download(url=response.url, etag=_usable_etag(response) or etag, unchanged=True)
    if response.status != 200:
        raise _status_error(response)
    content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    _check_type(response, content_type, accept)
    return Download(url=response.url, body=response.body, etag=_usable_etag(response), content_type=content_type)


def shown_url(url: str) -> str:
    """Return a URL for a message, without its query, which may contain a token."""
    target = parse_target(url)
    return f"{target.scheme}://{target.shown}{target.path.partition('?')[0]}"


def _usable_etag(response: HttpResponse) -> str:
    """Return the ETag of a response; '' if it is malformed and could not be sent back."""
    etag = response.headers.get("etag", "").strip()
    return etag if _ETAG.fullmatch(etag) else ""


def _check_type(response: HttpResponse, content_type: str, accept: Sequence[str]) -> None:
    # Servers answer a missing file with a page that says so, and status 200; sign-in pages look the same.
    if "text/html" not in accept and (content_type == "text/html" or _WEB_PAGE.match(response.body)):
        raise Invalid(
            f"{shown_url(response.url)} is a web page, not a file.",
            hint="Use the URL of the file itself, for example its raw or download link.",
        )
    if accept and content_type not in _GENERIC_TYPES and not any(_fits(content_type, pattern) for pattern in accept):
        raise Invalid(
            f"{shown_url(response.url)} has the content type {content_type[:80]!r}; expected {' or '.join(accept)}.",
            hint="Check the URL, or the content type that the server sends.",
        )


def _fits(content_type: str, pattern: str) -> bool:
    return pattern in (content_type, "*/*") or (pattern.endswith("/*") and content_type.startswith(pattern[:-1]))


def _status_error(response: HttpResponse) -> ProwessError:
    status, shown = response.status, shown_url(response.url)
    if status in (404, 410):
        return NotFound(f"{shown} does not exist (HTTP {status}).", hint="Check the URL.")
    if status in (401, 403, 407):
        return Refused(
            f"{shown} requires a sign-in (HTTP {status}).",
            hint="Use a public URL, or a git URL with your own git credentials.",
        )
    if status in (408, 425, 429) or status >= 500:
        seconds = _retry_after(response.headers.get("retry-after", ""))
        when = f"in {seconds:.0f} seconds" if seconds else "later"
        return TryLater(f"{shown} answered HTTP {status}.", hint=f"Try again {when}.", retry_after=seconds)
    if status == 304:
        return Unavailable(f"{shown} answered HTTP 304 to a request for the file.", hint="Try again later.")
    return Unavailable(f"{shown} answered HTTP {status}.", hint="Check the URL.")


def _retry_after(text: str) -> float | None:
    """Return the seconds of a `Retry-After` header, which is a number or a date; None if it is neither."""
    if _SECONDS.fullmatch(text.strip()):
        return min(float(text), _MAX_RETRY_SECONDS)
    try:
        when = parsedate_to_datetime(text)
    except ValueError:
        return None
    # A date without a zone is in UTC (RFC 9110, 5.6.7).
    left = (when if when.tzinfo else when.replace(tzinfo=UTC)) - datetime.now(UTC)
    return min(max(left.total_seconds(), 0.0), _MAX_RETRY_SECONDS)
