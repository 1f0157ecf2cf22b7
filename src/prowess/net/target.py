"""Parse the URL of a request, strictly and in one way, and check whether its host is allowed.

Forms that programs parse differently are rejected: user names, backslashes, numbers that stand for addresses, host names
with percent-encoded or Unicode characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Literal
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from prowess.errors import Invalid, Refused
from prowess.lazy_dataclass import dataclass
from prowess.net.addresses import Address, parse_address
from prowess.patterns import lazy_pattern

MAX_URL_CHARS = 16_384
DEFAULT_PORTS = {"https": 443, "http": 80}

# With underscores, which host names should not have, but some in DNS do.
_LABEL = lazy_pattern(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMBER = lazy_pattern(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_FORBIDDEN_CHARS = lazy_pattern(r"[\x00-\x1f\x7f\\]")
_SAFE_CHARS = "/%:@!$&'()*+,;=~-._"
_EXAMPLE = "Use a URL such as https://api.example.com/v1/items."


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A host, a port, and a path. Only the host is safe to show: a path may hold a secret."""

    scheme: Literal["https", "http"]
    host: str
    """In lower case; an IPv6 address without brackets."""
    port: int
    path: str = field(repr=False)
    """As it is sent, with the query."""

    @property
    def shown(self) -> str:
        """The host, with the port unless it is the default."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == DEFAULT_PORTS[self.scheme] else f"{name}:{self.port}"

    @property
    def url(self) -> str:
        """The whole URL."""
        return f"{self.scheme}://{self.shown}{self.path}"

    @property
    def address(self) -> Address | None:
        """The host as an address; None if it is a name."""
        return parse_address(self.host)

    @property
    def origin(self) -> tuple[str, str, int]:
        """What a redirect must not change if secrets are to be sent along."""
        return self.scheme, self.host, self.port


def parse_target(url: str) -> Target:
    """Parse a URL; raise `Invalid` unless every program would read it the same way."""
    if len(url) > MAX_URL_CHARS:
        raise Invalid(f"The URL has {len(url):,} characters, more than the limit of {MAX_URL_CHARS:,}.")
    # `urlsplit` drops tabs and line breaks, and browsers read a backslash as a slash: another host could come out.
    if _FORBIDDEN_CHARS.search(url):
        raise Invalid("The URL contains invalid characters.", hint=_EXAMPLE)
    parts, port = _split_url(url.strip(" "))
    if parts.scheme not in ("https", "http"):
        raise Invalid("The URL does not start with https://.", hint=_EXAMPLE)
    # `https://allowed.example@evil.example` looks like the first host and goes to the second.
    if "@" in parts.netloc:
        raise Invalid("The URL contains a user name.", hint="Send credentials in a header.")
    host = _parse_host(parts.netloc)
    scheme: Literal["https", "http"] = "https" if parts.scheme == "https" else "http"
    return Target(scheme=scheme, host=host, port=port or DEFAULT_PORTS[scheme], path=_encode_path(parts))


def redirect_target(target: Target, location: str) -> Target:
    """Return where a redirect leads, from the value of its `location` header."""
    try:
        # `http.client` decodes headers as Latin-1; servers send UTF-8.
        joined = urljoin(target.url, location.encode("latin-1").decode(errors="replace").strip())
    except ValueError as error:
        raise Invalid(f"{target.shown} redirects to an invalid URL.") from error
    return parse_target(joined)


def is_host_listed(target: Target, hosts: Iterable[str]) -> bool:
    """Return True if a host matches `name`, `name:port`, `*.name` or `*.name:port`; without a port, the default one is meant."""
    return any(_matches_pattern(target, pattern.strip().lower()) for pattern in hosts)


def find_route(target: Target, routes: Mapping[str, str]) -> Target | None:
    """Return the route of a target, by host and port or by host alone; None if there is no route."""
    places = {name.strip().lower(): address for name, address in routes.items()}
    name = f"[{target.host}]" if ":" in target.host else target.host
    place = places.get(f"{name}:{target.port}") or places.get(name)
    return None if place is None else parse_route(place)


def parse_route(text: str) -> Target:
    """Parse a route such as `http://127.0.0.1:8080`; raise `Invalid` if it has a path."""
    target = parse_target(text)
    if target.path != "/":
        raise Invalid(
            "A route must be a scheme, a host and a port, without a path.", hint="For example http://127.0.0.1:8080."
        )
    return target


def _matches_pattern(target: Target, pattern: str) -> bool:
    name, port = _split_pattern(pattern)
    if (port or str(DEFAULT_PORTS[target.scheme])) != str(target.port):
        return False
    if name.startswith("*."):
        # An address has no subdomains: `*.0.0.1` must not match 127.0.0.1.
        return len(name) > 2 and target.address is None and target.host.endswith(name[1:])
    return name == target.host


def _split_pattern(pattern: str) -> tuple[str, str]:
    """Return the name of a pattern, with an IPv6 address in its usual form, and its port, '' if it has none."""
    if not pattern.startswith("["):
        name, _, port = pattern.partition(":")
        return name, port
    inside, _, rest = pattern[1:].partition("]")
    # A malformed address becomes 'None', which matches nothing: hosts are in lower case.
    return str(parse_address(inside)), rest.removeprefix(":")


def _split_url(url: str) -> tuple[SplitResult, int | None]:
    try:
        parts = urlsplit(url)
        # Parsed only when it is read, so this can raise, too.
        port = parts.port
    except ValueError as error:
        raise Invalid("The URL is not valid.", hint=_EXAMPLE) from error
    if port == 0:
        raise Invalid("The URL uses port 0.", hint=_EXAMPLE)
    return parts, port


def _encode_path(parts: SplitResult) -> str:
    """Return path and query, percent-encoded where needed."""
    try:
        # `%` is among the safe characters, so that encoded text is not encoded twice. A fragment is never sent.
        query = f"?{quote(parts.query, safe=_SAFE_CHARS + '?')}" if parts.query else ""
        return quote(parts.path or "/", safe=_SAFE_CHARS) + query
    except UnicodeEncodeError as error:
        raise Invalid("The URL contains a lone surrogate.", hint=_EXAMPLE) from error


def _parse_host(netloc: str) -> str:
    """Return the host of an authority: an ASCII name, or an address in its usual form."""
    if netloc.startswith("["):
        inside, _, rest = netloc[1:].partition("]")
        address = parse_address(inside)
        if address is None or ":" not in inside or (rest and not rest.startswith(":")):
            raise Invalid("The URL has an invalid address in brackets.", hint=_EXAMPLE)
        return str(address)
    host = netloc.partition(":")[0].lower()
    labels = host.split(".")
    if not netloc.isascii():
        raise Invalid("The host of the URL contains invalid letters.", hint="Write it in its xn-- form.")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise Invalid("The URL has no valid host.", hint=_EXAMPLE)
    # `127.1`, `0x7f000001` and `017700000001` are addresses for the system's resolver, and names for a list of hosts.
    if _NUMBER.fullmatch(labels[-1]) and parse_address(host) is None:
        raise Invalid(
            "The host of the URL is a number in an unusual form.", hint="Write an address as four numbers with dots."
        )
    return host


def allowed_route(
    target: Target, label: str, hosts: tuple[str, ...], routes: Mapping[str, str], *, any_host: bool = False
) -> Target | None:
    """Return the route of a host, None for the host itself; raise `Refused` if it is not listed, or not reached over https."""
    if not any_host and not is_host_listed(target, hosts):
        raise Refused(
            f"{label} is not one of the skill's hosts.", hint=f"Add {target.shown!r} to `hosts` in the manifest."
        )
    route = find_route(target, routes)
    if route is None and target.scheme != "https":
        raise Refused(
            f"{label} may only be reached over https.",
            hint="Use https, or ask an administrator to add it to `host_routes`.",
        )
    return route
