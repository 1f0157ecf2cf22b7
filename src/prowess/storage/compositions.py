"""Store compositions and their rounds. A round never changes; the bytes of its files are in the table of blobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import sqlalchemy as sa

from prowess.skill.package import Package
from prowess.storage.blobs import dump_manifest, get_package, load_manifest, put_blobs
from prowess.storage.clock import now
from prowess.storage.driver_errors import reading
from prowess.storage.owner import Owner
from prowess.storage.tables import belongs_to, count_rows, insert_row, make_table, read_row, read_rows

CompositionState = Literal["open", "saved", "discarded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositionRow:
    """One composition: whose it is, what was asked for, and its current round (0 before the first).

    `skill` is the address of the skill that is changed, or '' for a new one.
    """

    id: str
    organization_id: str = ""
    user_id: str = ""
    created_by: str
    state: CompositionState = "open"
    request: str
    skill: str = ""
    base_digest: str = ""
    round: int = 0
    saved_as: str = ""
    saved_digest: str = ""
    created_at: str = field(default_factory=now)
    updated_at: str = field(default_factory=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRow:
    """One draft of a composition, with what was found about it. `previous` is the round that it refines; 0 for the first.

    The bytes of the files in `manifest` are in skill_blobs.
    """

    composition_id: str
    number: int
    organization_id: str = ""
    previous: int = 0
    feedback: str = ""
    actor: str
    model: str
    cost: float | None = None
    slug: str
    digest: str
    manifest: list[list[str | int]]
    draft: dict[str, Any]
    checks: dict[str, Any]
    created_at: str = field(default_factory=now)


compositions = make_table("compositions", CompositionRow)
composition_rounds = make_table("composition_rounds", RoundRow, key=("composition_id", "number"))
_C, _R = compositions.c, composition_rounds.c
sa.Index("ix_compositions_updated", _C.organization_id, _C.updated_at)


def add(connection: sa.Connection, row: CompositionRow) -> None:
    """Store a new composition."""
    insert_row(connection, compositions, row)


def find(connection: sa.Connection, owner: Owner, prefix: str) -> list[CompositionRow]:
    """Return the owner's compositions whose id starts with a prefix; at most two, which make it ambiguous."""
    query = sa.select(compositions).where(_is_own(owner), _C.id.startswith(prefix, autoescape=True)).limit(2)
    return read_rows(connection, query, CompositionRow)


def list_compositions(
    connection: sa.Connection, owner: Owner, *, created_by: str = "", state: str = "", limit: int
) -> list[CompositionRow]:
    """Return the owner's compositions, the last changed first; with `created_by`, only those that this actor started."""
    query = sa.select(compositions).where(_is_own(owner))
    query = query.where(_C.created_by == created_by) if created_by else query
    query = query.where(_C.state == state) if state else query
    return read_rows(connection, query.order_by(_C.updated_at.desc(), _C.id).limit(limit), CompositionRow)


def change(connection: sa.Connection, row: CompositionRow, values: Mapping[str, Any]) -> bool:
    """Change an open composition that is still at the round of `row`; return False if it is not. One caller of many succeeds."""
    still = [_C.id == row.id, _C.state == "open", _C.round == row.round]
    changed = sa.update(compositions).where(*still).values(**values, updated_at=now())
    return connection.execute(changed).rowcount == 1


def add_round(connection: sa.Connection, row: RoundRow, package: Package) -> None:
    """Store a round with its files."""
    put_blobs(connection, [package])
    insert_row(connection, composition_rounds, row)


def list_rounds(connection: sa.Connection, composition_id: str) -> list[RoundRow]:
    """Return the rounds of a composition, oldest first."""
    query = sa.select(composition_rounds).where(_R.composition_id == composition_id).order_by(_R.number)
    return read_rows(connection, query, RoundRow)


def get_round(connection: sa.Connection, composition_id: str, number: int) -> RoundRow | None:
    """Return one round, or None."""
    query = sa.select(composition_rounds).where(_R.composition_id == composition_id, _R.number == number)
    return read_row(connection, query, RoundRow)


def next_number(connection: sa.Connection, composition_id: str) -> int:
    """Return the number of the next round."""
    query = sa.select(sa.func.max(_R.number)).where(_R.composition_id == composition_id)
    return (connection.execute(query).scalar() or 0) + 1


def count_before(connection: sa.Connection, organization_id: str, moment: str) -> int:
    """Return how many compositions nobody has changed since a time."""
    return count_rows(connection, compositions, _C.organization_id == organization_id, _C.updated_at < moment)


def delete_before(connection: sa.Connection, organization_id: str, moment: str, *, limit: int) -> int:
    """Delete compositions that nobody has changed since a time, with their rounds; return how many."""
    old = sa.select(_C.id).where(_C.organization_id == organization_id, _C.updated_at < moment).limit(limit)
    ids = list(connection.execute(old).scalars())
    connection.execute(sa.delete(composition_rounds).where(_R.composition_id.in_(ids)))
    connection.execute(sa.delete(compositions).where(_C.id.in_(ids)))
    return len(ids)


def read_files(connection: sa.Connection, row: RoundRow) -> Package:
    """Return the files of a round; raise `Invalid` if they are not exactly those that were stored."""
    name = row.slug.rpartition(".")[2]
    with reading(f"Round {row.number} of the composition {row.composition_id}"):
        manifest = load_manifest(row.manifest)
    return get_package(connection, name, manifest, digest=row.digest, slug=row.slug)


def stored_manifest(package: Package) -> list[list[str | int]]:
    """Return the manifest of a package as a round stores it."""
    return dump_manifest(package.manifest)


def _is_own(owner: Owner) -> sa.ColumnElement[bool]:
    return belongs_to(compositions, owner.organization_id, owner.user_id)
