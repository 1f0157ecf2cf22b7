"""`prowess mcp`: serve tools and skills to MCP clients, or set one up to use them."""

from __future__ import annotations

import os
import secrets
import sys
import uuid
from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.opening import chosen_workspace, with_engine

if TYPE_CHECKING:
    from prowess.build.opening import Prowess
    from prowess.interfaces.mcp.caller import Caller

CLIENTS = ("claude-code", "codex", "cursor", "vscode")


@click.command("mcp")
@click.option("--http", is_flag=True, help="Serve over HTTP instead of stdin and stdout.")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="The address to listen on (default: 127.0.0.1).")
@click.option("--port", type=click.IntRange(0, 65535), default=7717, metavar="N", help="The port (default: 7717).")
@click.option("--allow-host", "names", multiple=True, metavar="NAME", help="A name it is also served under.")
@click.option("--make-token", is_flag=True, help="Make the token that HTTP clients need, and say where it lies.")
@click.option("--conversation", default="", metavar="ID", help="The conversation that skills are enabled for.")
@click.option("--role", default="", metavar="NAME", help="The role of the agent that calls.")
@click.option("--install", "client", type=click.Choice(CLIENTS), help="Print the configuration for this client.")
@click.option("--write", is_flag=True, help="With --install: write it into the client's configuration.")
@click.option("--workspace", "-w", metavar="DIR", help="The folder whose skills come first.")
def command(
    http: bool,
    host: str,
    port: int,
    names: tuple[str, ...],
    make_token: bool,
    conversation: str,
    role: str,
    client: str | None,
    write: bool,
    workspace: str | None,
) -> None:
    """Serve the skills to agents over MCP: on stdin and stdout, or with --http on a port of this machine.

    HTTP clients need the token that lies in PROWESS_HOME/token; it is made at the first start.
    """
    if client:
        _install(client, workspace, write=write)
        return
    if write:
        raise click.UsageError("--write goes with --install.")
    _check_extra()
    if make_token:
        _make_token()
    elif http:
        _serve_http(host, port, names, conversation, role, workspace)
    else:
        _serve_stdio(conversation, role, workspace)


def _check_extra() -> None:
    from importlib.util import find_spec

    from prowess.errors import Unavailable

    if find_spec("mcp") is None or find_spec("uvicorn") is None:
        raise Unavailable("The MCP server is not installed.", hint="Install it: pip install 'prowess[mcp]'")


async def _caller(prowess: Prowess, role: str, conversation: str) -> Caller:
    """The agent of whoever opened the engine, who sits before the client; `NotFound` for a role that there is not."""
    from prowess.interfaces.mcp.caller import Caller
    from prowess.policy.actor import agent_of
    from prowess.policy.roles import role_of

    if role:
        role_of(role, await prowess.policy())
    return Caller(actor=agent_of(prowess.actor, role=role), person=prowess.actor, conversation=conversation)


def _serve_stdio(conversation: str, role: str, workspace: str | None) -> None:
    from prowess.interfaces.mcp.server import make_server, security_of
    from prowess.interfaces.mcp.stdio import serve_stdio

    async def serve(prowess: Prowess) -> int:
        caller = await _caller(prowess, role, conversation or f"mcp:{uuid.uuid4()}")
        # The client that was asked is the one that answers, and to this process: nobody else needs the key.
        server = make_server(prowess, caller, security=security_of([secrets.token_bytes(32)], caller))
        code = await serve_stdio(server)
        if not conversation:
            await server.door.leave(caller, caller.conversation)
        return code

    code = with_engine(workspace, serve)
    raise click.exceptions.Exit(code)


def _make_token() -> None:
    from prowess.interfaces.cli.printing import shown_path
    from prowess.interfaces.mcp.secret import TOKEN, kept_secret
    from prowess.settings import read_settings

    path = read_settings().home / TOKEN
    kept_secret(path)
    click.echo(f"The token lies in {shown_path(path)}.")


def _serve_http(
    host: str, port: int, names: tuple[str, ...], conversation: str, role: str, workspace: str | None
) -> None:
    from prowess.errors import Refused
    from prowess.interfaces.cli.printing import shown_path
    from prowess.interfaces.mcp.guard import LOOPBACK
    from prowess.interfaces.mcp.http import PATH, asgi_app, holder_of, is_loopback, listening, serve_http
    from prowess.interfaces.mcp.secret import STATE_KEY, TOKEN, kept_secret, read_secret
    from prowess.settings import read_settings

    home = read_settings(workspace=chosen_workspace(workspace)).home
    if not is_loopback(host) and read_secret(home / TOKEN) is None:
        raise Refused(
            f"Listening on {host} lets others reach this server, and there is no token yet.",
            hint="Make one first: prowess mcp --make-token",
        )
    token, key = kept_secret(home / TOKEN), kept_secret(home / STATE_KEY)
    shown = f"[{host}]" if ":" in host else host

    async def serve(prowess: Prowess) -> int:
        listener = listening(host, port)
        app = asgi_app(
            prowess,
            callers=holder_of(token, await _caller(prowess, role, conversation)),
            keys=[key.encode()],
            hosts={*LOOPBACK, shown, *names},
        )
        address = f"http://{shown}:{listener.getsockname()[1]}{PATH}"
        told = f"Serving MCP at {address}. The token lies in {shown_path(home / TOKEN)}."
        return await serve_http(app, listener, ready=lambda: click.echo(told, err=True))

    code = with_engine(workspace, serve)
    raise click.exceptions.Exit(code)


def _install(client: str, workspace: str | None, *, write: bool) -> None:
    from prowess.interfaces.cli.printing import shown_path
    from prowess.interfaces.mcp.install import plan, write_plan
    from prowess.settings import read_settings

    settings = read_settings(workspace=chosen_workspace(workspace))
    change = plan(client, settings.workspace, settings.user_home, os.environ, python=sys.executable)
    if write:
        click.echo(f"{write_plan(change)} {shown_path(change.path)}")
        return
    click.echo(f"Put this into {shown_path(change.path)}, or run the command again with --write:", err=True)
    click.echo(change.snippet)
