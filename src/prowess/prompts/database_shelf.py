"""Prompts and rubrics in the database: read, added and removed, with an audit row for each change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from prowess.errors import Conflict, Invalid, NotFound, Refused
from prowess.policy.actor import Action, Actor
from prowess.policy.configuration import read_policy
from prowess.policy.gate import judge
from prowess.policy.subject import Subject
from prowess.prompts.registry import unusable_entry
from prowess.prompts.shelf import EntryKind, RegistryEntry, failed_entry, read_entry
from prowess.skill.forms.data import json_text
from prowess.skill.forms.form import error
from prowess.skill.semver import is_semver
from prowess.storage import registry
from prowess.storage.database import Connections
from prowess.storage.ledger import AuditEntry, append
from prowess.storage.registry import RegistryRow, list_entries

if TYPE_CHECKING:
    import sqlalchemy as sa

DATABASE_ORIGIN = "database"


class DatabaseShelf:
    """The entries that an organization added to its registry. Reading never creates the database."""

    def __init__(self, records: Callable[[], Connections], present: Callable[[], bool]) -> None:
        self._records = records
        self._present = present

    def entries(self, kind: EntryKind, organization: str, id: str | None = None) -> Sequence[RegistryEntry]:
        """Return the entries that this organization added."""
        if not self._present():
            return []
        records = self._records()
        with records.read() as connection:
            rows = list_entries(connection, organization, kind, id)
        return [entry_from_row(kind, row, records.location) for row in rows]


def entry_from_row(kind: EntryKind, row: RegistryRow, location: str) -> RegistryEntry:
    """Return a row as an entry."""
    name = f"{row.entry_id}@{row.version}.json"
    if not row.intact:
        message = f"The {kind} {name.removesuffix('.json')[:200]!r} in {location} was modified outside Prowess."
        hint = f"Remove it with `prowess {kind}s remove` and add it again, or restore the database from a backup."
        return failed_entry(
            kind, name, [error("registry-changed", message, hint)], origin=DATABASE_ORIGIN, location=location
        )
    return read_entry(kind, name, row.content.encode(errors="replace"), origin=DATABASE_ORIGIN, location=location)


_ORIGIN_FIELD = "origin"


class RegistryWriter:
    """Changes an organization's registry in the database. Versions are immutable: other content needs another version."""

    def __init__(self, records: Callable[[], Connections]) -> None:
        self._records = records

    def add(self, actor: Actor, entry: RegistryEntry) -> bool:
        """Add an entry for the actor's organization; return False if exactly this entry is there already.

        Raise `Invalid` for an entry that breaks a rule or has no semantic version, `Refused` for an agent or without
        permission to write, and `Conflict` if this version exists with other content.
        """
        if entry.value is None:
            raise unusable_entry(entry)
        if not is_semver(entry.version):
            raise Invalid(
                f"The {entry.kind} {entry.id!r} has no semantic version, so it cannot be stored.",
                hint=f"Set `version` in the file, or put the version into its name, for example {entry.id}@1.0.0.json.",
            )
        content = _content(entry)
        with self._records().write() as connection:
            refused = _refusal(connection, actor, "update", entry, content)
            # The audit row is written in any case, so errors are raised only after the transaction.
            outcome = "denied" if refused else _keep(connection, actor, entry, content)
            append(connection, actor.organization, audits=[_audit(actor, "update", entry, content, outcome)])
        if refused is not None:
            raise refused
        if outcome == "conflict":
            raise Conflict(
                f"The {entry.kind} {entry.label!r} already exists with different content.",
                hint="Versions are immutable. Use a higher version.",
            )
        return outcome == "added"

    def remove(self, actor: Actor, kind: EntryKind, id: str, version: str) -> None:
        """Remove one version for the actor's organization; raise `NotFound` if it has none."""
        entry = RegistryEntry(kind=kind, id=id, version=version, origin="database", value=None)
        with self._records().write() as connection:
            stored = registry.get_entry(connection, actor.organization, kind, id, version)
            content = stored.content if stored else ""
            refused = _refusal(connection, actor, "delete", entry, content)
            gone = not refused and registry.remove_entry(connection, actor.organization, kind, id, version)
            outcome = "denied" if refused else "removed" if gone else "not-found"
            append(connection, actor.organization, audits=[_audit(actor, "delete", entry, content, outcome)])
        if refused is not None:
            raise refused
        if not gone:
            raise NotFound(
                f"The {kind} {entry.label!r} is not in the database.",
                hint=f"Run `prowess {kind}s list` to see where it is. Delete the file of one that is in a folder.",
            )


def _content(entry: RegistryEntry) -> str:
    """Return the entry as JSON, with its id and version."""
    if entry.value is None:
        raise unusable_entry(entry)
    content = entry.value.as_json()
    return json_text({name: value for name, value in content.items() if name != _ORIGIN_FIELD and value is not None})


def _keep(
    connection: sa.Connection, actor: Actor, entry: RegistryEntry, content: str
) -> Literal["added", "same", "conflict"]:
    """Insert the entry, or compare it with what is there. If two add the same version, the first commit wins."""
    key = (actor.organization, entry.kind, entry.id, entry.version)
    if registry.add_entry(connection, *key, content=content, by=actor.label):
        return "added"
    stored = registry.get_entry(connection, *key)
    # Compared as data: the order of the fields does not matter.
    return "same" if stored and stored.intact and json.loads(stored.content) == json.loads(content) else "conflict"


def _refusal(
    connection: sa.Connection, actor: Actor, action: Action, entry: RegistryEntry, content: str
) -> Refused | None:
    """Return why the actor may not do this; None for a person with permission."""
    if not actor.is_person:
        return Refused(
            f"Agents may not change the registry of {entry.kind}s.",
            hint=f"Ask the user to run `prowess {entry.kind}s`.",
        )
    subject = Subject(slug=entry.id, digest=_digest(content), source="user", source_type="manual")
    ruling = judge(actor, action, subject, read_policy(connection, actor.organization))
    return None if ruling.answer == "allow" else Refused(ruling.reason, hint=ruling.hint)


def _audit(actor: Actor, action: Action, entry: RegistryEntry, content: str, outcome: str) -> AuditEntry:
    detail: dict[str, Any] = {"registry": f"{entry.kind}s", "id": entry.id[:200], "version": entry.version[:200]}
    detail["why"] = f"the {entry.kind} {entry.label[:200]}"
    digest = _digest(content) if content else ""
    return AuditEntry(
        actor=actor.label, channel=actor.channel, action=action, digest=digest, outcome=outcome, detail=detail
    )


def _digest(content: str) -> str:
    return f"sha256:{hashlib.sha256(content.encode()).hexdigest()}"
