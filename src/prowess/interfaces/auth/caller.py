"""Who sends a request. This module knows no protocol, so that every interface can use it."""

from __future__ import annotations

from dataclasses import dataclass

from prowess.policy.actor import Actor

SCOPE_KEY = "prowess.caller"
"""The key in an ASGI scope under which `RequestGuard` stores the caller."""

_MAX_AGENT_CHARS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An agent that sends requests, and the person at its client who may answer questions.

    A client answers the forms that it is sent, whether it shows them to anybody or not. So a form counts as the answer of
    `person` only from the clients that the operator names in `approvals_by`; for all others nobody is asked, and a request
    that needs approval is refused until somebody approves it elsewhere. A client tells its name itself: give the clients
    that may answer a token or a process of their own. `conversation` is the default for requests that name none. With `named_by_client` the agent takes the name that its
    client reports, so that records tell two clients of one person apart.
    """

    actor: Actor
    person: Actor | None = None
    approvals_by: tuple[str, ...] = ()
    conversation: str = ""
    named_by_client: bool = False

    @property
    def key(self) -> str:
        """A text that two requests share if and only if they come from the same caller."""
        # Whoever may answer questions never shares a session with whoever may not: an answer comes in as a message of
        # the session that was asked.
        return "\x00".join((self.actor.organization, self.actor.user, self.actor.label, *self.approvals_by))


def agent_name(client: str, default: str) -> str:
    """Return the name of a client in the form of an agent's name, or the default if no character can stay."""
    kept = "".join(char if char.isprintable() and char != "@" else " " for char in client.lower())
    return " ".join(kept.split())[:_MAX_AGENT_CHARS].strip() or default
