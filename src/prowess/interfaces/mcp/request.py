"""The sender of an MCP request, and the conversation that it belongs to."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from mcp.server.context import ServerRequestContext

from prowess.errors import Invalid
from prowess.interfaces.auth.caller import SCOPE_KEY, Caller, agent_name

Context = ServerRequestContext[Any, Any]

CONVERSATION_META = "prowess/conversation"
"""The key in `_meta` with which a client without a session names the conversation of a request."""

_MAX_CONVERSATION_CHARS = 200
_MAX_CLIENT_CHARS = 200
_MAX_SESSION_CHARS = _MAX_CONVERSATION_CHARS - len("mcp:")


def caller_of(context: Context, default: Caller) -> Caller:
    """Return the caller that the HTTP guard authenticated, or the default on a transport without one."""
    request = context.request
    caller: Caller = default if request is None else request.scope[SCOPE_KEY]
    client = context.session.client_params
    # Cut, because the names of clients are kept.
    return _name_caller(caller, "" if client is None else client.client_info.name[:_MAX_CLIENT_CHARS])


@lru_cache(maxsize=256)
def _name_caller(caller: Caller, client: str) -> Caller:
    """Return the caller with its client as the channel, and named after it where it has no name of its own.

    Cached: every request of a client asks for the same one.
    """
    channel = f"mcp:{agent_name(client, 'unknown')}"
    name = agent_name(client, caller.actor.name) if caller.named_by_client else caller.actor.name
    return replace(
        caller,
        actor=replace(caller.actor, name=name, channel=channel),
        person=replace(caller.person, channel=channel) if caller.person else None,
    )


def conversation_of(context: Context, caller: Caller) -> str:
    """Return the conversation of a request: the one it names, else that of its connection, else the caller's own.

    Raise `Invalid` for a name that cannot be used. Falling back to another conversation would mix up two of them.
    """
    name: object = (context.meta or {}).get(CONVERSATION_META)
    if name is not None and name != "":
        return _check_conversation(name)
    return session_conversation(context) or caller.conversation or f"mcp:{caller.actor.label}"


def _check_conversation(name: object) -> str:
    if not isinstance(name, str) or len(name) > _MAX_CONVERSATION_CHARS or not name.isprintable():
        raise Invalid(
            f"Invalid conversation name in _meta[{CONVERSATION_META!r}].",
            hint=f"Use at most {_MAX_CONVERSATION_CHARS} printable characters.",
        )
    return name


def session_conversation(context: Context) -> str:
    """Return the conversation of the HTTP session of a request, or '' if it has no session."""
    session = context.request.headers.get("mcp-session-id") if context.request is not None else None
    return f"mcp:{session[:_MAX_SESSION_CHARS]}" if session else ""
