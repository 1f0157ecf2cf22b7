"""Translate every error into problem details (RFC 9457), in one place.

A hint that names a command of the shell gets the request that does the same: callers over HTTP may have no shell on the
server.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, cast
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import compile_path

from prowess.errors import (
    Conflict,
    Invalid,
    NotFound,
    PreconditionFailed,
    ProwessError,
    Refused,
    RunFailed,
    TooLarge,
    TryLater,
    Unavailable,
)
from prowess.interfaces.auth.caller import SCOPE_KEY, Caller
from prowess.interfaces.rest.web_app import make_page
from prowess.view import describe_fault, error_json

API: Final = "/api/v1"
_NAMED_FIELDS = 3
"""How many invalid fields the text of an error names; `problems` has all of them."""

REQUESTS: Mapping[str, str] = {
    "approvals": "GET /approvals",
    "approvals show": "GET /approvals/{id}",
    "compose": "POST /compositions",
    "compose list": "GET /compositions",
    "compose refine": "POST /compositions/{id}/refine",
    "compose rounds": "GET /compositions/{id}/rounds",
    "compose show": "GET /compositions/{id}",
    "connector list": "GET /connectors",
    "connector show": "GET /connectors/{name}",
    "connector tools": "GET /connectors/{name}/tools",
    "conversations": "GET /conversations",
    "disable": "POST /sessions/{session}/disable",
    "enable": "POST /sessions/{session}/enable",
    "env allow": "PUT /env/{slug}/{name}",
    "env list": "GET /env",
    "eval list": "GET /evals",
    "eval run": "POST /evals",
    "export": "GET /skills/{id}/export",
    "fork": "POST /skills/{id}/fork",
    "history": "GET /skills/{id}/versions",
    "import": "POST /skills/import",
    "jobs list": "GET /jobs",
    "jobs retry": "POST /jobs/{id}/retry",
    "jobs show": "GET /jobs/{id}",
    "list": "GET /skills",
    "load": "POST /skills/{id}/load",
    "model list": "GET /models",
    "optimize cancel": "POST /optimizations/{id}/cancel",
    "optimize list": "GET /optimizations",
    "optimize run": "POST /optimizations",
    "optimize show": "GET /optimizations/{id}",
    "org list": "GET /organizations",
    "policy": "GET /settings",
    "policy reset": "DELETE /settings/{name}",
    "policy roles": "GET /roles",
    "policy set": "PUT /settings/{name}",
    "registry search": "GET /skills/registry/search",
    "rollback": "POST /skills/{id}/rollback",
    "run": "POST /skills/{id}/run",
    "sessions": "GET /sessions",
    "sessions open": "POST /sessions",
    "show": "GET /skills/{id}",
    "source add": "POST /skills/sources",
    "source enable": "PUT /skills/sources/{id}",
    "source list": "GET /skills/sources",
    "switch on": "PUT /skills/{id}",
    "token create": "POST /tokens",
    "token list": "GET /tokens",
    "traces": "GET /traces",
    "traces list": "GET /traces",
    "traces show": "GET /traces/{id}",
    "trust": "GET /trust/found",
    "trust list": "GET /trust",
    "user change": "PUT /members/{user}/permissions",
    "user list": "GET /members",
    "validate": "POST /skills/validate",
}
"""The request for each command that hints name. The others, such as `prowess doctor`, are for the operator of the server.

