"""Read, verify and export the audit log, as an administrator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from prowess.policy.actor import Actor
from prowess.storage import counts, ledger
from prowess.storage.audit_chain import AuditVerdict, verify_audit
from prowess.storage.database import Connections
from prowess.storage.ledger import AuditRow
from prowess.storage.sqlite import no_deadline

_PAGE_SIZE = 500
_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode


class Audit:
    """The audit logs of all organizations in one database. Blocking; only for persons with `admin`."""

    def __init__(self, database: Connections) -> None:
        self._database = database

    def rows(self, actor: Actor, *, after: int = 0, limit: int = 100) -> list[AuditRow]:
        """Return the next rows of the actor's organization after a number, in order."""
        actor.require("admin")
        with self._database.read() as connection:
            return ledger.read_audit(connection, actor.organization, after=after, limit=limit)

    def find(
        self,
        actor: Actor,
        *,
        before: int | None = None,
        limit: int = 100,
        by: str = "",
        action: str = "",
        slug: str = "",
        outcome: str = "",
        since: str = "",
    ) -> list[AuditRow]:
        """Return rows of the actor's organization before a number, newest first, that have the values that are not ''."""
        actor.require("admin")
        with self._database.read() as connection:
            return ledger.find_audit(
                connection,
                actor.organization,
                before=before,
                limit=limit,
                actor=by,
                action=action,
                slug=slug,
                outcome=outcome,
                since=since,
            )

    def count(
        self, actor: Actor, *, by: str = "", action: str = "", slug: str = "", outcome: str = "", since: str = ""
    ) -> int:
        """Return how many rows of the actor's organization `find` finds without a limit."""
        actor.require("admin")
        with self._database.read() as connection:
            return ledger.count_audit(
                connection, actor.organization, actor=by, action=action, slug=slug, outcome=outcome, since=since
            )

    def last(self, actor: Actor) -> int:
        """Return the number of the newest row, or 0."""
        actor.require("admin")
        with self._database.read() as connection:
            return counts.last_audit(connection, actor.organization)

    def verify(self, actor: Actor, *, head: str = "") -> AuditVerdict:
        """Check that no row was altered, removed, added or moved since it was written.

        Rows removed from the end leave no gap in the chain. To detect that too, pass the `head` of an earlier verdict or
        export that was kept elsewhere.
        """
        actor.require("admin")
        # A log has no maximum length, so neither has the time that this takes.
        with self._database.read() as connection, no_deadline(connection):
            return verify_audit(connection, actor.organization, head=head)

    def export(self, actor: Actor) -> Iterator[str]:
        """Yield every row as a line of JSON, in order, with its hash."""
        actor.require("admin")
        # A generator runs only when its first row is read; the permission is checked now.
        return self._lines(actor)

    def _lines(self, actor: Actor) -> Iterator[str]:
        after = 0
        while rows := self.rows(actor, after=after, limit=_PAGE_SIZE):
            yield from (_encode(asdict(row)) for row in rows)
            after = rows[-1].number
