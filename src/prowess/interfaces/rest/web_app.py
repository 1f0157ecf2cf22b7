"""The web application: one page for all its addresses, and the scripts and styles that `scripts/ui` builds from `ui/`.

They need no token, because they show nothing by themselves: the application asks the HTTP API for everything.
"""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from prowess.errors import NotFound

FOLDER = Path(__file__).parent / "web" / "app"
PAGES = (
    "skills",
    "chat",
    "approvals",
    "browse",
    "sources",
    "why",
    "traces",
    "jobs",
    "evals",
    "optimizations",
    "settings",
    "people",
    "audit",
)
"""The first parts of the addresses of the application. `ui/src/routes.ts` has the pages."""

PUBLIC_PATHS = ("/", "/app/", *(f"/{page}" for page in PAGES), *(f"/{page}/" for page in PAGES))
"""Paths that need no token. One that ends with a slash stands for all below it."""

_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
# The name of a file has a hash of its content.
_FOREVER = "public, max-age=31536000, immutable"
_NOT_BUILT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Prowess</title>
<link rel="icon" href="/assets/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/assets/prowess.css">
</head>
<body class="card">
<main>
<h1>Prowess is running</h1>
<p>The web application is not part of this installation. In a clone, build it with <code>make ui</code>. For a package,
build a wheel with <code>make wheel</code> and install it.</p>
<p><a class="button" href="/api/v1/docs">See the HTTP API</a></p>
</main>
</body>
</html>
"""

router = APIRouter(include_in_schema=False)


def make_page(status: int = 200) -> Response:
    """Return the page of the application. Its script shows what the address asks for, or that there is no such page."""
    return HTMLResponse(_read("index.html") or _NOT_BUILT, status)


async def show_app() -> Response:
    """Return the page of the application."""
    return make_page()


for _path in ("/", *(f"/{page}" for page in PAGES), *(f"/{page}/{{rest:path}}" for page in PAGES)):
    router.add_api_route(_path, show_app, methods=["GET"])


@router.get("/app/{name}")
async def read_part(name: str, request: Request) -> Response:
    """Return a script or a style of the application."""
    content = _read(name) if name in _names() else None
    kind = _TYPES.get(Path(name).suffix)
    if content is None or kind is None:
        raise NotFound(f"No file {name[:80]!r}.", hint="Reload the page: the server has a newer version of it.")
    headers = {"content-type": kind, "cache-control": _FOREVER, "vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(_compress(name), headers={**headers, "content-encoding": "gzip"})
    return Response(content, headers=headers)


@cache
def _names() -> frozenset[str]:
    return frozenset(path.name for path in FOLDER.iterdir()) if FOLDER.is_dir() else frozenset()


@cache
def _read(name: str) -> bytes | None:
    path = FOLDER / name
    return path.read_bytes() if path.is_file() else None


@cache
def _compress(name: str) -> bytes:
    return gzip.compress(_read(name) or b"", compresslevel=9, mtime=0)
