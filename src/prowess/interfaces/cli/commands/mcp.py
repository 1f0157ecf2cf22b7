"""`prowess mcp`: serve tools and skills to MCP clients, or set one up to use them."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
import uuid
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import click

from prowess.errors import Invalid, Refused, Unavailable
from prowess.interfaces.cli.engine import Cli, workspace_option
from prowess.interfaces.cli.options import Number, allow_host_option, command, host_option, port_option
from prowess.interfaces.cli.output import escape_path, one_line
from prowess.policy.actor import agent_of, local_person
from prowess.settings import read_settings
from prowess.storage.secret_file import STATE_KEY_FILE, TOKEN_FILE, find_secret, load_or_create_secret, read_secret

if TYPE_CHECKING:
    from pathlib import Path

    from prowess.interfaces.auth.caller import Caller
    from prowess.open import Prowess

CLIENTS = ("claude-code", "codex", "cursor", "vscode")

_WAITING = """\
Waiting for an MCP client on stdin. Clients start this command themselves, so you need not run it here.
To set up a client, run:  prowess mcp --install claude-code --write   (or codex, cursor, vscode)
To serve over HTTP, run:  prowess mcp --http
Press Ctrl+C to stop."""


@command(
    "mcp",
    "prowess mcp --install claude-code",
    "prowess mcp --install cursor --write",
    "prowess mcp --uninstall cursor --write",
    "prowess mcp --http --port 7717",
)
@click.option("--http", is_flag=True, help="Serve over HTTP instead of stdin and stdout.")
@host_option
@port_option(7717)
@allow_host_option
@click.option("--make-token", is_flag=True, help="Create the token that HTTP clients need, and print its path.")
@click.option("--conversation", default="", metavar="ID", help="Conversation in which skills are enabled.")
@click.option("--role", default="", metavar="NAME", help="Role of the calling agent.")
@click.option(
    "--agent", default="", metavar="NAME", help="Name of the calling agent (default: the name of its client)."
)
@click.option(
    "--approvals-by",
    "approvers",
    multiple=True,
    metavar="CLIENT",
    help="Client that shows approval forms to a person (repeatable). Over HTTP it gets its own token.",
)
@click.option(
    "--wait",
    "approval_seconds",
    type=Number(0, 3600),
    metavar="SECONDS",
    help="How long a call waits for a person to approve it (default: 50). With 0 it is refused at once.",
)
@click.option("--install", "client", type=click.Choice(CLIENTS), help="Print the configuration entry for this client.")
@click.option("--uninstall", "removed", type=click.Choice(CLIENTS), help="Show what this would remove from a client.")
@click.option("--write", is_flag=True, help="Write the entry to the client's configuration file, or remove it there.")
@workspace_option
def mcp_command(
    http: bool,
    host: str,
    port: int,
    names: tuple[str, ...],
    make_token: bool,
    conversation: str,
    role: str,
    agent: str,
    approvers: tuple[str, ...],
    approval_seconds: float | None,
    client: str | None,
    removed: str | None,
    write: bool,
    cli: Cli,
) -> None:
    """Serve skills to agents over MCP, on stdin and stdout, or over HTTP with --http.

    HTTP clients need the token in PROWESS_HOME/token, which is created at the first start. A call that needs approval waits
    until a person answers at a terminal, or in a client named with --approvals-by.
    """
    approvers = tuple(_check_client(name) for name in approvers)
    if (client or removed) and (http or make_token):
        raise click.UsageError(
            f"--{'install' if client else 'uninstall'} configures a server on stdin and stdout. It cannot be combined "
            "with --http or --make-token."
        )
    if client and removed:
        raise click.UsageError("--install cannot be combined with --uninstall.")
    if removed:
        _uninstall_client(removed, cli, write=write)
        return
    if client:
        options = [("--role", role), ("--conversation", conversation), ("--agent", agent)]
        options += [] if approval_seconds is None else [("--wait", f"{approval_seconds:g}")]
        options += [("--approvals-by", name) for name in approvers]
        _install_client(client, cli, options, write=write)
        return
    if write:
        raise click.UsageError("--write requires --install or --uninstall.")
    _require_extra()
    caller = _Agent(role, agent, conversation, approval_seconds)
    if make_token:
        _create_tokens(approvers)
    elif http:
        _serve_http(host, port, names, caller, approvers, cli)
    else:
        _serve_stdio(caller, approvers, cli)


class _Agent(NamedTuple):
    """The options about the agent that calls."""

    role: str
    name: str
    conversation: str
    approval_seconds: float | None


def _check_client(name: str) -> str:
    """Return the name of a client as its requests are compared with it. Raise `Invalid` if no client can have it."""
    from prowess.interfaces.auth.caller import agent_name

    plain = agent_name(name, "")
    if not plain:
        raise Invalid(f"Invalid client name {name[:80]!r}.", hint="Use the name that the client reports.")
    return plain


def _require_extra() -> None:
    if any(find_spec(name) is None for name in ("httptools", "mcp", "uvicorn")):
        raise Unavailable("The MCP server is not installed.", hint="Install it: pip install 'prowess[mcp]'")


async def _local_caller(prowess: Prowess, agent: _Agent, approvers: tuple[str, ...] = ()) -> Caller:
    """Return the caller for clients on this machine: an agent that acts for the person who opened the engine.

    Without a name, the agent is named after its client. `approvers` are the clients in which that person answers. Raise
    `NotFound` if the role does not exist.
    """
    from prowess.interfaces.auth.caller import Caller
    from prowess.policy.actor import agent_of
    from prowess.policy.roles import find_role

    if agent.role:
        find_role(agent.role, await prowess.policy.get())
    return Caller(
        actor=agent_of(prowess.actor, name=agent.name or "agent", role=agent.role),
        person=prowess.actor if approvers else None,
        approvals_by=approvers,
        conversation=agent.conversation,
        named_by_client=not agent.name,
    )


def _serve_stdio(agent: _Agent, approvers: tuple[str, ...], cli: Cli) -> None:
    from prowess.interfaces.mcp.sdk_import import import_sdk

    import_sdk()
    from prowess.interfaces.mcp.server import APPROVAL_SECONDS, make_security, make_server
    from prowess.interfaces.mcp.stdio import serve_stdio

    cache = _make_cache(read_settings(workspace=cli.workspace).home)

    async def serve(prowess: Prowess) -> int:
        named = agent._replace(conversation=agent.conversation or f"mcp:{uuid.uuid4()}")
        caller = await _local_caller(prowess, named, approvers)
        # A random key is enough: on stdio the answer to a question comes back to this process, so no other process
        # has to unseal the request state.
        security = make_security([secrets.token_bytes(32)], caller)
        server = make_server(
            prowess,
            caller,
            security=security,
            cache=cache,
            approval_seconds=APPROVAL_SECONDS if agent.approval_seconds is None else agent.approval_seconds,
        )
        if sys.stdin.isatty():
            click.echo(_WAITING, err=True)
        code = await serve_stdio(server)
        if not agent.conversation:
            # The generated conversation id is used by this process only, so its session would never be closed. The person
            # closes it, because it belongs to the agent under the name that its client has given.
            await server.backend.leave(replace(caller, actor=prowess.actor), caller.conversation)
        return code

    code = cli.call(serve, channel="mcp")
    raise click.exceptions.Exit(code)


def _make_cache(home: Path) -> Path:
    """Return the folder for what the server remembers between two starts; create the home folder if there is none.

    Clients start the server every day. With a home folder, neither the skills nor their listing are read again.
    """
    with suppress(OSError):  # a read-only home: the server works without a cache
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    return home / "cache" / "mcp"


def _token_files(home: Path, approvers: tuple[str, ...]) -> dict[Path, tuple[str, ...]]:
    """Return the token files, each with the clients in which a person can answer approval requests.

    The token of agents never approves anything. Over HTTP a client chooses its name itself, so each client in which a person
    answers has its own token.
    """
    from urllib.parse import quote

    files: dict[Path, tuple[str, ...]] = {home / TOKEN_FILE: ()}
    return files | {home / f"{TOKEN_FILE}-{quote(name, safe='')}": (name,) for name in approvers}


def _create_tokens(approvers: tuple[str, ...]) -> None:
    for path, names in _token_files(read_settings().home, approvers).items():
        load_or_create_secret(path)
        whose = f"The token of {names[0]}" if names else "The token"
        click.echo(f"{whose} is in {escape_path(path)}.")


def _serve_http(
    host: str, port: int, names: tuple[str, ...], agent: _Agent, approvers: tuple[str, ...], cli: Cli
) -> None:
    from prowess.interfaces.auth.browser import LOOPBACK_HOSTS
    from prowess.interfaces.auth.guard import known_tokens
    from prowess.net.addresses import is_loopback

    settings = read_settings(workspace=cli.workspace)
    home = settings.home
    if not is_loopback(host) and read_secret(home / TOKEN_FILE) is None:
        raise Refused(
            f"Listening on {host} exposes this server to other machines, and no token exists yet.",
            hint="Create one first: prowess mcp --make-token",
        )
    key = find_secret(home / STATE_KEY_FILE, settings.secret_key)
    files = _token_files(home, approvers)
    tokens = {load_or_create_secret(path): allowed for path, allowed in files.items()}
    shown = f"[{host}]" if ":" in host else host
    # Imported after the checks: a refusal should not take as long as a start.
    from prowess.interfaces.listener import open_listener, serve_http
    from prowess.interfaces.mcp.http import DEFAULT_PATH, asgi_app
    from prowess.interfaces.mcp.server import APPROVAL_SECONDS

    async def serve(prowess: Prowess) -> int:
        listener = open_listener(host, port)
        app = asgi_app(
            prowess,
            callers=known_tokens(
                {token: await _local_caller(prowess, agent, allowed) for token, allowed in tokens.items()}
            ),
            keys=[key.encode()],
            hosts={*LOOPBACK_HOSTS, shown, *names},
            cache=_make_cache(home),
            approval_seconds=APPROVAL_SECONDS if agent.approval_seconds is None else agent.approval_seconds,
        )
        address = f"http://{shown}:{listener.getsockname()[1]}{DEFAULT_PATH}"
        message = f"Serving MCP at {address}. The token is in {escape_path(home / TOKEN_FILE)}."
        for path, allowed in files.items():
            message += f"\nThe token of {allowed[0]} is in {escape_path(path)}." if allowed else ""
        return await serve_http(app, listener, ready=lambda: click.echo(message, err=True))

    code = cli.call(serve, channel="mcp")
    raise click.exceptions.Exit(code)


def _install_client(client: str, cli: Cli, options: list[tuple[str, str]], *, write: bool) -> None:
    """Print the client's configuration entry, or write it to the client's file.

    The entry starts the server with the options given here. Raise `Invalid` if the name of the agent or role is not
    allowed.
    """
    from prowess.interfaces.mcp.client_config import ENTRY_NAME, find_program, plan_change, write_change

    # Called only for its checks: an invalid name should fail now, not when the client starts the server.
    values = dict(options)
    agent_of(local_person("nobody"), name=values["--agent"] or "agent", role=values["--role"])
    settings = read_settings(workspace=cli.workspace)
    if cli.workspace is not None:
        options = [*options, ("--workspace", str(settings.workspace))]
    program = find_program(sys.argv[0], sys.executable)
    change = plan_change(
        client,
        settings.workspace,
        settings.user_home,
        os.environ,
        program=program,
        options=[word for option, value in options if value for word in (option, value)],
        # The client may start the server without the variables of this shell.
        variables={"PROWESS_HOME": str(settings.home)} if os.environ.get("PROWESS_HOME") else {},
    )
    try:
        _require_extra()
    except Unavailable as error:
        click.echo(f"The client cannot start the server yet: {error.message} {error.hint}", err=True)
    if os.environ.get("PROWESS_SERVER"):
        click.echo(
            "The entry serves the skills of this machine, not those of PROWESS_SERVER. Add a server to the client "
            "by its address with /mcp at the end, and a token in the header Authorization.",
            err=True,
        )
    if program != [ENTRY_NAME]:
        click.echo(
            f"{ENTRY_NAME} may not be on the PATH of the client, so the entry uses {escape_path(program[0])}.", err=True
        )
    if write:
        click.echo(f"{write_change(change)} {escape_path(change.path)}")
        return
    click.echo(f"Add this to {escape_path(change.path)}, or run the command again with --write:", err=True)
    click.echo(change.snippet)


def _uninstall_client(client: str, cli: Cli, *, write: bool) -> None:
    """Say what the client's configuration entry starts, or remove it. Its options do not matter."""
    from prowess.interfaces.mcp.client_config import ENTRY_NAME, find_command, plan_change, remove_entry

    settings = read_settings(workspace=cli.workspace)
    change = plan_change(client, settings.workspace, settings.user_home, os.environ, program=[ENTRY_NAME])
    shown = escape_path(change.path)
    if write:
        click.echo(f"{remove_entry(change)} {shown}")
    elif found := find_command(change):
        click.echo(f"The entry {ENTRY_NAME!r} in {shown} starts: {one_line(shlex.join(found), 300)}")
        click.echo("Run the command again with --write to remove it.", err=True)
    else:
        click.echo(f"{shown} has no entry {ENTRY_NAME!r}.")
