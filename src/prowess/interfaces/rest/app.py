"""The routes of the HTTP API. `interfaces/server.py` serves them, behind the guard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

from prowess.agent.live_turns import LiveTurns
from prowess.engine.engine import Engine
from prowess.interfaces.auth.oidc import Provider
from prowess.interfaces.rest import (
    approvals,
    audit,
    catalog,
    compositions,
    connectors,
    drafts,
    evals,
    events,
    health,
    jobs,
    matching,
    messages,
    optimizations,
    packages,
    pages,
    people,
    registries,
    runs,
    sessions,
    settings,
    sign_in,
    skills,
    sources,
    traces,
    trust,
    versions,
    web_app,
)
from prowess.interfaces.rest.packages import UPLOAD_TYPES
from prowess.interfaces.rest.problems import API, PROBLEM_RESPONSES, add_handlers

OPENAPI_PATH = f"{API}/openapi.json"
ROUTERS: Sequence[APIRouter] = (
    # Before the routes of one skill, whose id could be `registry` or `sources`.
    registries.search_router,
    sources.router,
    skills.router,
    catalog.router,
    drafts.router,
    packages.router,
    versions.router,
    matching.router,
    sessions.router,
    messages.router,
    messages.memory_router,
    runs.router,
    jobs.router,
    compositions.router,
    evals.router,
    optimizations.router,
    connectors.router,
    approvals.router,
    events.router,
    traces.router,
    registries.router,
    settings.roles_router,
    audit.router,
    trust.router,
    settings.router,
    people.router,
    catalog.summary_router,
    sign_in.router,
)
"""The routers below /api/v1, in the order in which the reference shows them."""
_PREFIXED: Sequence[tuple[APIRouter, str]] = (
    *((router, API) for router in ROUTERS),
    *((router, "") for router in (health.router, pages.router, web_app.router)),
)
PATHS: Sequence[str] = tuple(f"{API}{getattr(route, 'path', '')}" for router in ROUTERS for route in router.routes)
"""The paths of their routes."""
PUBLIC_PATHS = (
    *health.PUBLIC_PATHS,
    *pages.PUBLIC_PATHS,
    *web_app.PUBLIC_PATHS,
    OPENAPI_PATH,
    *(API + path for path in sign_in.PUBLIC_PATHS),
)
"""Paths that need no token. One that ends with a slash stands for all below it."""
SIGN_IN_PATHS: Sequence[str] = (API + sign_in.SIGN_IN_PATH,)
"""Those of them at which people sign in. Attempts are limited per address."""
UPLOADS: Mapping[str, frozenset[str]] = {f"{API}{path}": UPLOAD_TYPES for path in packages.UPLOAD_PATHS}
"""The content types that a body may have besides JSON, for each path that takes an upload."""


def make_api(engine: Engine, *, public_url: str = "", provider: Provider | None = None) -> FastAPI:
    """Return the routes of the API, without the guard that finds the caller of each request.

    `public_url` is the address that browsers use, and `provider` the one through which people sign in.
    """
    app = FastAPI(
        title="Prowess",
        version=version("prowess"),
        summary="The skill engine for AI agents.",
        openapi_url=OPENAPI_PATH,
        docs_url=None,
        redoc_url=None,
        # A redirect would lose the body and the method of a request with a slash too many.
        redirect_slashes=False,
    )
    app.state.engine = engine
    app.state.public_url = public_url
    app.state.provider = provider
    app.state.turns = LiveTurns()
    add_handlers(app)
    app.state.methods = _methods_by_path()
    app.router.routes += _sections().routes
    return app


@cache
def _sections() -> APIRouter:
    """Return the routes of all apps of this process: FastAPI prepares each of them once, when a request comes near it."""
    sections = APIRouter(responses=PROBLEM_RESPONSES)
    for router, prefix in _PREFIXED:
        sections.include_router(_Section(router, prefix), prefix=prefix)
    return sections


def _methods_by_path() -> dict[str, set[str]]:
    """Return the methods of every path template of the API, as its OpenAPI document has them."""
    methods: dict[str, set[str]] = {}
    for router, prefix in _PREFIXED:
        for route in router.routes:
            if isinstance(route, APIRoute) and route.include_in_schema:
                methods.setdefault(prefix + route.path, set()).update(route.methods or ())
    return methods


class _Section(APIRouter):
    """The routes of a router, which are looked at only for paths that can be theirs.

    FastAPI tries all routes one after the other, twice, which for the last of a hundred took longer than the guard, the
    token and the response together.
    """

    def __init__(self, router: APIRouter, prefix: str = "") -> None:
        super().__init__(routes=router.routes)
        # The path of a route up to its first parameter, or all of it.
        paths = [str(getattr(route, "path", "")) for route in router.routes]
        self._starts = tuple({prefix + path.partition("{")[0].rstrip("/") for path in paths})

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return how far a route matches a request."""
        if not scope["path"].removeprefix(scope.get("root_path", "")).startswith(self._starts):
            return Match.NONE, {}
        return super().matches(scope)
