"""The sender of an MCP request, and the conversation that it belongs to."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mcp.server.context import ServerRequestContext

from prowess.errors import Invalid
from prowess.interfaces.auth.caller import SCOPE_KEY, Caller, agent_name
from prowess.net.addresses import is_loopback
from prowess.policy.actor import REMOTE_MCP

if TYPE_CHECKING:
    from starlette.requests import Request

Context = ServerRequestContext[Any, Any]

CONVERSATION_META = "prowess/conversation"
"""The key in `_meta` with which a client without a session names the conversation of a request."""

_PROXY_HEADERS = frozenset(
    {"forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"}
)
_MAX_CONVERSATION_CHARS = 200
_MAX_CLIENT_CHARS = 200
_MAX_SESSION_CHARS = _MAX_CONVERSATION_CHARS - len("mcp:")


def caller_of(context: Context, default: Caller) -> Caller:
    """Return the caller that the HTTP guard authenticated, or the default on a transport without one."""
    request = context.request
    client = context.session.client_params
    # Cut, because the names of clients are kept.
    name = "" if client is None else client.client_info.name[:_MAX_CLIENT_CHARS]
    return _name_caller(sender_of(context, default), name, request is None or _is_from_this_machine(request))


def sender_of(context: Context, default: Caller) -> Caller:
    """Return the caller without the name that its client chose: limits count by it, and one client may report many names."""
    return default if context.request is None else context.request.scope[SCOPE_KEY]


def _is_from_this_machine(request: Request) -> bool:
    """Return True if no other machine can have sent a request. A proxy shows in its headers, or in the host."""
    if request.client is None or not is_loopback(request.client.host) or not _PROXY_HEADERS.isdisjoint(request.headers):
        return False
    return is_loopback(urlsplit(f"//{request.headers.get('host', '')}").hostname or "")


@lru_cache(maxsize=256)
def _name_caller(caller: Caller, client: str, is_here: bool) -> Caller:
    """Return the caller with its client as the channel, and named after it where it has no name of its own.

    Cached: every request of a client asks for the same one.
    """
    channel = ("mcp:" if is_here else REMOTE_MCP) + agent_name(client, "unknown")
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
