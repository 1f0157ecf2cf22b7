"""The ASGI app of a registry server.

| path | what |
|---|---|
| `/api/v1/index` | the signed index with every version |
| `/api/v1/key` | the public key that signs it, to compare with what clients have pinned |
| `/api/v1/search`, `/api/v1/trending` | the newest version of packages, best first |
| `/api/v1/skills/{name}[/{version}[/archive]]` | one package, one version, its archive |
| `POST /api/v1/skills` | publish a version (a zip or tar.gz archive) |
| `DELETE`, `PUT /api/v1/skills/{name}/{version}/yank` | yank a version, or undo it |
| `/.well-known/agent-skills/index.json` | the list that other tools for skills read |
| `/healthz` | for the machines that operate the server |

Everything that can be read has an ETag.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import logging
import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from prowess.errors import Invalid, NotFound, ProwessError, Refused
from prowess.interfaces.auth.browser import LOOPBACK_HOSTS, BrowserRules
from prowess.interfaces.auth.caller import SCOPE_KEY, Caller
from prowess.interfaces.auth.guard import FindCaller, RequestGuard
from prowess.interfaces.auth.limits import RateLimits
from prowess.interfaces.auth.refusal import Refusal
from prowess.interfaces.rest.problems import plain_problem, problem_response, read_body
from prowess.policy.actor import Actor
from prowess.skill.archive import read_archive
from prowess.skill.limits import DEFAULT_LIMITS
from prowess.sources.package_shelf import PackageShelf
from prowess.sources.signed_index import IndexEntry, latest_entries
from prowess.threads import offload

REQUESTS_PER_MINUTE = 6_000
"""The default for each publisher, and for each address without a token. A first sync downloads each package once."""
SIGNATURE_HEADER = "prowess-signature"
_PUBLISH_PATH = "/api/v1/skills"
_ARCHIVE_TYPES = ("application/zip", "application/gzip", "application/octet-stream")
_WELL_KNOWN_SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
_WELL_KNOWN_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
_MAX_RESULTS = 100
_FLUSH_DOWNLOADS = 200
_MAX_TOKEN_CHARS = 200
_READER = "reader"
# Publishers have names in lower case, so none has this one.
_ANONYMOUS = Caller(actor=Actor(name="Anonymous", channel="http", permissions=frozenset()))
_log = logging.getLogger(__name__)


def make_registry(
    shelf: PackageShelf,
    *,
    hosts: Collection[str] = LOOPBACK_HOSTS,
    private: bool = False,
    requests_per_minute: int = REQUESTS_PER_MINUTE,
    max_upload_bytes: int = DEFAULT_LIMITS.archive_bytes,
    log: Callable[[str], None] | None = None,
) -> RequestGuard:
    """Return the registry as an ASGI app. Run its lifespan.

    With `private`, reading needs a token as well. `hosts` are the names that it is served under, without ports.
    """
    rates = RateLimits(requests_per_minute)
    return RequestGuard(
        _make_app(_Routes(shelf, rates)),
        callers=_find_callers(shelf, private=private),
        rules=BrowserRules(hosts=frozenset(name.lower() for name in hosts), uploads={_PUBLISH_PATH: _ARCHIVE_TYPES}),
        public=("/healthz",),
        # The guard takes all requests without a token for one caller, so `_Routes` counts them by address. Here only wrong
        # tokens reach a limit.
        rates=RateLimits(requests_per_minute * 1_000),
        body_limits={_PUBLISH_PATH: max_upload_bytes},
        respond=_refuse,
        log=log,
    )


def _find_callers(shelf: PackageShelf, *, private: bool) -> FindCaller:
    async def find(secret: str) -> Caller | None:
        if not secret:
            return None if private else _ANONYMOUS
        token = await offload(shelf.find_token, secret) if len(secret) <= _MAX_TOKEN_CHARS else None
        if token is None:
            return None
        role = "" if token.scope == "publish" else _READER
        name = token.publisher
        return Caller(actor=Actor(name=name, user=name, channel="http", role=role, permissions=frozenset()))

    return find


def _refuse(_: Scope, refusal: Refusal) -> Response:
    return plain_problem(refusal.status, refusal.detail, code=refusal.code, hint=refusal.hint, headers=refusal.headers)


def _make_app(routes: _Routes) -> Starlette:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        yield
        await routes.flush()

    async def failed(_: Request, error: Exception) -> Response:
        if isinstance(error, ProwessError):
            # A registry has other routes than the API, and its clients are shells.
            return problem_response(error, {"hint": error.hint})
        if isinstance(error, HTTPException):
            return plain_problem(error.status_code, str(error.detail), headers=error.headers)
        _log.error("A request failed unexpectedly.", exc_info=error)
        return plain_problem(500, "Internal error.", code="error", hint="See the server's log.")

    one = "/api/v1/skills/{name}/{version}"
    return Starlette(
        routes=[
            Route("/", routes.about),
            Route("/healthz", routes.health),
            Route("/api/v1/index", routes.index),
            Route("/api/v1/key", routes.about),
            Route("/api/v1/search", routes.search),
            Route("/api/v1/trending", routes.trending),
            Route(_PUBLISH_PATH, routes.publish, methods=["POST"]),
            Route("/api/v1/skills/{name}", routes.package),
            Route(one, routes.version),
            Route(f"{one}/archive", routes.archive),
            Route(f"{one}/yank", routes.yank, methods=["PUT", "DELETE"]),
            Route("/.well-known/agent-skills/index.json", routes.well_known),
        ],
        exception_handlers={ProwessError: failed, HTTPException: failed, Exception: failed},
        lifespan=lifespan,
    )


class _Routes:
    """Answers the requests. Everything that touches the database runs in a thread."""

    def __init__(self, shelf: PackageShelf, rates: RateLimits) -> None:
        self._shelf = shelf
        self._rates = rates
        self._downloads: Counter[str] = Counter()
        # The entries of the last index, by its ETag: reading thousands of rows for each search would be slow.
        self._entries = lru_cache(maxsize=1)(self._read_entries)

    async def flush(self) -> None:
        """Write the counted downloads."""
        counts, self._downloads = self._downloads, Counter()
        if counts:
            await offload(self._shelf.add_downloads, counts)

    async def health(self, _: Request) -> Response:
        """Say that the server is running."""
        await offload(self._shelf.etag)
        return Response("ok\n", media_type="text/plain")

    async def about(self, request: Request) -> Response:
        """Return what this is, and its key."""
        return self._json(request, {"registry": "prowess", "key": self._shelf.key, "index": "/api/v1/index"})

    async def index(self, request: Request) -> Response:
        """Return the signed index."""
        self._count(request)
        found = await offload(self._shelf.index)
        return _tagged(request, found.envelope, found.etag, "application/json")

    async def search(self, request: Request) -> Response:
        """Return the packages that match all words of `q`, those with a matching name first."""
        self._count(request)
        words = request.query_params.get("q", "").lower().split()[:20]
        ranked = [(rank, entry) for entry in await self._latest() if (rank := _rank(entry, words)) is not None]
        ranked.sort(key=lambda pair: (pair[0], pair[1].name))
        return self._json(request, {"skills": [_entry_json(one) for _, one in ranked[: _limit(request)]]})

    async def trending(self, request: Request) -> Response:
        """Return the packages that were downloaded most in the last week."""
        self._count(request)
        await self.flush()
        counts = await offload(self._shelf.downloads)
        entries = sorted(await self._latest(), key=lambda entry: (-counts.get(entry.name, 0), entry.name))
        found = [{**_entry_json(entry), "downloads": counts.get(entry.name, 0)} for entry in entries]
        return self._json(request, {"skills": found[: _limit(request)]})

    async def package(self, request: Request) -> Response:
        """Return one package with all versions."""
        self._count(request)
        name = request.path_params["name"]
        versions = [entry for entry in await self._all() if entry.name == name]
        if not versions:
            raise NotFound(
                f"The registry has no skill {name[:200]!r}.", hint="Search for it with /api/v1/search?q=WORD."
            )
        newest = latest_entries(versions)
        fields = {"name": name, "latest": newest[0].version if newest else None}
        return self._json(request, {**fields, "versions": [_entry_json(entry) for entry in versions]})

    async def version(self, request: Request) -> Response:
        """Return one version."""
        self._count(request)
        entry, _ = await offload(self._shelf.archive, request.path_params["name"], request.path_params["version"])
        return self._json(request, _entry_json(entry))

    async def archive(self, request: Request) -> Response:
        """Return the archive of a version."""
        self._count(request)
        entry, content = await offload(self._shelf.archive, request.path_params["name"], request.path_params["version"])
        response = _tagged(request, content, f'"{entry.archive}"', "application/zip")
        if response.status_code == 200:
            self._downloads[entry.name] += 1
            if self._downloads.total() >= _FLUSH_DOWNLOADS:
                await self.flush()
        return response

    async def well_known(self, request: Request) -> Response:
        """Return the newest versions in the format of well-known sites, which has no place for names with a namespace."""
        self._count(request)
        skills = [
            {
                "name": entry.name,
                "type": "archive",
                "description": entry.description,
                "url": f"/api/v1/skills/{entry.name}/{entry.version}/archive",
                "digest": f"sha256:{entry.archive}",
            }
            for entry in await self._latest()
            if _WELL_KNOWN_NAME.fullmatch(entry.name) and len(entry.name) <= 64
        ]
        return self._json(request, {"$schema": _WELL_KNOWN_SCHEMA, "skills": skills})

    async def publish(self, request: Request) -> Response:
        """Store a version."""
        publisher = self._publisher(request)
        content = await read_body(request)
        published = await offload(self._shelf.publish, content, publisher, _signature(request))
        findings = await offload(self._scan, published.entry)
        status = 201 if published.created else 200
        return _respond({**_entry_json(published.entry), "created": published.created, "findings": findings}, status)

    async def yank(self, request: Request) -> Response:
        """Yank a version (PUT), or undo it (DELETE)."""
        publisher = self._publisher(request)
        name, version = request.path_params["name"], request.path_params["version"]
        entry = await offload(self._shelf.yank, name, version, publisher, undo=request.method == "DELETE")
        return _respond(_entry_json(entry))

    def _scan(self, entry: IndexEntry) -> list[dict[str, Any]]:
        from prowess.scan import scan_package

        _, content = self._shelf.archive(entry.name, entry.version)
        (package,) = read_archive(content, entry.name)
        return [dict(finding.as_json()) for finding in scan_package(package)]

    def _read_entries(self, _etag: str) -> tuple[IndexEntry, ...]:
        return self._shelf.entries()

    async def _all(self) -> tuple[IndexEntry, ...]:
        return await offload(lambda: self._entries(self._shelf.etag()))

    async def _latest(self) -> tuple[IndexEntry, ...]:
        return latest_entries(await self._all())

    def _count(self, request: Request) -> None:
        """Count a request of a publisher, or of an address without a token. Raise HTTP 429 if there were too many."""
        caller: Caller = request.scope[SCOPE_KEY]
        address = request.client.host if request.client else ""
        key = f"address {address}" if caller is _ANONYMOUS else f"publisher {caller.actor.name}"
        refusal = self._rates.of_caller(key)
        if refusal is not None:
            raise HTTPException(refusal.status, refusal.detail, dict(refusal.headers))

    def _publisher(self, request: Request) -> str:
        """Return who publishes. Raise if the request has no token for publishing."""
        self._count(request)
        caller: Caller = request.scope[SCOPE_KEY]
        if caller is _ANONYMOUS:
            raise HTTPException(401, "A token for publishing is needed.", {"WWW-Authenticate": "Bearer"})
        if caller.actor.role == _READER:
            raise Refused("This token is only for reading.", hint="Ask the registry's operator for one for publishing.")
        return caller.actor.name

    @staticmethod
    def _json(request: Request, fields: dict[str, Any]) -> Response:
        content = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
        return _tagged(request, content, f'"{hashlib.sha256(content).hexdigest()[:32]}"', "application/json")


def _tagged(request: Request, content: bytes, etag: str, kind: str) -> Response:
    """Return content with its ETag, or 304 if the client has it already."""
    # Caches must ask again each time; the answer is 304 as long as nothing changed.
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    tags = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    if etag in tags or "*" in tags:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=kind, headers=headers)


def _respond(fields: dict[str, Any], status: int = 200) -> Response:
    return Response(json.dumps(fields, ensure_ascii=False), status, media_type="application/json")


def _entry_json(entry: IndexEntry) -> dict[str, Any]:
    return entry.model_dump(mode="json")


def _signature(request: Request) -> bytes:
    try:
        return base64.b64decode(request.headers.get(SIGNATURE_HEADER, ""), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Invalid(
            "The signature is not valid base64.", hint=f"Send it in the header {SIGNATURE_HEADER}."
        ) from error


def _limit(request: Request) -> int:
    text = request.query_params.get("limit", "20")
    if not text.isascii() or not text.isdigit() or len(text) > 9 or not 1 <= int(text) <= _MAX_RESULTS:
        raise Invalid(f"Invalid limit {text[:40]!r}.", hint=f"Use a number from 1 to {_MAX_RESULTS}.")
    return int(text)


def _rank(entry: IndexEntry, words: Sequence[str]) -> int | None:
    """Return how well a package matches, the lower the better; None if a word is nowhere in it."""
    text = f"{entry.name} {entry.description} {' '.join(entry.tags)}".lower()
    if not all(word in text for word in words):
        return None
    return 0 if entry.name in words else 1 if any(word in entry.name for word in words) else 2
