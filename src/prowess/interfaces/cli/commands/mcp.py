"""`prowess mcp`: serve tools and skills to MCP clients, or set one up to use them."""

from __future__ import annotations

import os
import secrets
import sys
import uuid
from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.engine import choose_workspace, with_engine

if TYPE_CHECKING:
    from prowess.interfaces.auth.caller import Caller
    from prowess.open import Prowess

CLIENTS = ("claude-code", "codex", "cursor", "vscode")


@click.command("mcp")
@click.option("--http", is_flag=True, help="Serve over HTTP instead of stdin and stdout.")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="The address to listen on (default: 127.0.0.1).")
@click.option("--port", type=click.IntRange(0, 65535), default=7717, metavar="N", help="The port (default: 7717).")
@click.option("--allow-host", "names", multiple=True, metavar="NAME", help="A name it is also served under.")
@click.option("--make-token", is_flag=True, help="Make the token that HTTP clients need, and say where it lies.")
@click.option("--conversation", default="", metavar="ID", help="The conversation that skills are enabled for.")
@click.option("--role", default="", metavar="NAME", help="The role of the agent that calls.")
@click.option("--agent", default="", metavar="NAME", help="The name of the agent (default: that of the client).")
@click.option("--install", "client", type=click.Choice(CLIENTS), help="Print the configuration for this client.")
@click.option("--write", is_flag=True, help="With --install: write it into the client's configuration.")
@click.option("--workspace", "-w", metavar="DIR", help="The folder whose skills come first.")
def mcp_command(
    http: bool,
    host: str,
    port: int,
    names: tuple[str, ...],
    make_token: bool,
    conversation: str,
    role: str,
    agent: str,
    client: str | None,
    write: bool,
    workspace: str | None,
) -> None:
    """Serve the skills to agents over MCP: on stdin and stdout, or with --http on a port of this machine.

    HTTP clients need the token that lies in PROWESS_HOME/token; it is made at the first start.
    """
    if client:
        if http or make_token:
            raise click.UsageError("--install sets up a server on stdin and stdout, without --http and --make-token.")
        _install_client(
            client, workspace, {"--role": role, "--conversation": conversation, "--agent": agent}, write=write
        )
        return
    if write:
        raise click.UsageError("--write goes with --install.")
    _require_extra()
    if make_token:
        _create_token()
    elif http:
        _serve_http(host, port, names, conversation, role, agent, workspace)
    else:
        _serve_stdio(conversation, role, agent, workspace)


def _require_extra() -> None:
    from importlib.util import find_spec

    from prowess.errors import Unavailable

    if find_spec("mcp") is None or find_spec("uvicorn") is None:
        raise Unavailable("The MCP server is not installed.", hint="Install it: pip install 'prowess[mcp]'")


async def _local_caller(prowess: Prowess, role: str, agent: str, conversation: str) -> Caller:
    """Return the caller for clients on this machine: an agent that acts for the person who opened the engine.

    Without `agent`, the agent is named after its client. Raise `NotFound` if the role does not exist.
    """
    from prowess.interfaces.auth.caller import Caller
    from prowess.policy.actor import agent_of
    from prowess.policy.roles import find_role

    if role:
        find_role(role, await prowess.policy.get())
    return Caller(
        actor=agent_of(prowess.actor, name=agent or "agent", role=role),
        person=prowess.actor,
        conversation=conversation,
        named_by_client=not agent,
    )


def _serve_stdio(conversation: str, role: str, agent: str, workspace: str | None) -> None:
    from prowess.interfaces.mcp.server import make_security, make_server
    from prowess.interfaces.mcp.stdio import serve_stdio

    async def serve(prowess: Prowess) -> int:
        caller = await _local_caller(prowess, role, agent, conversation or f"mcp:{uuid.uuid4()}")
        # A random key is enough: on stdio the answer to a question comes back to this process, so no other process
        # has to unseal the request state.
        server = make_server(prowess, caller, security=make_security([secrets.token_bytes(32)], caller))
        code = await serve_stdio(server)
        if not conversation:
            # The generated conversation id is used by this process only, so its session would never be closed.
            await server.backend.leave(caller, caller.conversation)
        return code

    code = with_engine(workspace, serve)
    raise click.exceptions.Exit(code)