The words after a command fill the path from the left, except for a session, which a command has as an option.
"""

_COMMAND = re.compile(r"(?:\bRun )?`prowess ([^`]+)`")
_PART = re.compile(r"\{(?!session\})\w+\}")
# `SLUG`, `--budget` and `…` stand for something that the caller has to choose.
_VALUE = re.compile(r"(?!-)(?!…)(?![A-Z_]+$).+")


def hint_for_requests(hint: str) -> str:
    """Return a hint with requests in the place of commands."""
    return _COMMAND.sub(_to_request, hint)


def hint_fields(hint: str) -> dict[str, str]:
    """Return a hint with requests as `hint`; if that changes it, the one with commands is `command_hint`, for shells."""
    named = hint_for_requests(hint)
    return {"hint": named} if named == hint else {"hint": named, "command_hint": hint}


def name_requests(value: Any) -> Any:
    """Return plain JSON in which the hints of errors and warnings, at any depth, name requests."""
    if isinstance(value, list):
        return [name_requests(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = {key: name_requests(item) for key, item in cast("dict[Any, Any]", value).items()}
    hint = fields.get("hint")
    # Only what looks like one of ours: the outputs of skills may have their own hints.
    return fields | hint_fields(hint) if isinstance(hint, str) and {"message", "error"} & fields.keys() else fields


def _to_request(found: re.Match[str]) -> str:
    words = found[1].split()
    size = 2 if " ".join(words[:2]) in REQUESTS else 1
    request = REQUESTS.get(" ".join(words[:size]))
    if request is None:
        return found[0]
    for word in words[size:]:
        if not _VALUE.match(word):
            break
        request = _PART.sub(quote(word, safe=":"), request, count=1)
    method, path = request.split()
    return f"{'Send ' if found[0].startswith('Run ') else ''}`{method} {API}{path}`"


PROBLEM_TYPE = "application/problem+json"
RETRY_SECONDS = 5
"""The default of `Retry-After`."""

STATUSES: Mapping[type[ProwessError], int] = {
    ProwessError: 500,
    NotFound: 404,
    Invalid: 422,
    TooLarge: 413,
    Refused: 403,
    Conflict: 409,
    PreconditionFailed: 412,
    Unavailable: 503,
    RunFailed: 502,
}
"""One status per error family, and for two members that HTTP has a status for."""

_CODES = {
    400: "bad-request",
    401: "unauthorized",
    404: "no-such-route",
    405: "method-not-allowed",
    413: "too-large",
    415: "unsupported-media-type",
    421: "unknown-host",
    429: "too-many-requests",
}
_UNREADABLE_BODY = "There was an error parsing the body"
"""What FastAPI says of a body that is not UTF-8, or that Python's JSON parser gives up on."""
_ROUTES_HINT = "`GET /api/v1/openapi.json` lists all routes."
_log = logging.getLogger(__name__)


class ProblemDetails(BaseModel):
    """Problem details (RFC 9457). `code` is stable and meant for programs; `hint` says what to do next."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=["urn:prowess:problem:not-found"])
    title: str
    status: int
    detail: str
    code: str
    hint: str = ""
    command_hint: str = Field(default="", description="The hint with commands of the shell, if it has any.")


# Without their model, from which FastAPI would make a validator for each status of each route: most of the time that the
# first request to a route took, and the OpenAPI document.
PROBLEM_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"description": HTTPStatus(status).phrase}
    for status in (400, 401, 403, 404, 405, 408, 409, 412, 413, 414, 415, 421, 422, 429, 431, 502, 503)
}
"""The responses of every route, besides its own."""
_PROBLEM_STATUSES = frozenset(str(status) for status in PROBLEM_RESPONSES)
_PROBLEM_SCHEMA = {"$ref": f"#/components/schemas/{ProblemDetails.__name__}"}


def status_of(error: ProwessError) -> int:
    """Return the status of an error's nearest family."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)


def problem_json(error: ProwessError) -> dict[str, Any]:
    """Return an error as problem details: ours with its extras (`problems`, `budget`, `approval_id`).

    `hint` names requests. If the error names commands instead, these are in `command_hint`, for clients that are a shell.
    """
    error = error.without_location()
    fields = {**error_json(error), **hint_fields(error.hint)}
    status = status_of(error)
    if isinstance(error, PreconditionFailed):
        fields |= {"etag": error.etag, "version": error.version}
    return {
        "type": f"urn:prowess:problem:{error.code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": fields.pop("message"),
        **fields,
    }


def problem_response(error: ProwessError, extra: Mapping[str, Any] | None = None) -> Response:
    """Return the response to a request that failed, with further members if given."""
    fields = {**problem_json(error), **(extra or {})}
    headers = {"ETag": error.etag} if isinstance(error, PreconditionFailed) else {}
    if fields["status"] == 503:
        wait = error.retry_after if isinstance(error, TryLater) and error.retry_after else RETRY_SECONDS
        headers["Retry-After"] = str(max(1, round(wait)))
    return _respond(fields, headers)


def plain_problem(
    status: int, detail: str, *, code: str = "", hint: str = "", headers: Mapping[str, str] | None = None
) -> Response:
    """Return a problem that no error of ours stands for, such as a missing token."""
    code = code or _CODES.get(status, "bad-request" if status < 500 else "error")
    fields = {
        "type": f"urn:prowess:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        "hint": hint,
    }
    return _respond(fields, headers or {})


async def read_body(request: Request) -> bytes:
    """Return the body of a request. A client that hangs up before its end gets an answer that nobody receives."""
    try:
        return await request.body()
    except ClientDisconnect:
        raise HTTPException(400, "The client closed the connection.") from None


