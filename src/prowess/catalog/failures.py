"""Stores that do not respond: what is reported about them, and what may not be concluded."""

from __future__ import annotations

from collections.abc import Sequence

from prowess.catalog.store import Fault, Store, fault_problem
from prowess.errors import ProwessError, Unavailable

Failure = tuple[str, Exception]
"""The location of a store, and the error that it raised."""


def check_available(slug: str, failures: Sequence[Failure]) -> None:
    """Raise `Unavailable` if a store that is down may have a skill, which must not be reported as missing."""
    for location, error in failures:
        if isinstance(error, Unavailable):
            what = f"Skill {slug[:80]!r} cannot be looked up: {location} did not respond. {error.message}"
            raise Unavailable(what, hint=error.hint) from error


def store_fault(store: Store, error: Exception) -> Fault:
    """Return the fault that stands for all skills of a store."""
    reason = error.message if isinstance(error, ProwessError) else str(error)
    hint = error.hint if isinstance(error, ProwessError) else ""
    problem = fault_problem(
        "store-unavailable", f"The {store.scope} skills in {store.location!r} are unavailable: {reason}", hint
    )
    return Fault(location=store.location, slug="", problems=(problem,))
