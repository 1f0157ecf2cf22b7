"""Call the routes that are asked most without the machinery of FastAPI, which takes longer than their answers do.

Only plain requests come this way: the first page of skills, one skill by its slug, a match. Everything else, and every
request that fails here, goes to FastAPI, so that parameters, permissions and errors are handled in one place. None of
these requests has an effect, so nothing happens twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from prowess.interfaces.auth.caller import SCOPE_KEY, Caller
from prowess.interfaces.rest.matching import MatchBody, match_message
from prowess.interfaces.rest.request import MAX_PAGE, PageQuery
from prowess.interfaces.rest.skills import list_skills, read_skill
from prowess.open import Prowess

_SLUG = re.compile(r"[a-z0-9][a-z0-9.-]{0,199}")
_LIMIT = re.compile(rb"limit=([1-9][0-9]{0,2})")
_DEFAULT_LIMIT: Final = 50

Answer = Callable[[Prowess], Awaitable[Response]]


class DirectRoutes:
    """An ASGI app in front of the API, which it uses for everything that it does not answer itself."""

    def __init__(self, api: FastAPI, prefix: str, paths: Collection[str]) -> None:
        """Answer for the API below a prefix, which has these paths."""
        self._api = api
        self._engine: Prowess = api.state.engine
        self._list = f"{prefix}/skills"
        self._skill = f"{prefix}/skills/"
        self._match = f"{prefix}/match"
        # Routes such as `/skills/parse` are no skills.
        self._literal = frozenset(path for path in paths if path.startswith(self._skill) and "{" not in path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a plain request, or pass it on."""
        messages: list[Message] = []
        answer = self._find(scope) if scope["type"] == "http" else None
        if answer is None and scope["type"] == "http" and self._is_match(scope):
            answer = await _read_match(receive, messages)
        caller: Caller | None = scope.get(SCOPE_KEY)
        if answer is not None and caller is not None:
            try:
                caller.actor.require("skills.read")
                response = await answer(self._engine.as_actor(caller.actor))
            except Exception:  # noqa: BLE001, S110  (FastAPI meets the same error, and reports it)
                pass
            else:
                await response(scope, receive, send)
                return
        await self._api(scope, _replayed(messages, receive) if messages else receive, send)

    def _find(self, scope: Scope) -> Answer | None:
        if scope["method"] != "GET" or scope.get("root_path"):
            return None
        path: str = scope["path"]
        query: bytes = scope["query_string"]
        if path == self._list:
            match = _LIMIT.fullmatch(query)
            limit = int(match[1]) if match else _DEFAULT_LIMIT
            if (query and match is None) or limit > MAX_PAGE:
                return None
            return lambda engine: list_skills(engine, PageQuery(limit, ""))
        if query or path in self._literal or not path.startswith(self._skill):
            return None
        slug = path.removeprefix(self._skill)
        if not _SLUG.fullmatch(slug):
            return None
        return lambda engine: read_skill(slug, Request(scope), engine)

    def _is_match(self, scope: Scope) -> bool:
        if scope["method"] != "POST" or scope["path"] != self._match or scope.get("root_path") or scope["query_string"]:
            return False
        return (b"content-type", b"application/json") in scope["headers"]


async def _read_match(receive: Receive, messages: list[Message]) -> Answer | None:
    """Read the body of a match into `messages`. Return None if it is not a valid one."""
    while not messages or messages[-1].get("more_body", False):
        messages.append(await receive())
    if any(message["type"] != "http.request" for message in messages):
        return None
    try:
        body = MatchBody.model_validate(json.loads(b"".join(message.get("body", b"") for message in messages)))
    except (ValueError, RecursionError):
        return None
    return lambda engine: match_message(body, engine)


def _replayed(messages: list[Message], receive: Receive) -> Receive:
    """Return a `receive` that gives what was messages once more."""
    rest = iter(messages)

    async def again() -> Message:
        message = next(rest, None)
        return await receive() if message is None else message

    return again
