"""Record changes to organizations, people and tokens in the audit, and attempts that are refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from prowess.errors import Refused
from prowess.policy.actor import PERMISSIONS, Actor
from prowess.storage.database import Connections
from prowess.storage.ledger import AuditEntry, append

P = ParamSpec("P")
T = TypeVar("T")


def is_operator(actor: Actor) -> bool:
    """Return True for the person at this machine, who belongs to no organization and may do everything."""
    return actor.is_person and not actor.organization and not actor.user and actor.permissions == PERMISSIONS


def recorded_name(actor: Actor, organization: str) -> str:
    """Return the name of an actor in the records of an organization. The operator's cannot be that of a member."""
    return f"operator:{actor.name}" if organization and is_operator(actor) else actor.label


def audit_entry(actor: Actor, organization: str, action: str, outcome: str, **detail: Any) -> AuditEntry:
    """Return the audit entry for a change to an organization, its people or their tokens."""
    name = recorded_name(actor, organization)
    return AuditEntry(actor=name, channel=actor.channel, action=action, outcome=outcome, detail=detail)


class _Rules(Protocol):
    """Rules over a database."""

    @property
    def database(self) -> Connections: ...


R = TypeVar("R", bound=_Rules)


def logs_refusals(
    action: str,
) -> Callable[[Callable[Concatenate[R, Actor, P], T]], Callable[Concatenate[R, Actor, P], T]]:
    """Return a decorator for a change: an attempt that is refused is in the audit of the actor's organization."""

    def decorate(change: Callable[Concatenate[R, Actor, P], T]) -> Callable[Concatenate[R, Actor, P], T]:
        @wraps(change)
        def attempt(self: R, actor: Actor, /, *args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return change(self, actor, *args, **kwargs)
            except Refused as error:
                # In its own transaction: that of the change was rolled back.
                with self.database.write() as connection:
                    entry = audit_entry(actor, actor.organization, action, "denied", why=error.message)
                    append(connection, actor.organization, audits=[entry])
                raise

        return attempt

    return decorate
