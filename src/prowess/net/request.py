"""HTTP requests that are sent on behalf of a skill, their responses, and the headers they may carry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from prowess.errors import Invalid
from prowess.skill.limits import MIB

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
MAX_HEADERS = 64
MAX_HEADER_CHARS = 32_768
"""All names and values of a request together."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.ASCII)
_FORBIDDEN_CHARS = re.compile(r"[^\t\x20-\x7e\x80-\xff]")
_SET_BY_CLIENT = frozenset({"accept-encoding", "connection", "content-length", "keep-alive"})
"""Said by whoever sends the request; what the request says is passed over."""
_FORBIDDEN_HEADERS = frozenset({"expect", "host", "te", "trailer", "transfer-encoding", "upgrade"})
_CROSS_ORIGIN_HEADERS = frozenset({"accept", "accept-language", "content-type", "user-agent"})
"""What also goes to a host that only a redirect names. Any other field may hold a secret."""
_BODY_HEADERS = frozenset({"content-encoding", "content-language", "content-type"})


def normalize_method(text: str) -> str:
    """The method in capital letters; `Invalid` where it is none that is sent."""
    method = text.upper()
    if method not in METHODS:
        raise Invalid("The method is none that is sent.", hint=f"Use one of {', '.join(sorted(METHODS))}.")
    return method


def normalize_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The fields by name in lower case; `Invalid` names one that may not be sent, and never shows a value."""
    if len(headers) > MAX_HEADERS or sum(len(name) + len(value) for name, value in headers.items()) > MAX_HEADER_CHARS:
        raise Invalid(
            f"The header has more than {MAX_HEADERS} fields, or more than {MAX_HEADER_CHARS:,} characters.",
            hint="Send less, or send it in the body.",
        )
    fields: dict[str, str] = {}
    for given, value in headers.items():
        name = given.lower()
        _check_header(name, value)
        if name in fields:
            raise Invalid(f"The header field {name!r} is given twice.", hint="Give it once.")
        if name not in _SET_BY_CLIENT:
            fields[name] = value.strip(" \t")
    return fields


def cross_origin_headers(fields: Mapping[str, str]) -> dict[str, str]:
    """The fields that go along to another host than the one they were meant for."""
    return {name: value for name, value in fields.items() if name in _CROSS_ORIGIN_HEADERS}


def bodyless_headers(fields: Mapping[str, str]) -> dict[str, str]:
    """The fields of a request whose body stays behind."""
    return {name: value for name, value in fields.items() if name not in _BODY_HEADERS}


def _check_header(name: str, value: str) -> None:
    if not _HEADER_NAME.fullmatch(name):
        raise Invalid("A header field has a name that none can have.", hint="Use letters, digits and hyphens.")
    if name in _FORBIDDEN_HEADERS or name.startswith("proxy-"):
        raise Invalid(f"The header field {name!r} is not for a request to set.", hint="Leave it out.")
    if _FORBIDDEN_CHARS.search(value):
        raise Invalid(
            f"The value of the header field {name!r} has a line break or a sign that no header has.",
            hint="Send it in the body, or encode it.",
        )


class HostRecorder(Protocol):
    """Notes which hosts are asked and refused, hop by hop, as a receipt does."""

    def touch(self, kind: Literal["hosts"], name: str, /) -> None:
        """Note a host that is asked."""
        ...

    def refuse(self, kind: Literal["hosts"], name: str, /) -> None:
        """Note a host that may not be asked."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """What is asked, of which of the `hosts` that may be asked."""

    url: str = field(repr=False)
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    body: bytes = field(default=b"", repr=False)
    hosts: tuple[str, ...] = ()
    """`name` for port 443 of a host, `name:port` for another one, `*.name` for any below it."""
    routes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Where requests for a host go instead, by its name: `http://127.0.0.1:8080`. What is routed may be private, and plain."""
    seconds: float = 30.0
    """For the whole of it, every redirect included."""
    answer_bytes: int = 4 * MIB
    redirects: int = 5
    """How many are followed; with 0, a redirect is the answer."""
    party: str = ""
    """For whom it is sent, such as a run: one that sends many at once waits for itself, and no other for it."""
    witness: HostRecorder | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """What came back, whatever its status."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    """Names in lower case."""
    body: bytes = field(repr=False)
    url: str = field(repr=False)
    """Where it came from in the end."""
    hops: tuple[str, ...] = ()
    """The hosts that were asked, in order."""


class HttpClient(Protocol):
    """Sends requests that code of skills wants to be sent.

    Only https, only to the hosts that the request names, and only to public addresses: a name is looked up once, every
    address that it has is checked, and the connection goes to one of those; each redirect is checked again. `Refused` names
    the host that may not be asked; `Invalid` a request that is none; `TryLater` where there was no whole answer in time;
    `RunFailed` for an answer that is too large, for too many redirects, and for a host that there is not or that cannot prove
    who it is. No error shows more of a request than its host.
    """

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send it and read the answer."""
        ...