def _create_token() -> None:
    from prowess.interfaces.auth.secret_file import TOKEN_FILE, load_or_create_secret
    from prowess.interfaces.cli.output import escape_path
    from prowess.settings import read_settings

    path = read_settings().home / TOKEN_FILE
    load_or_create_secret(path)
    click.echo(f"The token lies in {escape_path(path)}.")


def _serve_http(
    host: str, port: int, names: tuple[str, ...], conversation: str, role: str, agent: str, workspace: str | None
) -> None:
    from prowess.errors import Refused
    from prowess.interfaces.auth.guard import LOOPBACK_HOSTS, is_loopback, single_token
    from prowess.interfaces.auth.secret_file import STATE_KEY_FILE, TOKEN_FILE, load_or_create_secret, read_secret
    from prowess.interfaces.cli.output import escape_path
    from prowess.interfaces.mcp.http import (
        DEFAULT_PATH,
        asgi_app,
        open_listener,
        serve_http,
    )
    from prowess.settings import read_settings

    home = read_settings(workspace=choose_workspace(workspace)).home
    if not is_loopback(host) and read_secret(home / TOKEN_FILE) is None:
        raise Refused(
            f"Listening on {host} lets others reach this server, and there is no token yet.",
            hint="Make one first: prowess mcp --make-token",
        )
    token, key = load_or_create_secret(home / TOKEN_FILE), load_or_create_secret(home / STATE_KEY_FILE)
    shown = f"[{host}]" if ":" in host else host

    async def serve(prowess: Prowess) -> int:
        listener = open_listener(host, port)
        app = asgi_app(
            prowess,
            callers=single_token(token, await _local_caller(prowess, role, agent, conversation)),
            keys=[key.encode()],
            hosts={*LOOPBACK_HOSTS, shown, *names},
        )
        address = f"http://{shown}:{listener.getsockname()[1]}{DEFAULT_PATH}"
        told = f"Serving MCP at {address}. The token lies in {escape_path(home / TOKEN_FILE)}."
        return await serve_http(app, listener, ready=lambda: click.echo(told, err=True))

    code = with_engine(workspace, serve)
    raise click.exceptions.Exit(code)


def _install_client(client: str, workspace: str | None, given: dict[str, str], *, write: bool) -> None:
    """Print the client's configuration entry, or write it to the client's file.

    The entry starts the server with the options given here. Raise `Invalid` if the name of the agent or role is not
    allowed.
    """
    from prowess.interfaces.cli.output import escape_path
    from prowess.interfaces.mcp.client_config import ENTRY_NAME, find_program, plan_change, write_change
    from prowess.policy.actor import agent_of, local_person
    from prowess.settings import read_settings

    # Called only for its checks: an invalid name should fail now, not when the client starts the server.
    agent_of(local_person("nobody"), name=given["--agent"] or "agent", role=given["--role"])
    chosen = choose_workspace(workspace)
    settings = read_settings(workspace=chosen)
    if chosen is not None:
        given = {**given, "--workspace": str(settings.workspace)}
    program = find_program(sys.argv[0], sys.executable)
    change = plan_change(
        client,
        settings.workspace,
        settings.user_home,
        os.environ,
        program=program,
        options=[word for option, value in given.items() if value for word in (option, value)],
        # The client may start the server without the variables of this shell.
        variables={"PROWESS_HOME": str(settings.home)} if os.environ.get("PROWESS_HOME") else {},
    )
    if program != [ENTRY_NAME]:
        click.echo(
            f"Clients may not find {ENTRY_NAME} by its name: the entry starts {escape_path(program[0])}.", err=True
        )
    if write:
        click.echo(f"{write_change(change)} {escape_path(change.path)}")
        return
    click.echo(f"Put this into {escape_path(change.path)}, or run the command again with --write:", err=True)
    click.echo(change.snippet)
