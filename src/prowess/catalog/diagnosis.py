"""Check the stores for `prowess doctor`: folders, databases and skills that cannot be served."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from prowess.catalog.catalog import Catalog
from prowess.catalog.directory_store import DirectoryStore
from prowess.catalog.store import Fault
from prowess.errors import ProwessError, Refused
from prowess.skill.model import Scope
from prowess.storage.database import Database
from prowess.storage.database_url import database_exists
from prowess.storage.schema_check import check_integrity

IsRolePack = Callable[[str, str], bool]
"""Says of the scope and slug of a skill if it is a role pack that comes with Prowess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check: `error` needs attention, `warning` is worth knowing."""

    name: str
    status: Literal["ok", "warning", "error"]
    detail: str
    hint: str = ""


def examine_stores(
    *,
    home: Path,
    workspace: Path,
    database_urls: Mapping[Scope, str],
    open_database: Callable[[str], Database],
    catalog: Catalog,
    is_role_pack: IsRolePack,
) -> list[Finding]:
    """Check all stores. Opening a skill folder also cleans up after an interrupted write."""
    findings = [_place("home", home), _place("workspace", workspace)]
    findings += [_database(scope, url, open_database) for scope, url in database_urls.items()]
    findings += _folders(catalog, is_role_pack)
    cards, faults = catalog.look()
    findings += [_fault(fault) for fault in faults]
    known = {(fault.location, fault.slug) for fault in faults}
    # A listing does not read the files of a database, so what is wrong with them shows only here, or when one is used.
    findings += [_fault(fault) for fault in _verified(catalog) if (fault.location, fault.slug) not in known]
    served = _count([(card.scope, card.slug) for card in cards], is_role_pack)
    findings.append(Finding(name="catalog", status="ok", detail=f"{served} available"))
    return findings


def _place(name: str, path: Path) -> Finding:
    nearest = next((folder for folder in (path, *path.parents) if folder.exists()), path)
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
        detail = str(path) if path.exists() else f"{path} (will be created when needed)"
        return Finding(name=name, status="ok", detail=detail)
    return Finding(
        name=name,
        status="warning",
        detail=f"{path} is not writable, so nothing can be stored there",
        hint="Change its permissions, or choose another folder with PROWESS_HOME or --workspace.",
    )


def _database(scope: Scope, url: str, open_database: Callable[[str], Database]) -> Finding:
    name = f"{scope} database"
    if not database_exists(url):
        return Finding(name=name, status="ok", detail="does not exist yet; the first `prowess import` creates it")
    try:
        database = open_database(url)
        try:
            with database.read() as connection:
                harm = check_integrity(connection)
        finally:
            database.close()
    except Refused as error:
        return Finding(name=name, status="warning", detail=error.message, hint=error.hint)
    except ProwessError as error:
        return Finding(name=name, status="error", detail=error.message, hint=error.hint)
    if harm:
        hint = "Restore it from a backup, or move it away and run `prowess import` again."
        return Finding(name=name, status="error", detail=f"{database.location} is damaged: {harm}", hint=hint)
    return Finding(name=name, status="ok", detail=database.location)


def _count(skills: Sequence[tuple[str, str]], is_role_pack: IsRolePack) -> str:
    """Return how many skills there are, and role packs, which `prowess list` does not list as skills."""
    packs = sum(is_role_pack(scope, slug) for scope, slug in skills)
    own = len(skills) - packs
    counts = [f"{own} skill{'s' * (own != 1)}"] if own or not packs else []
    return ", ".join([*counts, f"{packs} built-in role pack{'s' * (packs != 1)}"] if packs else counts)


def _folders(catalog: Catalog, is_role_pack: IsRolePack) -> Iterator[Finding]:
    for store in catalog.stores():
        if isinstance(store, DirectoryStore):
            yield _folder(store, is_role_pack)


def _verified(catalog: Catalog) -> Iterator[Fault]:
    for store in catalog.stores():
        with suppress(ProwessError):  # one that cannot be opened, or does not answer, is reported as a database
            # Only databases have it; they stand behind a store that opens them when they are needed.
            verify = None if isinstance(store, DirectoryStore) else getattr(store, "verify", None)
            if verify is not None:
                yield from verify()


def _folder(store: DirectoryStore, is_role_pack: IsRolePack) -> Finding:
    name = f"{store.scope} folder"
    try:
        count = _count([(store.scope, skill.slug) for skill in store.list_skills()], is_role_pack)
    except ProwessError as error:
        return Finding(name=name, status="error", detail=error.message, hint=error.hint)
    return Finding(name=name, status="ok", detail=f"{store.location}: {count}")


def _fault(fault: Fault) -> Finding:
    first = next((problem for problem in fault.problems if problem.severity == "error"), None)
    problem = first or next(iter(fault.problems), None)
    place = f"{problem.place}: " if problem and problem.place else ""
    reason = f"{place}{problem.message} [{problem.code}]" if problem else "it cannot be read"
    more = f" (and {len(fault.problems) - 1} more)" if len(fault.problems) > 1 else ""
    name = f"not available: {fault.slug}" if fault.slug else "not available"
    hint = problem.hint if problem else ""
    return Finding(name=name, status="warning", detail=f"{fault.location}: {reason}{more}", hint=hint)
