"""`prowess serve`: serve the HTTP API and MCP, on this machine or as one of many replicas."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

import click

from prowess.errors import Invalid, ProwessError, Refused, Unavailable
from prowess.interfaces.cli.engine import Cli, workspace_option
from prowess.interfaces.cli.options import allow_host_option, command, host_option, port_option, trust_proxy_option
from prowess.interfaces.cli.output import escape_path
from prowess.settings import Settings, read_settings
from prowess.skill.limits import DEFAULT_LIMITS
from prowess.storage.secret_file import (
    SERVER_TOKEN_FILE,
    STATE_KEY_FILE,
    TOKEN_FILE,
    find_secret,
    read_secret,
    write_secret,
)

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from prowess.interfaces.listener import ServerProcess
    from prowess.open import Prowess

_MAX_OPEN_FILES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """The options of the command, checked."""

    host: str
    port: int
    settings: Settings
    replica: bool
    """True if the database is a server, which other replicas may use as well."""
    hosts: tuple[str, ...]
    origins: tuple[str, ...]
    proxies: tuple[str, ...]
    log: bool
    browser: bool

    def url(self, port: int) -> str:
        """Return the address for people: the public one, or where the server listens on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104  (not bound here)
        return self.settings.public_url or f"http://{f'[{host}]' if ':' in host else host}:{port}"


@command(
    "serve",
    "prowess serve",
    "prowess serve --open",
    "prowess serve --port 8080 --workspace ~/notes",
    "prowess serve --host 0.0.0.0 --public-url https://skills.example.com",
)
@host_option
@port_option(7717)
@click.option(
    "--database", default="", metavar="URL", help="Database (default: PROWESS_DATABASE_URL, or a SQLite file)."
)
@click.option(
    "--public-url",
    default="",
    metavar="URL",
    help="Address in browsers, if the server is behind a proxy (PROWESS_PUBLIC_URL).",
)
@allow_host_option
@click.option(
    "--allow-origin", "origins", multiple=True, metavar="URL", help="Other web page that may call the API (repeatable)."
)
@trust_proxy_option
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    default=1,
    metavar="N",
    help="Number of server processes, one per core (default: 1).",
)
@click.option("--open/--no-open", "browser", default=False, help="Open the sign-in page in a browser.")
@click.option("--log", is_flag=True, help="Print a line of JSON for each request to stdout.")
@workspace_option
def serve_command(
    host: str,
    port: int,
    database: str,
    public_url: str,
    names: tuple[str, ...],
    origins: tuple[str, ...],
    proxies: tuple[str, ...],
    processes: int,
    browser: bool,
    log: bool,
    cli: Cli,
) -> None:
    """Serve the HTTP API under /api/v1 and MCP at /mcp.

    The first start creates two tokens in PROWESS_HOME: `server-token` for you, `token` for your agents. With PostgreSQL,
    any number of servers can share the database: create tokens with `prowess token create`, and give all servers the same
    PROWESS_SECRET_KEY. They read no skill folders unless --workspace names one.
    """
    _require_extra()
    from prowess.interfaces.auth.browser import check_host, check_network, check_origin
    from prowess.storage.database_url import sqlite_path

    environment = dict(os.environ)
    if database:
        environment["PROWESS_DATABASE_URL"] = database
    if public_url := public_url or environment.get("PROWESS_PUBLIC_URL", "").strip():
        environment["PROWESS_PUBLIC_URL"] = check_origin(public_url, "--public-url")
    url = environment.get("PROWESS_DATABASE_URL", "")
    replica = bool(url) and not sqlite_path(url)
    if replica:
        # A database that is away may come back, and requests wait for it. A wrong URL stays wrong.
        from prowess.storage.postgres import parse_url

        parse_url(url)
    if replica and cli.workspace is None:
        environment.setdefault("PROWESS_SKILL_FOLDERS", "off")
    options = _Options(
        host=host,
        port=port,
        settings=read_settings(environment, workspace=cli.workspace),
        replica=replica,
        hosts=tuple(check_host(name) for name in names),
        origins=tuple(check_origin(origin, "--allow-origin") for origin in origins),
        proxies=tuple(check_network(address) for address in proxies),
        log=log,
        browser=browser,
    )
    keys = [_state_key(options)]
    listener, process = None, None
    if processes > 1:
        from prowess.interfaces.listener import open_listener, start_processes

        import_module("prowess.interfaces.server")  # here, and not in each process
        listener = open_listener(host, port)
        process = start_processes(processes)
        if isinstance(process, int):
            raise click.exceptions.Exit(process)
    code = cli.call(
        lambda prowess: _serve(prowess, options, keys, listener, process),
        channel="http",
        settings=options.settings,
    )
    raise click.exceptions.Exit(code)


def _require_extra() -> None:
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in ("fastapi", "httptools", "mcp", "orjson", "sse_starlette", "uvicorn")):
        raise Unavailable("The server is not installed.", hint="Install it: pip install 'prowess[server]'")


def _state_key(options: _Options) -> bytes:
    """Return the key that seals what clients bring back: that of this machine, or one that all replicas derive alike."""
    if options.replica and not options.settings.secret_key:
        raise Invalid(
            "PROWESS_SECRET_KEY is not set. Servers that share a database need the same key.",
            hint="Create one with `openssl rand -hex 32`, and keep it with your other secrets.",
        )
    return find_secret(options.settings.home / STATE_KEY_FILE, options.settings.secret_key).encode()


