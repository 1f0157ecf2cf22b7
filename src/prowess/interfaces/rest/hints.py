"""Name the request that does what a command of the shell does: callers over HTTP may have no shell on the server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import quote

API: Final = "/api/v1"

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
    # Only what looks like one of ours: the outputs of skills may have hints of their own.
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
