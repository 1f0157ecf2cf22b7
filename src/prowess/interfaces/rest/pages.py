"""The pages of a server besides the web application: the reference of its API, made from the OpenAPI document, and the page that signs people in.

They need no token, because they show nothing but what the OpenAPI document says. Scripts and styles are files of the
package: the pages load nothing from elsewhere, and contain no script of their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from minijinja import Environment
from starlette.responses import HTMLResponse, Response

from prowess.errors import NotFound

_FOLDER = Path(__file__).parent / "web"
_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_ASSETS = tuple(f"/assets/{path.name}" for path in sorted(_FOLDER.iterdir()) if path.suffix[1:] in _TYPES)
_ASSET_SECONDS = 300

REFERENCE_PATH = "/api/v1/docs"
SIGN_IN_PAGE = "/sign-in"
PUBLIC_PATHS = (REFERENCE_PATH, SIGN_IN_PAGE, *_ASSETS)
"""Paths that need no token."""

router = APIRouter(include_in_schema=False)
_MAX_DEPTH = 4


@router.get(REFERENCE_PATH)
async def show_reference(request: Request) -> Response:
    """Return the reference of the API as a page."""
    state = request.app.state
    if not hasattr(state, "reference_page"):
        state.reference_page = _render("reference.html", **describe_api(request.app.openapi()))
    return HTMLResponse(state.reference_page)


@router.get(SIGN_IN_PAGE)
async def show_sign_in(request: Request) -> Response:
    """Return the page that signs in with the code after `#`, which browsers do not send to servers."""
    provider = getattr(request.app.state, "provider", None)
    return HTMLResponse(_render("sign-in.html", issuer=provider.issuer if provider else ""))


@router.get("/assets/{name}")
async def read_asset(name: str) -> Response:
    """Return a style, a script or a picture of the pages."""
    if f"/assets/{name}" not in _ASSETS:
        raise NotFound(f"No file {name[:80]!r}.", hint="See the page that needs it.")
    kind = _TYPES[name.rpartition(".")[2]]
    headers = {"content-type": kind, "cache-control": f"max-age={_ASSET_SECONDS}"}
    return Response(_read(name), headers=headers)


@cache
def _read(name: str) -> str:
    return (_FOLDER / name).read_text()


@cache
def _environment() -> Environment:
    names = ("reference.html", "sign-in.html")
    return Environment(templates={name: _read(name) for name in names}, trim_blocks=True, lstrip_blocks=True)


def _render(template: str, **values: Any) -> str:
    return _environment().render_template(template, **values)


def describe_api(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the reference shows of an OpenAPI document: its routes by tag, and the types that they name."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            described = _describe_route(document, path, method, operation)
            groups.setdefault(operation.get("tags", ["other"])[0], []).append(described)
    schemas = document.get("components", {}).get("schemas", {})
    types = [
        {"id": name, "name": _type_name(schema, name), "text": _text(schema), "fields": _fields(document, schema)}
        for name, schema in sorted(schemas.items())
    ]
    groups = {name: groups[name] for name in sorted(groups, key=lambda name: name == "operation")}
    return {
        "title": document["info"]["title"],
        "version": document["info"]["version"],
        "groups": groups,
        "types": types,
        "type_names": {row["id"]: row["name"] for row in types},
    }


def _describe_route(
    document: Mapping[str, Any], path: str, method: str, operation: Mapping[str, Any]
) -> dict[str, Any]:
    content = operation.get("requestBody", {}).get("content", {})
    bodies = [
        {"type": kind, "shape": _shape(part["schema"]), "fields": _fields(document, part["schema"])}
        for kind, part in content.items()
    ]
    responses = [
        {"status": status, "text": _parts(found["description"]), "shapes": _shapes(found)}
        for status, found in operation["responses"].items()
        if int(status) < 400
    ]
    return {
        "id": f"{method}-{path.strip('/')}".replace("/", "-").replace("{", "").replace("}", ""),
        "method": method.upper(),
        "path": path,
        "pieces": re.split(r"(\{[^{}]*\})", path),
        "summary": _sentence(operation.get("summary", "")),
        "text": _parts(operation.get("description", "")),
        "permission": _permission(operation),
        "parameters": [_parameter(parameter) for parameter in operation.get("parameters", ())],
        "bodies": bodies,
        "responses": responses,
        "problems": [int(status) for status in operation["responses"] if int(status) >= 400],
        "curl": _curl(document, path, method, operation),
    }


def _sentence(summary: str) -> str:
    """Return a summary in sentence case. Those that are made from names of functions are in title case."""
    return summary.capitalize() if summary.istitle() else summary


def _permission(operation: Mapping[str, Any]) -> str:
    security = operation.get("security")
    if not security:
        return "no token"
    scopes = [scope for one in security for names in one.values() for scope in names]
    return ", ".join(scopes) or "any token"


def _parameter(found: Mapping[str, Any]) -> dict[str, Any]:
    schema = found["schema"]
    return {
        "name": found["name"],
        "place": found["in"],
        "required": found.get("required", False),
        "shape": _shape(schema),
        "text": _parts(found.get("description", "")),
        "default": _default(schema),
    }


def _default(schema: Mapping[str, Any]) -> str:
    default = schema.get("default")
    return "" if default in (None, "", [], {}) else json.dumps(default)


def _fields(document: Mapping[str, Any], schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = _resolve(document, schema)
    required = found.get("required", ())
    return [
        {
            "name": name,
            "required": name in required,
            "shape": _shape(field),
            "text": _text(field),
            "default": _default(field),
        }
        for name, field in found.get("properties", {}).items()
    ]


def _text(schema: Mapping[str, Any]) -> list[list[str]]:
    return _parts(schema.get("description", ""))


def _parts(text: str) -> list[list[str]]:
    """Return a text in pieces, each with its kind: `text`, or `code` for what is between backticks."""
    pieces = " ".join(text.split()).split("`")
    return [["code" if number % 2 else "text", piece] for number, piece in enumerate(pieces) if piece]


def _shapes(response: Mapping[str, Any]) -> list[list[str]]:
    content: Mapping[str, Any] = response.get("content", {})
    if not content:
        return [["text", "no body"]]
    kind, found = next(iter(content.items()))
    return _shape(found["schema"]) if found.get("schema") else [["text", kind]]


def _shape(schema: Mapping[str, Any]) -> list[list[str]]:
    """Return the type of a value in pieces: `text`, or `type` for the name of one that the page describes."""
    if "$ref" in schema:
        return [["type", schema["$ref"].rpartition("/")[2]]]
    choices: Sequence[Mapping[str, Any]] = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf") or ()
    if choices:
        shapes = [_shape(choice) for choice in choices]
        return [
            piece for number, shape in enumerate(shapes) for piece in ([["text", " or "]] if number else []) + shape
        ]
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return [["text", " | ".join(json.dumps(value) for value in values)]]
    kind = schema.get("type", "any")
    if kind == "array":
        return [["text", "list of "], *_shape(schema.get("items", {}))]
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return [["text", "object of "], *_shape(schema["additionalProperties"])]
    limits = [f"{word} {schema[name]}" for name, word in _LIMITS if name in schema]
    return [["text", f"{kind} ({', '.join(limits)})" if limits else str(kind)]]


_LIMITS = (("minimum", "from"), ("maximum", "to"), ("maxLength", "at most"))


def _type_name(schema: Mapping[str, Any], name: str) -> str:
    return re.sub(r"(?<=[a-z])(Shape|Body)\b", "", schema.get("title", name))


def _resolve(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def _curl(document: Mapping[str, Any], path: str, method: str, operation: Mapping[str, Any]) -> str:
    """Return a command that sends a request to a route. `$URL` and `$TOKEN` are explained at the top of the page."""
    address = re.sub(r"\{([^{}]*)\}", lambda found: found[1].upper(), path)
    needed = [one for one in operation.get("parameters", ()) if one["in"] == "query" and one.get("required")]
    query = "&".join(f"{one['name']}={one['name'].upper()}" for one in needed)
    words = ["curl"] + ([] if method == "get" else ["-X", method.upper()])
    words += [f'"$URL{address}{"?" + query if query else ""}"']
    words += ['-H "Authorization: Bearer $TOKEN"'] if _permission(operation) != "no token" else []
    content: Mapping[str, Any] = operation.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        body = json.dumps(_example(document, content["application/json"]["schema"]), ensure_ascii=False)
        words += [
            "-H 'Content-Type: application/json'",
            f"-d '{body.replace(chr(39), chr(39) + chr(92) + chr(39) * 2)}'",
        ]
    elif content:
        words += [f"-H 'Content-Type: {next(iter(content))}'", "--data-binary @FILE"]
    return " ".join(words)


def _example(document: Mapping[str, Any], schema: Mapping[str, Any], depth: int = 0) -> Any:
    """Return a small value of a schema: its example, or an object with the required fields."""
    found = _resolve(document, schema)
    if found.get("examples"):
        return found["examples"][0]
    if "const" in found or "enum" in found:
        return found.get("const", found.get("enum", [None])[0])
    choices = found.get("anyOf") or found.get("oneOf")
    if choices:
        return _example(document, choices[0], depth + 1)
    if found.get("type") == "object" and depth < _MAX_DEPTH:
        required = found.get("required", ())
        return {
            name: _example(document, field, depth + 1)
            for name, field in found.get("properties", {}).items()
            if name in required
        }
    values: dict[str, Any] = {"string": "…", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}
    return values.get(found.get("type", ""), "…")
