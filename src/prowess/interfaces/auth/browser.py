"""Rules that keep a browser from being used against a server: hosts, origins, content types and response headers.

A malicious page can make a browser send requests to any address, and by DNS rebinding even under its own name. So the
Host must be allowed, the Origin must be ours or absent, and a body must have a content type that a page cannot send
without asking first. Only pages that the operator has named get CORS headers.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from starlette.types import Scope

from prowess.errors import Invalid
from prowess.interfaces.auth.refusal import Refusal
from prowess.net.target import parse_route

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
JSON_TYPES = frozenset({"application/json"})

Headers = list[tuple[bytes, bytes]]

_MAX_HEADERS = 100
_MAX_HEADER_BYTES = 16 << 10
_MAX_TARGET_BYTES = 8 << 10
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\]", re.ASCII)
_OTHER_SITES = frozenset({"cross-site", "same-site"})

# No inline script or style, nothing from other hosts, and no other page can put ours into a frame.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SECURITY_HEADERS: Headers = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
_STRICT_TRANSPORT = (b"strict-transport-security", b"max-age=31536000")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserRules:
    """The rules for requests of browsers.

    `hosts` are the names under which the server is reached, without ports; an IP address that the connection itself was made
    to is always one. `own_origins` are further addresses of the server's own pages, such as that of a proxy in front of it,
    and `origins` those of other pages that may use the server, with a token. `uploads` maps a path to the content types that
    its body may have besides JSON. `https` is True if browsers reach the server over HTTPS.
    """

    hosts: frozenset[str]
    own_origins: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    uploads: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])
    https: bool = False

    def check(self, scope: Scope) -> Refusal | None:
        """Return why a request must not be routed, or None."""
        return (
            _check_size(scope)
            or _check_length(scope)
            or self._check_host(scope)
            or self._check_origin(scope)
            or self._check_content_type(scope)
        )

    def is_preflight(self, scope: Scope) -> bool:
        """Return True if the browser asks for permission to send a request from an allowed page."""
        asks = scope["method"] == "OPTIONS" and single_header(scope, b"access-control-request-method")
        return bool(asks) and self._is_foreign(scope)

    def is_own_page(self, scope: Scope) -> bool:
        """Return True if the request certainly comes from a page of this server, so that a cookie counts.

        `SameSite` alone does not show that: a server on another port of the same host is the same site.
        """
        origin = single_header(scope, b"origin").lower()
        if origin:
            return origin in self._own(scope)
        site = single_header(scope, b"sec-fetch-site")
        return site == "same-origin" if scope["method"] not in SAFE_METHODS else site not in _OTHER_SITES

    def response_headers(self, scope: Scope) -> Headers:
        """Return the headers that a response needs, unless it has them."""
        headers = [*_SECURITY_HEADERS, _STRICT_TRANSPORT] if self.https else _SECURITY_HEADERS
        return [*headers, *self._cors_headers(scope)] if self.origins else headers

    def _cors_headers(self, scope: Scope) -> Headers:
        if not self._is_foreign(scope):
            return [(b"vary", b"Origin")]
        headers: Headers = [
            (b"vary", b"Origin"),
            (b"access-control-allow-origin", single_header(scope, b"origin").encode("latin-1")),
            (b"access-control-expose-headers", b"ETag, Retry-After, Location, Mcp-Session-Id, WWW-Authenticate"),
        ]
        if self.is_preflight(scope):
            # A page that the operator allowed may send any header: it needs a token in any case, and cookies are not sent.
            requested = single_header(scope, b"access-control-request-headers").encode("latin-1")
            headers += [
                (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
                (b"access-control-allow-headers", requested or b"Authorization, Content-Type"),
                (b"access-control-max-age", b"600"),
            ]
        return headers

    def _own(self, scope: Scope) -> set[str] | frozenset[str]:
        host = single_header(scope, b"host").lower()
        return {f"http://{host}", f"https://{host}"} | self.own_origins

    def _is_foreign(self, scope: Scope) -> bool:
        return single_header(scope, b"origin").lower() in self.origins

    def _check_host(self, scope: Scope) -> Refusal | None:
        host = _strip_port(single_header(scope, b"host").lower())
        if host in self.hosts or (host and host == _server_address(scope)):
            return None
        return Refusal(
            status=421,
            code="unknown-host",
            detail="Unknown host.",
            hint="Start the server with `--allow-host NAME` to accept another name.",
        )

    def _check_origin(self, scope: Scope) -> Refusal | None:
        origins = [value.decode("latin-1").lower() for name, value in scope["headers"] if name == b"origin"]
        allowed = self._own(scope) | self.origins
        foreign = any(origin not in allowed for origin in origins)
        # Older requests without CORS have no Origin, but browsers say where each request comes from.
        sent_by_other = not origins and single_header(scope, b"sec-fetch-site") in _OTHER_SITES
        if not foreign and not (sent_by_other and scope["method"] not in SAFE_METHODS):
            return None
        return Refusal(
            status=403,
            code="origin-not-allowed",
            detail="Origin not allowed.",
            hint="Start the server with `--allow-origin URL` to accept requests of another web page.",
        )

    def _check_content_type(self, scope: Scope) -> Refusal | None:
        types = [value for name, value in scope["headers"] if name == b"content-type"]
        if not types and not has_body(scope):
            return None
        kind = types[0].decode("latin-1").partition(";")[0].strip().lower() if len(types) == 1 else ""
        allowed = JSON_TYPES | frozenset(self.uploads.get(scope["path"], ()))
        if kind in allowed:
            return None
        return Refusal(
            status=415,
            code="unsupported-media-type",
            detail="Unsupported content type.",
            hint=f"Send the body as {' or '.join(sorted(allowed))}.",
        )


def make_rules(hosts: Collection[str], origins: Collection[str] = ()) -> BrowserRules:
    """Return the rules of a server with these names, for itself and the pages of these origins."""
    return BrowserRules(
        hosts=frozenset(host.lower() for host in hosts), origins=frozenset(origin.lower() for origin in origins)
    )


def check_host(name: str) -> str:
    """Return the name of a host that is accepted, without a port. Raise `Invalid` for anything else, such as `*`."""
    host = _strip_port(name.strip().lower())
    if _HOST.fullmatch(host) is None:
        raise Invalid(f"Invalid host name {name[:80]!r}.", hint="Use a name such as `skills.example.com`, without `*`.")
    return host


def check_origin(url: str, option: str) -> str:
    """Return a URL as the origin of its pages: scheme, host and port. Raise `Invalid` if it has a path, or is no URL."""
    try:
        target = parse_route(url.lower())
    except Invalid:
        raise Invalid(
            f"Invalid URL {url[:80]!r} for {option}.",
            hint="Use a scheme and a host, such as https://skills.example.com.",
        ) from None
    return f"{target.scheme}://{target.shown}"


def check_network(address: str) -> str:
    """Return the address or network of a proxy. Raise `Invalid` for anything else, such as `*`."""
    try:
        return str(ipaddress.ip_network(address.strip(), strict=False))
    except ValueError as error:
        raise Invalid(
            f"Invalid address {address[:80]!r} for --trust-proxy.",
            hint="Use an address or network, such as 10.0.0.0/8.",
        ) from error


def single_header(scope: Scope, name: bytes) -> str:
    """Return the value of a header that must occur exactly once; otherwise ''."""
    values = [value for key, value in scope["headers"] if key == name]
    return values[0].decode("latin-1") if len(values) == 1 else ""


def _check_size(scope: Scope) -> Refusal | None:
    if len(scope.get("raw_path") or b"") + len(scope.get("query_string", b"")) > _MAX_TARGET_BYTES:
        return Refusal(
            status=414, code="address-too-long", detail="The address is too long.", hint="Shorten the query."
        )
    size = sum(len(name) + len(value) for name, value in scope["headers"])
    if len(scope["headers"]) > _MAX_HEADERS or size > _MAX_HEADER_BYTES:
        return Refusal(status=431, code="headers-too-large", detail="The headers are too large.", hint="Send fewer.")
    return None


def _check_length(scope: Scope) -> Refusal | None:
    """Return a refusal if the length of the body is invalid or given twice, which two servers would read differently."""
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    chunked = any(name == b"transfer-encoding" for name, _ in scope["headers"])
    # Checked here because an application may run this in a server that does not check it.
    if len(lengths) + chunked <= 1 and all(one.isdigit() and len(one) <= 18 for one in lengths):
        return None
    return Refusal(status=400, code="bad-request", detail="Invalid Content-Length.", hint="Send one valid length.")


def has_body(scope: Scope) -> bool:
    """Return True if a body is announced."""
    length = single_header(scope, b"content-length")
    return (length != "" and int(length) > 0) or any(name == b"transfer-encoding" for name, _ in scope["headers"])


def _strip_port(host: str) -> str:
    """Return a Host header without its port."""
    name, _, port = host.rpartition(":")
    return name if name and port.isdigit() and port.isascii() else host


def _server_address(scope: Scope) -> str:
    """Return the IP address that the client connected to, as in a Host header; '' if it is not known.

    Rebinding needs a name, so a request for the address itself is not one. Orchestrators probe servers by address.
    """
    server = scope.get("server")
    try:
        address = ipaddress.ip_address(server[0]) if server else None
    except ValueError:
        return ""
    return "" if address is None else f"[{address}]" if address.version == 6 else str(address)
