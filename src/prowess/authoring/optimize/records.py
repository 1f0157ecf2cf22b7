"""Read and change the rows of optimizations, and publish each change of state as an event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import sqlalchemy as sa

from prowess.authoring.optimize.proposal import event_data
from prowess.engine.context import Context
from prowess.engine.records import find_by_id, read_rows
from prowess.errors import Conflict
from prowess.storage import ledger, proposals
from prowess.storage.ledger import EventEntry
from prowess.storage.proposals import ProposalRow, ProposalState
from prowess.threads import offload


class Records:
    """The optimizations of the actor's organization; without `admin`, those of the actor's own user."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._owner = {"organization_id": context.actor.organization, "user_id": context.actor.visible_user}

    async def add(self, row: ProposalRow) -> ProposalRow:
        """Store a new optimization and publish it."""

        def write() -> None:
            with self._context.resources.records().write() as connection:
                proposals.add(connection, row)
                _append_event(connection, row)

        await offload(write)
        self._context.resources.wake(row.organization_id)
        return row

    async def find(self, proposal_id: str) -> ProposalRow:
        """Return an optimization by its id or at least its first four characters, or raise `NotFound`."""
        find, listed_by = partial(proposals.find, **self._owner, prefix=proposal_id), "prowess optimize list"
        return await offload(find_by_id, self._context, proposal_id, find, noun="optimization", listed_by=listed_by)

    async def list(
        self, *, skill: str, states: Sequence[str], before: tuple[str, str] | None, limit: int
    ) -> list[ProposalRow]:
        """Return optimizations, newest first."""
        own = partial(proposals.list_proposals, **self._owner)
        read = partial(own, skill=skill, states=states, before=before, limit=limit)
        return await offload(read_rows, self._context, read, [])

    async def count(self, *, skill: str, states: Sequence[str]) -> int:
        """Return the number of optimizations."""
        count = partial(proposals.count_proposals, **self._owner, skill=skill, states=states)
        return await offload(read_rows, self._context, count, 0)

    async def change(
        self, proposal_id: str, values: Mapping[str, Any], *, states: Sequence[ProposalState]
    ) -> ProposalRow:
        """Change an optimization and publish that; raise `Conflict` if it is in another state by now."""

        def write() -> ProposalRow:
            with self._context.resources.records().write() as connection:
                changed = proposals.change(connection, proposal_id, values, states=states)
                if changed is None:
                    now = proposals.get(connection, proposal_id)
                    state = now.state if now else "deleted"
                    raise Conflict(
                        f"The optimization {proposal_id[:8]} is {state}, not {' or '.join(states)}.",
                        hint=f"`prowess optimize show {proposal_id[:8]}` shows it.",
                    )
                _append_event(connection, changed)
                return changed

        changed = await offload(write)
        self._context.resources.wake(changed.organization_id)
        return changed

    async def store_progress(self, proposal_id: str, values: Mapping[str, Any]) -> ProposalRow | None:
        """Store how far an optimization is, without an event, and return it; None if it has ended."""

        def write() -> ProposalRow | None:
            with self._context.resources.records().write() as connection:
                return proposals.change(connection, proposal_id, values, states=("running",))

        return await offload(write)

    async def use_held_out(self, row: ProposalRow, digest: str) -> int:
        """Note that the held-out cases are used for a candidate; return how often they have been, this time included."""

        def write() -> int:
            with self._context.resources.records().write() as connection:
                proposals.change(connection, row.id, {"held_out": digest}, states=("running",))
                return proposals.count_uses(connection, row.organization_id, row.skill_slug, digest)

        return await offload(write)


def _append_event(connection: sa.Connection, row: ProposalRow) -> None:
    entry = EventEntry(name="optimization_changed", data=event_data(row), user_id=row.user_id, subject=row.skill_slug)
    ledger.append(connection, row.organization_id, events=[entry])