async def _serve(
    prowess: Prowess,
    options: _Options,
    keys: list[bytes],
    listener: socket.socket | None,
    process: ServerProcess | None,
) -> int:
    from prowess.interfaces.auth.oidc import make_provider
    from prowess.interfaces.auth.tokens import ensure_local_tokens, find_callers
    from prowess.net.addresses import is_loopback

    settings = options.settings
    provider = make_provider(settings)
    if not is_loopback(options.host):
        await _check_tokens(prowess, options)
    local = None if options.replica else ensure_local_tokens(settings.home, prowess)
    # Imported after the checks: a refusal should not take as long as a start.
    import asyncio

    from prowess.interfaces.auth.browser import LOOPBACK_HOSTS
    from prowess.interfaces.auth.limits import REQUESTS_PER_MINUTE, RateLimits
    from prowess.interfaces.auth.tokens import find_session_callers
    from prowess.interfaces.listener import open_listener, serve_http
    from prowess.interfaces.server import make_app

    listener = listener or open_listener(options.host, options.port)
    _raise_file_limit()
    app = make_app(
        prowess,
        callers=find_callers(prowess, local),
        cookies=find_session_callers(prowess),
        provider=provider,
        keys=keys,
        hosts={*LOOPBACK_HOSTS, *options.hosts, *({options.host} if ":" not in options.host else ())},
        origins=options.origins,
        public_url=settings.public_url,
        rates=RateLimits(settings.requests_per_minute or REQUESTS_PER_MINUTE),
        max_upload_bytes=settings.max_archive_bytes or DEFAULT_LIMITS.archive_bytes,
        log=click.echo if options.log else None,
        cache=None if options.replica else settings.home / "cache" / "mcp",
        background=True,
    )
    port = listener.getsockname()[1]
    tasks: list[asyncio.Task[None]] = []

    def ready() -> None:
        if process is not None:
            process.ready()
            if not process.is_first:
                return
        # Not awaited: a code for signing in needs the database, and requests are answered before it is open.
        tasks.append(asyncio.get_running_loop().create_task(_announce(prowess, options, port)))

    try:
        return await serve_http(app, listener, ready=ready, trusted_proxies=options.proxies)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        _link_file(settings).unlink(missing_ok=True)


async def _check_tokens(prowess: Prowess, options: _Options) -> None:
    """Raise `Refused` if other machines could reach the server and nobody could have a token for it."""
    if not options.replica and read_secret(options.settings.home / SERVER_TOKEN_FILE) is not None:
        return
    try:
        tokens = await prowess.tokens.list(everyone=True)
    except Unavailable as error:
        # A replica may start before its database. Without a token nobody is let in.
        click.echo(f"{error.message} The server answers 503 until it can be reached.", err=True)
        return
    if not any(token.state == "active" for token in tokens):
        which = " with the same PROWESS_DATABASE_URL" if options.replica else ""
        raise Refused(
            f"Listening on {options.host} exposes this server to other machines, and no token exists yet.",
            hint=f"Create one first{which}: prowess token create",
        )


async def _announce(prowess: Prowess, options: _Options, port: int) -> None:
    """Print what the server offers, and what to try."""
    from prowess.net.addresses import is_loopback

    url, home = options.url(port), options.settings.home
    rows = [("API", f"{url}/api/v1/docs"), ("MCP", f"{url}/mcp")]
    own = escape_path(home / SERVER_TOKEN_FILE)
    if options.replica:
        rows += [("Tokens", "prowess token create --org ID --user ID"), ("Sign in", f"{url}/sign-in")]
    else:
        rows += [("Tokens", f"{own} (yours), {escape_path(home / TOKEN_FILE)} (for agents)")]
        try:
            link = f"{url}/sign-in#{await prowess.sign_ins.create_code()}"
            rows += [("Sign in", f"{link} (works once, for 10 minutes)")]
            if options.browser:
                _open_browser(options.settings, link)
        except ProwessError as error:
            rows += [("Sign in", f"not possible now: {error.message}")]
    lines = [f"Prowess is running at {url}", "", *(f"  {name:9}{what}" for name, what in rows)]
    if not options.replica:
        lines += ["", "Try:", f'  curl -H "Authorization: Bearer $(cat {own})" "{url}/api/v1/skills?limit=3"']
    if not is_loopback(options.host) and not url.startswith("https:"):
        lines += ["", "Requests are not encrypted. Put a proxy with TLS in front, and pass --public-url."]
    click.echo("\n".join([*lines, "", "Press Ctrl+C to stop."]), err=True)


def _link_file(settings: Settings) -> Path:
    return settings.home / f"sign-in-{os.getpid()}.html"


def _open_browser(settings: Settings, link: str) -> None:
    """Open the sign-in page in the person's browser.

    The link is not an argument of the browser, where every user of the machine could read it, but in a file.
    """
    import webbrowser

    path = _link_file(settings)
    write_secret(path, f'<!doctype html><meta http-equiv="refresh" content="0;url={link}"><a href="{link}">Sign in</a>')
    webbrowser.open(path.as_uri())


def _raise_file_limit() -> None:
    """Allow as many open files as the system lets us: each connection takes one."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_OPEN_FILES)
    if soft < limit:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
