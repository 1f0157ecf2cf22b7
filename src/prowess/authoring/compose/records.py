"""The compositions of one actor in the database: find them, store rounds, and publish what changed. Blocking."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import sqlalchemy as sa

from prowess.authoring.compose.author import Written
from prowess.authoring.compose.composition import Composition, event_data, to_composition
from prowess.engine.context import Context
from prowess.engine.records import find_by_id, read_rows
from prowess.errors import Conflict, NotFound, Refused
from prowess.skill.package import Package
from prowess.storage import compositions, ledger
from prowess.storage.compositions import CompositionRow, CompositionState, RoundRow
from prowess.storage.ledger import EventEntry

MAX_ROUNDS = 200


class CompositionRecords:
    """Reads and writes compositions. An agent has only those that it started."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def add(self, row: CompositionRow) -> None:
        """Store a new composition."""
        with self._context.resources.records().write() as connection:
            compositions.add(connection, row)

    def list(self, state: CompositionState | None, limit: int) -> list[CompositionRow]:
        """Return the compositions of the actor, the last changed first."""
        actor = self._context.actor
        actor.require("skills.read")
        own = partial(compositions.list_compositions, owner=actor.owner, created_by=self._only_by())
        read = partial(own, state=state or "", limit=limit)
        return read_rows(self._context, read, [])

    def list_rounds(self, composition_id: str) -> list[RoundRow]:
        """Return all rounds of a composition, oldest first."""
        row, _ = self.find(composition_id)
        with self._context.resources.records().read() as connection:
            return compositions.list_rounds(connection, row.id)

    def keep(self, row: CompositionRow, feedback: str, written: Written) -> Composition:
        """Store a round, unless someone else made one in the meantime."""
        draft = (
            written.draft if not row.skill else written.draft.model_copy(update={"slug": row.skill.rpartition(":")[2]})
        )
        actor, records = self._context.actor, self._context.resources.records()
        with records.write() as connection:
            number = compositions.next_number(connection, row.id)
            if number > MAX_ROUNDS:
                raise Refused(f"This composition has {MAX_ROUNDS} rounds.", hint="Start a new one.")
            round_row = RoundRow(
                composition_id=row.id,
                number=number,
                organization_id=row.organization_id,
                previous=row.round,
                feedback=feedback,
                actor=actor.label,
                model=written.model,
                cost=written.cost,
                slug=draft.slug,
                digest=written.package.digest,
                manifest=compositions.stored_manifest(written.package),
                draft=draft.model_dump(mode="json"),
                checks=written.checks.as_json(),
            )
            if not compositions.change(connection, row, {"round": number}):
                raise _overtaken(row)
            compositions.add_round(connection, round_row, written.package)
            now = replace(row, round=number)
            self._append_event(connection, now, round_row)
        self._context.resources.wake(row.organization_id)
        return to_composition(now, round_row)

    def change(self, row: CompositionRow, current: RoundRow | None, values: dict[str, Any]) -> Composition:
        """Change an open composition and publish that; raise `Conflict` if it was changed in the meantime."""
        now = replace(row, **values)
        with self._context.resources.records().write() as connection:
            if not compositions.change(connection, row, values):
                raise _overtaken(row)
            self._append_event(connection, now, current)
        self._context.resources.wake(row.organization_id)
        return to_composition(now, current)

    def _append_event(self, connection: sa.Connection, row: CompositionRow, current: RoundRow | None) -> None:
        data = event_data(row, current)
        entry = EventEntry(name="composition_changed", data=data, user_id=row.user_id, subject=row.saved_as)
        ledger.append(connection, row.organization_id, events=[entry])

    def files(self, row: CompositionRow, current: RoundRow | None) -> Package:
        """Return the files of a round."""
        if current is None:
            raise no_draft(row)
        with self._context.resources.records().read() as connection:
            return compositions.read_files(connection, current)

    def find_open(self, composition_id: str) -> tuple[CompositionRow, RoundRow | None]:
        """Return a composition that is not ended, with its current round; raise `Conflict` for another one."""
        row, current = self.find(composition_id)
        if row.state != "open":
            where = f" as {row.saved_as}" if row.saved_as else ""
            raise Conflict(
                f"The composition {row.id[:8]} is {row.state}{where}.",
                hint="Start another one with `prowess compose`, with --skill SLUG to change that skill.",
            )
        return row, current

    def find(self, composition_id: str, number: int | None = None) -> tuple[CompositionRow, RoundRow | None]:
        """Return a composition of the actor with its current round or another one; raise `NotFound`. Blocking."""
        actor = self._context.actor
        actor.require("skills.read")

        def find(connection: sa.Connection) -> list[CompositionRow]:
            rows = compositions.find(connection, actor.owner, composition_id)
            return [row for row in rows if self._only_by() in ("", row.created_by)]

        row = find_by_id(self._context, composition_id, find, noun="composition", listed_by="prowess compose list")
        round_number = row.round if number is None else number
        with self._context.resources.records().read() as connection:
            current = compositions.get_round(connection, row.id, round_number) if round_number else None
        if current is None and number is not None:
            raise NotFound(
                f"The composition {row.id[:8]} has no round {number}.",
                hint=f"`prowess compose rounds {row.id[:8]}` lists them.",
            )
        return row, current

    def _only_by(self) -> str:
        actor = self._context.actor
        return "" if actor.is_person else actor.label


def no_draft(row: CompositionRow) -> Conflict:
    """Return the error for a composition without a draft."""
    return Conflict(
        f"The composition {row.id[:8]} has no draft yet.", hint=f"Try again: `prowess compose refine {row.id[:8]}`."
    )


def _overtaken(row: CompositionRow) -> Conflict:
    return Conflict(
        f"The composition {row.id[:8]} was changed by someone else in the meantime.",
        hint=f"Review it again: `prowess compose show {row.id[:8]}`.",
    )
