"""What the parts of a client share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prowess.client.transport import Transport
from prowess.errors import Unavailable

if TYPE_CHECKING:
    from prowess.session.session import Session


class Part:
    """One part of a client. It has the methods of the engine's part that the server offers over HTTP."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise `Unavailable` for a method that only the engine has, with what to do instead."""
            if name.startswith("_"):
                raise AttributeError(name)
            raise unavailable(f"{type(self).__name__.lower()}.{name}")


def unavailable(name: str) -> Unavailable:
    """Return the error for something that the engine has and a server does not offer."""
    return Unavailable(
        f"`{name}` is not available over HTTP.",
        hint="Run it on the machine of the server: without `--server`, or with `Prowess.open`.",
    )


def session_name(session: Session | str) -> str:
    """Return what names a session in a path: its id, or its conversation."""
    return session if isinstance(session, str) else session.id
