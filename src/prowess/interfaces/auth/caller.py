"""The sender of a request, independent of the protocol, so that every interface can use it."""

from __future__ import annotations

from dataclasses import dataclass

from prowess.policy.actor import Actor

SCOPE_KEY = "prowess.caller"
"""The key in an ASGI scope under which `RequestGuard` stores the caller."""

_MAX_AGENT_CHARS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An agent that sends requests, and the person at its client who may answer approval requests.

    A client can answer a form without showing it to anyone. So a form counts as the answer of `person` only if the operator
    named the client in `approvals_by`. For other clients, a request that needs approval is refused until someone approves it
    elsewhere. A client chooses its name itself, so the clients that may answer need their own token or process.

    `conversation` is the default for requests that do not name one. With `named_by_client`, the agent takes the name that its
    client reports, so that two clients of one person can be distinguished in the records.
    """

    actor: Actor
    person: Actor | None = None
    approvals_by: tuple[str, ...] = ()
    conversation: str = ""
    named_by_client: bool = False

    @property
    def key(self) -> str:
        """A text that is equal for two requests if and only if they come from the same caller."""
        # A caller that may answer approval requests never shares a session with one that may not: an answer arrives as a
        # message in the session that was asked.
        return "\x00".join((self.actor.party, *self.approvals_by))


def agent_name(client: str, default: str) -> str:
    """Return the name of a client as a valid agent name, or the default if nothing of it is valid."""
    printable = "".join(char if char.isprintable() and char != "@" else " " for char in client.lower())
    return " ".join(printable.split())[:_MAX_AGENT_CHARS].strip() or default
