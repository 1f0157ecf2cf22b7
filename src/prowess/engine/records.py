"""Read rows of the database of records, as evaluations, jobs, optimizations and compositions all do. Blocking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from prowess.engine.context import Context
from prowess.errors import Invalid, NotFound

if TYPE_CHECKING:
    import sqlalchemy as sa

SHORTEST_ID = 4
"""How many characters of an id have to be given at least."""

T = TypeVar("T")


def read_rows(context: Context, read: Callable[[sa.Connection], T], default: T) -> T:
    """Return what is read in its own transaction, or `default` if nothing was ever recorded."""
    if not context.resources.has_records():
        return default
    with context.resources.records().read() as connection:
        return read(connection)


def find_by_id(
    context: Context, id: str, find: Callable[[sa.Connection], Sequence[T]], *, noun: str, listed_by: str
) -> T:
    """Return the only row that `find` finds for an id or at least four of its first characters.

    Raise `NotFound` if there is none, with the command that lists all, and `Invalid` if there are several.
    """
    is_possible = id.isprintable() and len(id) >= SHORTEST_ID
    rows = read_rows(context, find, ()) if is_possible else ()
    if len(rows) > 1:
        raise Invalid(f"{id[:80]!r} matches the beginning of several ids.", hint="Give more of its characters.")
    if not rows:
        raise NotFound(f"No {noun} {id[:80]!r}.", hint=f"`{listed_by}` shows all.")
    return rows[0]
