"""`prowess --server URL`: which commands run against a server, and how they reach it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from prowess.errors import NotFound
from prowess.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from prowess.client import Client
    from prowess.match.matcher import Matcher
    from prowess.match.recommendation import Recommendation
    from prowess.open import Prowess

SERVER_COMMANDS = frozenset(
    {
        "list", "show", "match", "search", "why", "enable", "disable", "prompt", "load", "sessions", "approvals", "run",
        "traces", "stats", "events", "policy", "switch", "import", "export", "history", "diff", "rollback", "delete",
        "audit", "index", "token", "user", "org", "registry", "jobs", "source", "chat",
        "conversations",
    }
)  # fmt: skip
"""Commands that run against a server."""

LOCAL_COMMANDS = frozenset(
    {
        "init", "new", "validate", "lint", "eval", "decide", "pages", "model", "mcp", "serve", "doctor", "plugins",
        "completion", "sync", "add", "update", "outdated", "verify", "remove", "worker",
        "spawn",
    }
)  # fmt: skip
"""Commands about files, programs or servers of this machine. PROWESS_SERVER does not concern them."""

_KEY = "prowess.server"
_IGNORED_BY = "prowess.server-ignored-by"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The server that a command runs against. `named` is True if the command line names it, and not the environment."""

    url: str
    token_file: Path | None = None
    named: bool = True


def choose_server(ctx: click.Context, url: str, token_file: Path | None) -> None:
    """Remember the server for the command that follows. Fail if that command cannot run against one."""
    named = ctx.get_parameter_source("server") is not click.core.ParameterSource.ENVIRONMENT
    command = ctx.invoked_subcommand or ""
    if not url:
        return
    if command in LOCAL_COMMANDS and not named:
        ctx.meta[_IGNORED_BY] = command
        return
    if command in LOCAL_COMMANDS:
        instead = f" Agents connect to {url.rstrip('/')}/mcp, with a token." if command == "mcp" else ""
        ctx.fail(f"`prowess {command}` works only on this machine. Leave out --server.{instead}")
    if command and command not in SERVER_COMMANDS:
        away = "leave out --server" if named else "unset PROWESS_SERVER"
        ctx.fail(
            f"`prowess {command}` cannot run against a server. Run it on the machine of the server, or {away} to use "
            "the skills of this machine."
        )
    ctx.meta[_KEY] = ServerOptions(url=url, token_file=token_file, named=named)


def chosen_server() -> ServerOptions | None:
    """Return the server that this command runs against; None for the skills of this machine."""
    context = click.get_current_context(silent=True)
    return context.meta.get(_KEY) if context else None


def mention_ignored_server(ctx: click.Context, error: Exception) -> None:
    """Add to the hint of an error that the command did not look on the server of PROWESS_SERVER."""
    command = ctx.meta.get(_IGNORED_BY)
    if command and isinstance(error, NotFound):
        error.hint = f"{error.hint} `prowess {command}` looks on this machine, not on PROWESS_SERVER.".lstrip()


def require_this_machine(command: str, instead: str) -> None:
    """Fail if a subcommand, which works on this machine only, is to run against a server. `instead` says what to do."""
    if chosen_server() is not None:
        raise click.UsageError(f"`prowess {command}` cannot run against a server. {instead}")


@asynccontextmanager
async def open_client(server: ServerOptions) -> AsyncGenerator[Prowess]:
    """Yield a client of the server. It has the shape of the engine, so commands need not know the difference."""
    from prowess.client.client import AsyncClient

    async with AsyncClient(server.url, token_file=server.token_file) as client:
        yield cast("Prowess", client)


@contextmanager
def open_server_matcher(server: ServerOptions) -> Generator[Matcher]:
    """Yield what `match` and `search` need of a matcher, answered by the server."""
    from prowess.client.blocking import Client

    with Client(server.url, token_file=server.token_file) as client:
        yield cast("Matcher", _ServerMatcher(client))


class _ServerMatcher:
    """The matcher of a server, as far as commands use one."""

    away: Sequence[str] = ()
    """Sources that could not be read. A server reports them to its operator."""
    missing = 0
    size = 0

    def __init__(self, client: Client) -> None:
        self._client = client

    def index(self) -> _ServerMatcher:
        """Return how many skills have no vectors yet: none that a client should know about."""
        return self

    def match(
        self, message: str, *, limit: int, tags: Sequence[str] = (), context: str = ""
    ) -> Sequence[Recommendation]:
        """Return the skills that match a message."""
        return self._client.match(message, limit=limit, tags=tags, context=context)

    def rank(
        self, message: str, *, limit: int, tags: Sequence[str] = (), context: str = ""
    ) -> Sequence[Recommendation]:
        """Return the whole ranking of a message; nothing for a blank one, which a server refuses."""
        if not message.strip():
            return ()
        return self._client.skills.rank(message, limit=limit, tags=tags, context=context)

    def search(self, query: str = "", *, limit: int, tags: Sequence[str] = ()) -> Sequence[Recommendation]:
        """Return the skills that match a search query."""
        return self._client.skills.search(query, limit=limit, tags=tags)
