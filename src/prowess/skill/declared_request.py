"""The request that an `http_call` declares: read once, every fault of it told."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError

from prowess.errors import Invalid
from prowess.skill.kinds import HttpCall, JsonObject, Value
from prowess.skill.limits import MIB
from prowess.skill.schema import depth_of
from prowess.skill.slots import slots_in

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
IDEMPOTENT: frozenset[Method] = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
"""What may be sent again where it is not known whether it arrived."""
MOST_SECONDS = 300.0
MOST_BYTES = 16 * MIB
MOST_ATTEMPTS = 5
DEEPEST_BODY = 32

_HANDLER = re.compile(r"\s*(?:([A-Za-z]+)\s+)?(\S.*?)\s*", re.DOTALL)
_BEGINNING = re.compile(r"(?:https?)://[^\s/?#{}\\@]+(?=[/?]|$)", re.IGNORECASE)
_HINT = "See how a request is declared: GET https://api.example.com/items/{{ id }}."


def _is_status(value: int | str) -> int | str:
    if isinstance(value, int) and 200 <= value <= 599:
        return value
    if isinstance(value, str) and re.fullmatch(r"[2-5]xx", value.lower()):
        return value.lower()
    raise ValueError("a status is a number such as 201, or 2xx")


def _listed(value: Any) -> Any:
    return cast("Any", value) if isinstance(value, list | tuple) else (value,)


class DeclaredResponse(Value):
    """What is made of an answer. `select` is a dotted path, or one for each name of an object that is made of them."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    read_as: Literal["", "json", "text"] = Field(default="", alias="as")
    """'' for what the answer itself says it is."""
    select: str | dict[str, str] = ""
    status: Annotated[
        tuple[Annotated[int | str, AfterValidator(_is_status)], ...], BeforeValidator(_listed), Field(min_length=1)
    ] = ("2xx",)

    def accepts(self, status: int) -> bool:
        """Whether an answer of that status is a good one."""
        return status in self.status or f"{status // 100}xx" in self.status


class DeclaredRequest(Value):
    """A request with places for values. Nothing that a value fills says which host is asked."""

    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True)

    method: Method
    url: str
    headers: dict[str, str] = Field(default_factory=dict)
    query: dict[str, Any] = Field(default_factory=dict)
    body: Any = None
    response: DeclaredResponse = Field(default_factory=DeclaredResponse)
    timeout_seconds: float = Field(default=30.0, gt=0, le=MOST_SECONDS)
    attempts: int = Field(default=3, ge=1, le=MOST_ATTEMPTS)
    max_bytes: int = Field(default=4 * MIB, ge=1, le=MOST_BYTES)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the environment that it uses."""
        slots = slots_in([list(self.headers.values()), list(self.query.values()), self.body])
        return tuple(dict.fromkeys(slot.secret for slot in slots if slot.secret))


FIELDS = tuple(name for name in DeclaredRequest.model_fields if name != "url")
"""What the metadata of an `http_call`, or the implementation of a descriptor, can say."""


def declared_request(call: HttpCall) -> DeclaredRequest:
    """The request of an artifact; `Invalid` says what of it cannot be read."""
    try:
        declared = DeclaredRequest.model_validate(_settings(call))
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False, include_context=False)
        told = "; ".join(f"{'.'.join(map(str, fault['loc'][:3]))}: {fault['msg']}" for fault in faults[:3])
        raise Invalid(f"The request {call.name!r} cannot be read: {told}.", hint=_HINT) from None
    _check_url(declared.url)
    _check_names("header", declared.headers)
    _check_names("query", declared.query)
    for value in declared.query.values():
        _check_query(value)
    if depth_of(declared.body, most=DEEPEST_BODY) > DEEPEST_BODY:
        raise Invalid(f"The body of {call.name!r} nests more than {DEEPEST_BODY} deep.")
    if any(slot.path == ("env",) for slot in slots_in([declared.body, *declared.headers.values()])):
        raise Invalid("{{ env }} is no value.", hint="Write {{ env.NAME }}.")
    return declared


def url_of(call: HttpCall) -> str:
    """The URL that a request is for, with its places for values: the one that is sent, and the one whose host is declared."""
    found = _HANDLER.fullmatch(call.handler)
    return found[2] if found else ""


def _settings(call: HttpCall) -> JsonObject:
    """What the artifact says, with the method that stands before the URL, or that a body asks for."""
    for name in call.metadata:
        near = [] if name in FIELDS else difflib.get_close_matches(name, FIELDS, n=1, cutoff=0.8)
        if near:
            raise Invalid(f"The request {call.name!r} has a field {name[:40]!r}.", hint=f"Did you mean {near[0]!r}?")
    found = _HANDLER.fullmatch(call.handler)
    before = found[1] if found else None
    stated = call.metadata.get("method")
    if before and isinstance(stated, str) and before.upper() != stated.upper():
        raise Invalid(f"The request {call.name!r} has two methods, {before!r} and {stated[:20]!r}.", hint="Give one.")
    method = before or stated or ("GET" if call.metadata.get("body") is None else "POST")
    return {**call.metadata, "url": url_of(call), "method": method.upper() if isinstance(method, str) else method}


def _check_url(url: str) -> None:
    if _BEGINNING.match(url) is None:
        raise Invalid(
            "The URL of the request does not begin with https:// and a host that is written out.",
            hint="An input fills the path or the query, never the host. " + _HINT,
        )
    if "#" in url:
        raise Invalid("The URL of the request has a part after #, which is never sent.", hint="Leave it out.")
    if any(slot.path[0] == "env" for slot in slots_in(url)):
        raise Invalid(
            "The URL of the request has a value of the environment in it.",
            hint="Use {{ env.NAME }} in headers, query or body.",
        )


def _check_names(what: str, fields: Mapping[str, Any]) -> None:
    for name in fields:
        if "{{" in name or not name.strip():
            raise Invalid(f"A {what} field of the request has no name of its own.", hint="Only values are filled in.")


def _check_query(value: Any) -> None:
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    if not all(isinstance(item, str | int | float | bool) for item in items):
        raise Invalid(
            "A query field of the request is neither a text, a number nor a list of such.", hint="Write it out."
        )
    slots_in(items)