def add_handlers(app: FastAPI) -> None:
    """Answer every exception of a route with problem details."""

    @app.exception_handler(ProwessError)
    async def _(request: Request, error: ProwessError) -> Response:  # pyright: ignore[reportUnusedFunction]
        caller: Caller | None = request.scope.get(SCOPE_KEY)
        if caller is None or not caller.actor.is_person:
            error = error.for_agent()
        return problem_response(error)

    @app.exception_handler(RequestValidationError)
    async def _(_: Request, error: RequestValidationError) -> Response:  # pyright: ignore[reportUnusedFunction]
        return _invalid_request(error)

    @app.exception_handler(HTTPException)
    async def _(request: Request, error: HTTPException) -> Response:  # pyright: ignore[reportUnusedFunction]
        method, path = request.method, request.url.path
        # The phrase of the status is what the router says if nothing fits; routes have their own details.
        if error.status_code == 404 and error.detail == HTTPStatus.NOT_FOUND.phrase:
            if _is_for_people(request):
                return make_page(404)
            return plain_problem(404, "No such route.", headers=error.headers, hint=_ROUTES_HINT)
        if error.status_code == 405:
            allowed = ", ".join(_allowed_methods(app, path))
            # The guard asks for the body of `GET` and leaves it out.
            headers = {**(error.headers or {}), "Allow": allowed.replace("GET", "GET, HEAD")}
            return plain_problem(
                405, f"{method} is not allowed here.", headers=headers, hint=f"Use {allowed}." if allowed else ""
            )
        if error.detail == _UNREADABLE_BODY:
            hint = "Send JSON in UTF-8, without deep nesting or very long numbers."
            return plain_problem(400, "The body cannot be read.", hint=hint)
        return plain_problem(error.status_code, str(error.detail), headers=error.headers)

    @app.exception_handler(Exception)
    async def _(_: Request, error: Exception) -> Response:  # pyright: ignore[reportUnusedFunction]
        _log.error("A request failed unexpectedly.", exc_info=error)
        return plain_problem(500, "Internal error.", code="error", hint="See the server's log.")

    _describe_problems(app)


def _is_for_people(request: Request) -> bool:
    """Return True if a browser asks for a page, not for data."""
    path = request.url.path
    wants_page = request.method == "GET" and "text/html" in request.headers.get("accept", "")
    return wants_page and not path.startswith((f"{API}/", "/mcp"))


def _describe_problems(app: FastAPI) -> None:
    """Give every error in the OpenAPI document its content type and schema."""
    generate = app.openapi

    def describe() -> dict[str, Any]:
        document = generate()
        schemas = {**document["components"]["schemas"], ProblemDetails.__name__: ProblemDetails.model_json_schema()}
        document["components"]["schemas"] = dict(sorted(schemas.items()))
        for operations in document["paths"].values():
            for operation in operations.values():
                for status in _PROBLEM_STATUSES & operation["responses"].keys():
                    operation["responses"][status]["content"] = {PROBLEM_TYPE: {"schema": _PROBLEM_SCHEMA}}
        return document

    app.openapi = describe


def _allowed_methods(app: FastAPI, path: str) -> list[str]:
    """Return the methods of a path. The router knows only those of the first of its routes that has this path."""
    # Not from the OpenAPI document: the first request for it takes seconds, during which the server answers nobody.
    methods: dict[str, set[str]] = app.state.methods
    templates = [path] if path in methods else [known for known in methods if compile_path(known)[0].match(path)]
    return sorted({method for template in templates for method in methods[template]})


def _invalid_request(error: RequestValidationError) -> Response:
    errors = error.errors()
    if any(row.get("type") == "json_invalid" for row in errors):
        return plain_problem(400, "The body is not valid JSON.", hint="Send a JSON object.")
    # The values themselves are left out: they may be secrets, and they would come back to a log.
    problems = [
        {
            "code": "field",
            "severity": "error",
            "message": f"{describe_fault(row)}.",
            "hint": "",
            "field": ".".join(str(part) for part in row.get("loc", ())),
            "line": None,
        }
        for row in errors
    ]
    first = " ".join(f"`{problem['field']}`: {problem['message']}" for problem in problems[:_NAMED_FIELDS])
    fields = {
        "type": "urn:prowess:problem:invalid",
        "title": HTTPStatus(422).phrase,
        "status": 422,
        "detail": f"Invalid request: {first}",
        "code": "invalid",
        "hint": "See `problems` for all of them." if len(problems) > _NAMED_FIELDS else "",
        "problems": problems,
    }
    return _respond(fields, {})


def _respond(fields: Mapping[str, Any], headers: Mapping[str, str]) -> Response:
    body = json.dumps(name_requests(fields), ensure_ascii=False).encode("utf-8", "replace")
    return Response(body, fields["status"], {**headers, "content-type": PROBLEM_TYPE})
