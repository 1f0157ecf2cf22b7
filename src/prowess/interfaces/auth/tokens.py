"""Find the caller of a bearer token or a session cookie, and set that cookie."""

from __future__ import annotations

import hmac
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from prowess.engine.engine import Engine
from prowess.errors import Refused
from prowess.interfaces.auth.caller import Caller
from prowess.interfaces.auth.guard import COOKIE
from prowess.policy.actor import agent_of
from prowess.policy.sign_in import LONGEST_SECONDS
from prowess.storage.secret_file import SERVER_TOKEN_FILE, TOKEN_FILE, load_or_create_secret, read_secret

_MAX_SECRET_CHARS = 200
"""Longer than every token and cookie. A longer text is refused without hashing it."""


class _TokenFile:
    """A token that is kept in a file. It counts as long as the file holds it, so removing the file revokes it at once."""

    def __init__(self, path: Path, caller: Caller) -> None:
        self._path = path
        self._identity: object = None
        self._secret: bytes | None = None
        self.caller = caller

    def has(self, token: bytes) -> bool:
        """Return True if this is the token, in the same time for every wrong one."""
        try:
            found = os.stat(self._path)  # noqa: PTH116  (called at each request, and faster than pathlib)
            identity = (found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode)
        except OSError:
            return False
        if identity != self._identity:
            try:
                secret = read_secret(self._path)
            except Refused:
                # Others can read it now, so it may be known to anyone.
                secret = None
            self._secret = secret.encode() if secret else None
            self._identity = identity
        return self._secret is not None and hmac.compare_digest(token, self._secret)


class LocalTokens:
    """The tokens of the person at this machine and of their agents, each in a file that only they can read."""

    def __init__(self, files: list[_TokenFile]) -> None:
        self._files = files

    def find(self, secret: str) -> Caller | None:
        """Return the caller of a token, or None if no file holds it."""
        token = secret.encode(errors="replace")
        # Every file is compared, so that the time does not reveal which token was closest.
        matches = [one.caller for one in self._files if one.has(token)]
        return matches[0] if matches else None


def ensure_local_tokens(home: Path, engine: Engine) -> LocalTokens:
    """Return the token files of this machine; create those that are missing.

    `PROWESS_HOME/server-token` is for the person who started the server, and allows everything. `PROWESS_HOME/token` is for
    the agents of this person, which neither approve nor administer. Several processes may do this at once.
    """
    for name in (SERVER_TOKEN_FILE, TOKEN_FILE):
        load_or_create_secret(home / name)
    person = replace(engine.actor, channel="http")
    agent = Caller(actor=agent_of(person), named_by_client=True)
    return LocalTokens(
        [_TokenFile(home / SERVER_TOKEN_FILE, Caller(actor=person)), _TokenFile(home / TOKEN_FILE, agent)]
    )


def find_callers(engine: Engine, local: LocalTokens | None = None) -> Callable[[str], Awaitable[Caller | None]]:
    """Return a lookup of callers by bearer token, in the token files of this machine and in the database.

    Each lookup costs one query, so a token that is revoked anywhere is refused from then on.
    """

    async def find(secret: str) -> Caller | None:
        if not secret or len(secret) > _MAX_SECRET_CHARS:
            return None
        caller = local.find(secret) if local is not None else None
        if caller is not None:
            return caller
        actor = await engine.tokens.authenticate(secret)
        return Caller(actor=actor) if actor is not None else None

    return find


def find_session_callers(engine: Engine) -> Callable[[str], Awaitable[Caller | None]]:
    """Return a lookup of callers by session cookie. It costs one query, so a session ends everywhere at once."""

    async def find(secret: str) -> Caller | None:
        if not secret or len(secret) > _MAX_SECRET_CHARS:
            return None
        actor = await engine.sign_ins.authenticate(secret)
        return Caller(actor=actor) if actor is not None else None

    return find


def session_secret(request: Request) -> str:
    """Return the secret in the session cookie of a request, or ''."""
    return request.cookies.get(COOKIE, "")[:_MAX_SECRET_CHARS]


def set_session_cookie(response: Response, secret: str, *, secure: bool) -> None:
    """Make a browser send the secret of a web session with each request to this server.

    Scripts cannot read the cookie, and requests from pages of other sites do not have it. The server decides when the
    session ends; the cookie only lasts as long as a session can.
    """
    response.set_cookie(
        COOKIE, secret, max_age=LONGEST_SECONDS, path="/", httponly=True, samesite="strict", secure=secure
    )


def clear_session_cookie(response: Response, *, secure: bool) -> None:
    """Make a browser forget the cookie."""
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict", secure=secure)
