"""HTTP requests that are sent on behalf of a skill, their responses, and the headers they may carry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Literal, Protocol

from prowess.errors import Invalid
from prowess.lazy_dataclass import dataclass
from prowess.skill.limits import MIB

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
MAX_HEADERS = 64
MAX_HEADER_CHARS = 32_768
"""Of all names and values of one request together."""

# A token of RFC 9110.
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.ASCII)
# A line break in a value would start another header or another request. The rest is what Latin-1 can encode.
_FORBIDDEN_CHARS = re.compile(r"[^\t\x20-\x7e\x80-\xff]")
_SET_BY_CLIENT = frozenset({"accept-encoding", "connection", "content-length", "keep-alive"})
"""Set by the client; what the request says about them is ignored."""
# These would change which host answers (`host`) or how the request is framed, as in request smuggling.
_FORBIDDEN_HEADERS = frozenset({"expect", "host", "te", "trailer", "transfer-encoding", "upgrade"})
_CROSS_ORIGIN_HEADERS = frozenset({"accept", "accept-language", "content-type", "user-agent"})
"""Also sent to another host after a redirect. Any other header may hold a secret."""
_BODY_HEADERS = frozenset({"content-encoding", "content-language", "content-type"})


def normalize_method(text: str) -> str:
    """Return the method in capital letters; raise `Invalid` if it is not supported."""
    method = text.upper()
    if method not in METHODS:
        raise Invalid("Unsupported HTTP method.", hint=f"Use one of {', '.join(sorted(METHODS))}.")
    return method


def normalize_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers by name in lower case; raise `Invalid` for one that may not be sent, without showing its value."""
    if len(headers) > MAX_HEADERS or sum(len(name) + len(value) for name, value in headers.items()) > MAX_HEADER_CHARS:
        raise Invalid(
            f"The headers exceed the limit of {MAX_HEADERS} fields or {MAX_HEADER_CHARS:,} characters.",
            hint="Send fewer headers, or use the body.",
        )
    fields: dict[str, str] = {}
    for written_name, value in headers.items():
        name = written_name.lower()
        _check_header(name, value)
        # Given in two spellings, such as `X-Key` and `x-key`. Servers differ in which one they use.
        if name in fields:
            raise Invalid(f"The header {name!r} is set twice.", hint="Set it once.")
        if name not in _SET_BY_CLIENT:
            fields[name] = value.strip(" \t")
    return fields


def cross_origin_headers(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that may be sent to another host than the one they were meant for."""
    return {name: value for name, value in fields.items() if name in _CROSS_ORIGIN_HEADERS}


def bodyless_headers(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a request whose body was dropped."""
    return {name: value for name, value in fields.items() if name not in _BODY_HEADERS}


def _check_header(name: str, value: str) -> None:
    if not _HEADER_NAME.fullmatch(name):
        raise Invalid("Invalid header name.", hint="Use letters, digits and hyphens.")
    if name in _FORBIDDEN_HEADERS or name.startswith("proxy-"):
        raise Invalid(f"The header {name!r} cannot be set.", hint="Remove it.")
    if _FORBIDDEN_CHARS.search(value):
        raise Invalid(
            f"The value of the header {name!r} contains a line break or an invalid character.",
            hint="Encode the value, or send it in the body.",
        )


class HostRecorder(Protocol):
    """Records which hosts were asked and refused, hop by hop."""

    def touch(self, kind: Literal["hosts"], name: str, /) -> None:
        """Record a host that is asked."""
        ...

    def refuse(self, kind: Literal["hosts"], name: str, /) -> None:
        """Record a host that was refused."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request, and the hosts that it may reach."""

    url: str = field(repr=False)
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    body: bytes = field(default=b"", repr=False)
    hosts: tuple[str, ...] = ()
    """`name` for port 443 of a host, `name:port` for another port, `*.name` for any subdomain."""
    any_host: bool = False
    """Allow every host, for a URL that a person chose. Scheme and addresses are checked as always, at every redirect."""
    routes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Other places for hosts, by name, such as `http://127.0.0.1:8080`. A route may be private, and unencrypted."""
    seconds: float = 30.0
    """For everything together, redirects included."""
    answer_bytes: int = 4 * MIB
    redirects: int = 5
    """How many are followed; with 0, a redirect is returned like any response."""
    party: str = ""
    """On whose behalf it is sent, such as a run: one that sends many requests at once does not hold up others."""
    witness: HostRecorder | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """The response, whatever its status."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    """Names in lower case."""
    body: bytes = field(repr=False)
    url: str = field(repr=False)
    """The URL after all redirects."""
    hops: tuple[str, ...] = ()
    """The hosts that were asked, in order."""


class HttpClient(Protocol):
    """Sends requests on behalf of skills.

    Only over https, only to the hosts that the request lists, and only to public addresses. A name is looked up once, all its
    addresses are checked, and the connection goes to one of these; every redirect is checked again.

    Raise `Refused` for a host that is not allowed, `Invalid` for a malformed request, `TryLater` if there is no complete
    response in time, and `RunFailed` for a response that is too large, too many redirects, an unknown host, or a host whose
    certificate is not valid. No error shows more of a request than its host.
    """

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request and return the response."""
        ...
