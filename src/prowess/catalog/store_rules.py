"""Rules that every store follows: the effect of a save on stored skills, and the errors for unknown names and stores that fail."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from prowess.catalog.store import Fault, Store, fault_problem
from prowess.errors import Conflict, DuplicateSkill, Invalid, NotFound, ProwessError, Unavailable
from prowess.skill.filenames import is_marker
from prowess.skill.forms.form import Reading
from prowess.skill.model import Skill, Version
from prowess.skill.package import Package


def unknown_skill(name: str, known: Collection[str], location: str) -> NotFound:
    """Return the error for an unknown slug, with similar slugs as a hint."""
    return NotFound(f"Skill {name[:80]!r} not found in {location}.", hint=suggest_names(name, known))


def unknown_id(what: str, id: str, location: str) -> NotFound:
    """Return the error for an unknown id. The id of another tenant gets exactly the same error."""
    error = NotFound(f"No {what} with the id {id[:80]!r} in {location}.", hint="Run `prowess list` to see all skills.")
    error.location = location
    return error


def suggest_names(name: str, known: Collection[str]) -> str:
    """Return a sentence with the known names that were probably meant, or the command that lists all.

    For the path of a skill, or of its SKILL.md, these are the names like that of its folder.
    """
    if not known:
        return "No skills are stored here yet. Add some with `prowess import PATH`."
    from prowess.suggestions import did_you_mean

    folders = [part for part in name.split("/") if part and not is_marker(part)]
    meant = folders[-1] if folders else name
    if meant in known:
        return f"Did you mean {meant!r}?"
    return did_you_mean(meant, known) or "Run `prowess list` to see all skills."


SaveAction = Literal["create", "update", "same"]


def decide_save(
    slug: str,
    new: str,
    stored: str | None,
    *,
    expected: str | None,
    location: str,
    known: Callable[[], Collection[str]],
    replace: bool = False,
) -> SaveAction:
    """Decide whether files with the digest `new` create or update the skill, or are stored already.

    `stored` is the stored digest, `expected` the one that the writer has seen. A writer with `expected` gets `NotFound` or
    `Conflict` if it differs from the stored digest. A writer without it gets `DuplicateSkill` if the slug is taken, unless
    `replace` is set. `known` returns the stored slugs, for a hint.
    """
    if stored is None:
        if expected is not None:
            raise unknown_skill(slug, known(), location)
        return "create"
    if expected is not None and stored != expected:
        raise digest_conflict(slug, expected, stored)
    if stored == new:
        return "same"
    if expected is None and not replace:
        raise DuplicateSkill(
            f"The slug {slug!r} is already used in {location} by a skill with other files.",
            hint="Choose another slug, or add --replace to overwrite that skill.",
        )
    return "update"


def digest_conflict(slug: str, expected: str, actual: str) -> Conflict:
    """Return the error for a write against an outdated digest."""
    return Conflict(
        f"The skill {slug!r} changed: its digest is now {actual[:12]}, not {expected[:12]}.",
        hint="Reload it, review the difference, and repeat your change.",
    )


def accepted_skill(reading: Reading) -> tuple[Skill, Package]:
    """Return the skill and the files of a reading that `prowess.skill.validate.accept` returned."""
    if reading.skill is None:
        raise Invalid("These files do not contain a skill.", problems=reading.problems)
    return reading.skill, reading.package


def declared_id(skill: Skill) -> str | None:
    """Return the id that the skill's own files declare, or None if it is not a UUID.

    Nor may it be one of version 5. Stores derive such ids from slugs, so anyone can work out the one of another skill, which
    would then be served under the wrong slug.
    """
    try:
        declared = uuid.UUID(skill.id) if skill.id else None
    except ValueError:
        return None
    return None if declared is None or declared.version == 5 else str(declared)


Failure = tuple[str, Exception]
"""The location of a store, and the error that it raised."""


def check_available(slug: str, failures: Sequence[Failure]) -> None:
    """Raise `Unavailable` if a store that is down may have a skill, which must not be reported as missing."""
    for location, error in failures:
        if isinstance(error, Unavailable):
            what = f"Skill {slug[:80]!r} cannot be looked up: {location} did not respond. {error.message}"
            raise Unavailable(what, hint=error.hint) from error


def check_databases(faults: Iterable[Fault]) -> None:
    """Raise `Unavailable` for a database that cannot be read. A skill folder that cannot may belong to another program."""
    for fault in faults:
        for problem in fault.problems:
            if problem.code == "store-unavailable" and not Path(fault.location).is_dir():
                raise Unavailable(problem.message, hint=problem.hint)


def store_fault(store: Store, error: Exception) -> Fault:
    """Return the fault that stands for all skills of a store."""
    reason = error.message if isinstance(error, ProwessError) else str(error)
    hint = error.hint if isinstance(error, ProwessError) else ""
    problem = fault_problem(
        "store-unavailable", f"The {store.scope} skills in {store.location!r} are unavailable: {reason}", hint
    )
    return Fault(location=store.location, slug="", problems=(problem,))


def with_versions(stores: Iterable[Store], slug: str) -> Iterator[tuple[Store, list[Version]]]:
    """Yield the stores that have versions of a skill, with these. Stores that fail are left out."""
    for store in stores:
        try:
            versions = store.versions(slug)
        except (ProwessError, OSError):
            continue
        if versions:
            yield store, versions
