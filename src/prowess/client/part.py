"""The base of the parts of a client, and the conversion of a server's JSON into the values that the engine returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from prowess.client.transport import Transport
from prowess.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from prowess.policy.organization import OrgPolicy
    from prowess.session.session import Session

T = TypeVar("T")
JsonObject = dict[str, Any]


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
    name = session if isinstance(session, str) else getattr(session, "id", None)
    if not isinstance(name, str):
        hint = "Pass a session, its id, or the name of its conversation."
        raise Invalid(f"Not a session: {type(session).__name__}.", hint=hint)
    return name


def decode(kind: type[T], value: Any) -> T:
    """Return a value of the engine from JSON. Fields that this version does not know are ignored.

    Raise `Invalid` if the JSON does not fit, which is so for a server of another version.
    """
    from pydantic import BaseModel, ValidationError

    if isinstance(value, Mapping) and issubclass(kind, BaseModel):
        value = {name: part for name, part in cast("JsonObject", value).items() if name in kind.model_fields}
    try:
        return _adapter(kind).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise Invalid(
            f"The server sent a {kind.__name__} that this version cannot read: {place}: {first['msg']}.",
            hint="Install the same version of Prowess as the server has.",
        ) from error


def decode_all(kind: type[T], values: Iterable[Any]) -> list[T]:
    """Return a list of values of one kind."""
    return [decode(kind, value) for value in values]


def decode_policy(value: JsonObject) -> OrgPolicy:
    """Return the settings of an organization. They keep their types: 5 is not made 5.0."""
    from prowess.policy.organization import OrgPolicy

    known = {item.name for item in fields(OrgPolicy)}
    frozen: JsonObject = {
        name: tuple(cast("list[Any]", part)) if isinstance(part, list) else part
        for name, part in value.items()
        if name in known
    }
    return OrgPolicy(**frozen)


@cache
def _adapter(kind: type[T]) -> TypeAdapter[T]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
