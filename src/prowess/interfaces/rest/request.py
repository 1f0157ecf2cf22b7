"""The parts that every route needs: the caller's engine with the permission it takes, pages, entity tags and JSON responses.

A route names the permission it takes by the type of its engine: `Reader`, `Writer`, `Runner`, `Approver`, `Admin`, or
`Anyone` for every caller with a valid token. OpenAPI shows it, and a test reads it from there.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Generic, TypeVar, cast, get_type_hints

import orjson
from fastapi import Depends, Query, Request, Security
from fastapi.dependencies.models import Dependant
from fastapi.security import HTTPBearer, SecurityScopes
from pydantic import BaseModel, BeforeValidator, ConfigDict, create_model, model_validator
from starlette.responses import Response

from prowess.errors import Invalid, Problem
from prowess.interfaces.auth.caller import SCOPE_KEY, Caller
from prowess.interfaces.rest.problems import name_requests
from prowess.open import Prowess
from prowess.policy.actor import Permission
from prowess.suggestions import did_you_mean
from prowess.view import to_json

T = TypeVar("T")
S = TypeVar("S", bound="Shape")

MAX_PAGE = 200
MAX_MEMBERS = 1_000
"""How many members an object with typed members may have, in a body."""
_MAX_UNKNOWN = 10
_MAX_SHOWN_NAME = 80
"""How many unknown query parameters are reported, and how much of their names."""
_bearer = HTTPBearer(auto_error=False, scheme_name="token", description="A token from `prowess token create`.")


def caller_of(request: Request) -> Caller:
    """Return the caller that the guard found."""
    return request.scope[SCOPE_KEY]


async def caller_engine(request: Request, needed: SecurityScopes, _: Annotated[Any, Depends(_bearer)]) -> Prowess:
    """Return the engine of the caller, who must have the permissions of the route. Refuse unknown query parameters."""
    actor = caller_of(request).actor
    for permission in needed.scopes:
        actor.require(cast("Permission", permission))
    if request.scope["query_string"]:
        _check_query(request.query_params, set(_query_names(request.scope["route"].dependant)))
    return request.app.state.engine.as_actor(actor)


def _query_names(dependant: Dependant) -> Iterator[str]:
    """Yield the names of the query parameters of a route."""
    yield from (field.alias for field in dependant.query_params)
    for dependency in dependant.dependencies:
        yield from _query_names(dependency)


def _check_query(names: Iterable[str], known: Collection[str]) -> None:
    """Raise `Invalid` for query parameters that a route does not have, so that a misspelt one is not silently ignored."""
    unknown = [name for name in names if name not in known]
    if not unknown:
        return
    hint = f"It has: {', '.join(sorted(known))}." if known else "It has none."
    problems = [
        Problem(
            code="field",
            severity="error",
            message="Unknown query parameter.",
            hint=did_you_mean(name, known),
            field=f"query.{name[:_MAX_SHOWN_NAME]}",
        )
        for name in unknown[:_MAX_UNKNOWN]
    ]
    shown = ", ".join(repr(name[:_MAX_SHOWN_NAME]) for name in unknown[:_MAX_UNKNOWN])
    raise Invalid(f"This route has no query parameter {shown}.", hint=hint, problems=problems)


Anyone = Annotated[Prowess, Security(caller_engine)]
Reader = Annotated[Prowess, Security(caller_engine, scopes=["skills.read"])]
Writer = Annotated[Prowess, Security(caller_engine, scopes=["skills.write"])]
Runner = Annotated[Prowess, Security(caller_engine, scopes=["skills.run"])]
Approver = Annotated[Prowess, Security(caller_engine, scopes=["approvals.resolve"])]
Admin = Annotated[Prowess, Security(caller_engine, scopes=["admin"])]


def _check_whole(value: object) -> object:
    # JSON Schema takes 5.0 for an integer, and neither "5" nor true. Pydantic takes all of them, or only 5.
    if isinstance(value, bool | str):
        raise ValueError("Input should be a valid integer")  # noqa: TRY004  (pydantic reports a ValueError)
    return value


WholeNumber = Annotated[int, BeforeValidator(_check_whole)]
"""A whole number in a body, as JSON Schema understands it."""


def _count_members(value: object) -> int:
    return len(cast("dict[str, Any]", value)) if isinstance(value, dict) else 0


def _check_members(value: object) -> object:
    # Pydantic makes an error of every member that is wrong, which for a body of 300,000 would hold up the server for seconds.
    if _count_members(value) > MAX_MEMBERS:
        raise ValueError(f"Object should have at most {MAX_MEMBERS:,} members")
    return value


FewMembers = BeforeValidator(_check_members)
"""For an object in a body whose members have a type."""


class Body(BaseModel):
    """The body of a request. Unknown fields are refused, so that a misspelt one is not silently ignored."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check(cls, value: object) -> object:
        return _check_members(value)


class Shape(BaseModel):
    """The shape of a response, for OpenAPI and the client. Fields may be added later."""

    model_config = ConfigDict(extra="allow")


def shape_of(kind: type, *, without: Collection[str] = ()) -> Callable[[type[S]], type[S]]:
    """Give a shape the fields of the value that it is the JSON of. Its own fields are added, or replace one of them."""

    def complete(own: type[S]) -> type[S]:
        hints = get_type_hints(kind, include_extras=True)
        # Also those that it inherits.
        fields: dict[str, Any] = {name: (hint, ...) for name, hint in hints.items() if name not in without}
        fields |= {name: (field.annotation, field) for name, field in own.model_fields.items()}
        shape = create_model(own.__name__, __base__=Shape, __module__=own.__module__, __doc__=own.__doc__, **fields)
        return cast("type[S]", shape)

    return complete


