"""Who sends a request, and which conversation it belongs to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mcp.server.context import ServerRequestContext

from prowess.errors import Invalid
from prowess.policy.actor import Actor

Context = ServerRequestContext[Any, Any]

SCOPE_KEY = "prowess.caller"
"""Where the HTTP guard leaves the caller in the scope of a request."""

CONVERSATION_META = "prowess/conversation"
"""The key of `_meta` by which a client without a session says which conversation a request belongs to."""

_MAX_CONVERSATION_CHARS = 200
_MAX_SESSION_CHARS = _MAX_CONVERSATION_CHARS - len("mcp:")
_MAX_AGENT_CHARS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The agent that calls, and the person who sits before its client and may answer questions.

    Without a `person` no question is asked: what needs approval is refused until somebody approves it elsewhere.
    `conversation` is the one that requests belong to which name none. With `named_by_client` the agent has the name by
    which its client introduces itself, so that what one client wrote is not taken for what another did.
    """

    actor: Actor
    person: Actor | None = None
    conversation: str = ""
    named_by_client: bool = False

    @property
    def key(self) -> str:
        """The same for two requests if and only if they come from the same caller."""
        return "\x00".join((self.actor.organization, self.actor.user, self.actor.label))


def caller_of(context: Context, default: Caller) -> Caller:
    """The caller that the HTTP guard let in, or the one that this process serves."""
    request = context.request
    caller: Caller = default if request is None else request.scope[SCOPE_KEY]
    client = context.session.client_params
    if not caller.named_by_client or client is None:
        return caller
    return replace(caller, actor=replace(caller.actor, name=agent_name(client.client_info.name, caller.actor.name)))


def agent_name(client: str, default: str) -> str:
    """The name of a client as that of an agent; the default where nothing of it can stay."""
    kept = "".join(char if char.isprintable() and char != "@" else " " for char in client.lower())
    return " ".join(kept.split())[:_MAX_AGENT_CHARS].strip() or default


def conversation_of(context: Context, caller: Caller) -> str:
    """The conversation of a request: the one it names, that of its connection, or else the caller's own.

    A name that cannot be one is `Invalid`: what the client takes for a conversation of its own never ends up elsewhere.
    """
    named: object = (context.meta or {}).get(CONVERSATION_META)
    if named is not None and named != "":
        return _check_conversation(named)
    return session_conversation(context) or caller.conversation or f"mcp:{caller.actor.label}"


def _check_conversation(named: object) -> str:
    if not isinstance(named, str) or len(named) > _MAX_CONVERSATION_CHARS or not named.isprintable():
        raise Invalid(
            f"_meta[{CONVERSATION_META!r}] names no conversation.",
            hint=f"Give a text of at most {_MAX_CONVERSATION_CHARS} characters, all of them printable.",
        )
    return named


def session_conversation(context: Context) -> str:
    """The conversation of the session over HTTP that a request belongs to; '' where it belongs to none."""
    session = context.request.headers.get("mcp-session-id") if context.request is not None else None
    return f"mcp:{session[:_MAX_SESSION_CHARS]}" if session else ""