class PageShape(BaseModel, Generic[T]):
    """One page of a list. `next_cursor` is null on the last one."""

    items: list[T]
    next_cursor: str | None
    total: int


class PageQuery:
    """The page that a request asks for."""

    def __init__(self, limit: int, cursor: str) -> None:
        self.limit = limit
        self._cursor = cursor

    @property
    def after(self) -> Any:
        """The position after which the page starts, as `cursor_at` was given it; None for the first page."""
        if not self._cursor:
            return None
        try:
            padded = self._cursor + "=" * (-len(self._cursor) % 4)
            return json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        except (ValueError, binascii.Error) as error:
            raise invalid_cursor() from error

    def after_number(self, largest: int = 2**31 - 1) -> int | None:
        """Return the position in a list whose items have numbers."""
        position = self.after
        if position is not None and not (type(position) is int and 0 <= position <= largest):
            raise invalid_cursor()
        return position

    @property
    def after_text(self) -> str | None:
        """The position in a list that is sorted by a text."""
        position = self.after
        if position is not None and not isinstance(position, str):
            raise invalid_cursor()
        return position

    @property
    def after_row(self) -> tuple[str, str] | None:
        """The position in a list that is sorted by time and id."""
        match self.after:
            case None:
                return None
            case [str(moment), str(row_id)]:
                return moment, row_id
            case _:
                raise invalid_cursor()


def invalid_cursor() -> Invalid:
    """Return the error for a cursor that this list did not give."""
    return Invalid("Invalid cursor.", hint="Use `next_cursor` of the previous page, or no cursor for the first page.")


# Asynchronous, because FastAPI hands everything else to a thread, even a constructor.
async def _page_query(
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="How many items to return.")] = 50,
    cursor: Annotated[
        str, Query(max_length=1000, description="`next_cursor` of the previous page. Empty for the first page.")
    ] = "",
) -> PageQuery:
    return PageQuery(limit, cursor)


Page = Annotated[PageQuery, Depends(_page_query)]


def cursor_at(position: Any) -> str:
    """Return the cursor of the page that starts after a position, which is plain JSON."""
    return base64.urlsafe_b64encode(json.dumps(position, separators=(",", ":")).encode()).decode().rstrip("=")


def make_page(
    found: Sequence[T],
    page: PageQuery,
    position: Callable[[T], Any],
    total: int,
    *,
    show: Callable[[T], object] = to_json,
) -> dict[str, Any]:
    """Return the first of the items after a position as a page. If more of them are given, it has a cursor."""
    shown = found[: page.limit]
    cursor = cursor_at(position(shown[-1])) if len(found) > len(shown) else None
    return {"items": [show(item) for item in shown], "next_cursor": cursor, "total": total}


def paginate(
    items: Sequence[T],
    page: PageQuery,
    key: Callable[[T], str],
    *,
    newest_first: bool = False,
    show: Callable[[T], object] = to_json,
) -> dict[str, Any]:
    """Return one page of a whole list, sorted by a unique text, or in the reverse order."""
    after = page.after_text
    rest = [item for item in items if after is None or (key(item) < after if newest_first else key(item) > after)]
    rest.sort(key=key, reverse=newest_first)
    return make_page(rest, page, key, len(items), show=show)


def respond(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a value as a JSON response. This costs half of what FastAPI's own conversion does."""
    return Response(to_bytes(value), status, {**(headers or {}), "content-type": "application/json"})


def to_bytes(value: object) -> bytes:
    """Return a value as JSON on one line."""
    plain = to_json(value)
    encoded = _encode(plain)
    # Searching bytes costs next to nothing, and few responses have a hint.
    return _encode(name_requests(plain)) if b"`prowess " in encoded else encoded


def _encode(plain: object) -> bytes:
    try:
        return orjson.dumps(plain, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        # Outputs of models and programs may have lone surrogates or integers beyond 64 bits, which orjson refuses.
        return json.dumps(plain, ensure_ascii=False, default=str).encode("utf-8", "replace")


def etag(digest: str) -> str:
    """Return the entity tag of a digest."""
    return f'"{digest}"'


def if_match(request: Request) -> tuple[str, ...]:
    """Return the entity tags of `If-Match`; empty if the request has no condition."""
    header = request.headers.get("if-match")
    # A header without a tag is a condition that nothing fulfils, not one that is missing.
    return () if header is None else _tags(header) or ('""',)


def expected_digests(request: Request) -> frozenset[str]:
    """Return the digests of which the skill must have one, by `If-Match`; empty if every one will do."""
    tags = if_match(request)
    return frozenset() if "*" in tags else frozenset(tag.strip('"') or "none" for tag in tags)


def is_unchanged(request: Request, digest: str) -> bool:
    """Return True if the caller has this content already, by `If-None-Match`."""
    tags = _tags(request.headers.get("if-none-match", ""))
    return etag(digest) in tags or "*" in tags


def is_stale(request: Request, digest: str) -> bool:
    """Return True if the request expects other content than there is now, by `If-Match`."""
    tags = if_match(request)
    return bool(tags) and "*" not in tags and etag(digest) not in tags


def _tags(header: str) -> tuple[str, ...]:
    return tuple(tag.strip().removeprefix("W/") for tag in header.split(",") if tag.strip())
