"""Define the tables of skills, the same on SQLite and PostgreSQL.

Every row of a skill, its artifacts and its versions carries its tenant (organization, user, scope). Dates are ISO-8601
text in UTC. Large columns come last, because SQLite reads a row from the front and a card must not cost the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeVar

import sqlalchemy as sa

# A statement that is built while another thread imports this would fail. Jobs need it, and import it late. It is imported
# here, because all modules with statements import this one first, and wait for it.
import sqlalchemy.orm  # pyright: ignore[reportUnusedImport]

from prowess.storage.rows import check_types, row_values

Row = TypeVar("Row")

# Every constraint has a name, because alembic can only change constraints that have one.
metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class _SearchableJson(sa.TypeDecorator[Any]):
    """`jsonb` on PostgreSQL, whose dialect takes long to import and is imported only for a PostgreSQL database."""

    impl = sa.JSON
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        """Return the column type of a dialect."""
        if dialect.name != "postgresql":
            return dialect.type_descriptor(sa.JSON())
        from sqlalchemy.dialects.postgresql import JSONB

        return dialect.type_descriptor(JSONB())


SEARCHABLE_JSON = _SearchableJson()
"""A JSON list that queries can search."""

ORDERED_JSON = sa.JSON()
"""JSON that must come back unchanged: `json` on PostgreSQL, because `jsonb` loses the order of keys."""


def dialect_insert(
    table: sa.Table, finish: Callable[[Any], sa.Insert] = lambda insert: insert
) -> Callable[[sa.Connection], Any]:
    """Return a function that gives the insert for a connection, such as one with an ON CONFLICT clause.

    `finish` adds the clause to the dialect's own insert. Each statement is built when a connection first needs it, so
    that a command on SQLite does not import the dialect of PostgreSQL.
    """
    inserts: dict[str, sa.Insert] = {}

    def insert_for(connection: sa.Connection) -> sa.Insert:
        name = connection.dialect.name
        if name not in inserts:
            inserts[name] = finish(import_module(f"sqlalchemy.dialects.{name}").insert(table))
        return inserts[name]

    return insert_for


def insert_or_update(table: sa.Table, *changed: str) -> Callable[[sa.Connection], Any]:
    """Return an insert as `dialect_insert` does, which changes these columns if there is a row with the same key."""
    return dialect_insert(
        table,
        lambda insert: insert.on_conflict_do_update(
            index_elements=list(table.primary_key), set_={name: insert.excluded[name] for name in changed}
        ),
    )


def texts(*names: str) -> list[sa.Column[str]]:
    """Return columns of text that are never null."""
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


_FIELD_TYPES = {
    "int": sa.Integer, "float": sa.Float, "bool": sa.Boolean, "bytes": sa.LargeBinary,
    "dict": ORDERED_JSON, "list": ORDERED_JSON,
}  # fmt: skip


def make_table(
    name: str,
    row: type,
    *constraints: sa.Constraint,
    key: Sequence[str] = ("id",),
    **types: type[sa.types.TypeEngine[Any]],
) -> sa.Table:
    """Return a table with a column for each field of a dataclass, which is nullable if the field may be None.

    `types` are the types of columns that do not follow from their fields. Literals and others are text.
    """
    columns: list[sa.Column[Any]] = []
    for field, annotation in row.__annotations__.items():
        kind = annotation.removesuffix(" | None")
        type_ = types.get(field) or _FIELD_TYPES.get(kind.partition("[")[0], sa.Text)
        columns.append(
            sa.Column(field, type_, primary_key=field in key, nullable=kind != annotation, autoincrement=False)
        )
    return sa.Table(name, metadata, *columns, *constraints)


def _tenant_columns() -> list[sa.Column[str]]:
    return [
        sa.Column("organization_id", sa.Text),
        sa.Column("user_id", sa.Text),
        sa.Column("scope", sa.Text, nullable=False),
    ]


def insert_row(connection: sa.Connection, table: sa.Table, row: object) -> None:
    """Insert a row of a table of `make_table`."""
    connection.execute(sa.insert(table), row_values(row))


def read_rows(
    connection: sa.Connection,
    query: sa.Select[*tuple[Any, ...]],
    kind: Callable[..., Row],
    key: Mapping[str, Any] | None = None,
) -> list[Row]:
    """Return the rows of a query, each as the object that `kind` makes of its columns."""
    return [check_types(kind, row) for row in connection.execute(query, key).mappings()]


def read_row(
    connection: sa.Connection,
    query: sa.Select[*tuple[Any, ...]],
    kind: Callable[..., Row],
    key: Mapping[str, Any] | None = None,
) -> Row | None:
    """Return the first row of a query as `read_rows` does, or None."""
    row = connection.execute(query, key).mappings().first()
    return check_types(kind, row) if row else None


def count_rows(connection: sa.Connection, table: sa.Table, *conditions: sa.ColumnElement[bool]) -> int:
    """Return how many rows of a table meet all conditions."""
    return connection.execute(sa.select(sa.func.count()).select_from(table).where(*conditions)).scalar_one()


def belongs_to(table: sa.Table, organization_id: str, user_id: str | None) -> sa.ColumnElement[bool]:
    """Return the condition that a row belongs to a user of an organization; without a user, to any of its users."""
    in_organization = table.c.organization_id == organization_id
    return in_organization if user_id is None else sa.and_(in_organization, table.c.user_id == user_id)


def is_older(table: sa.Table, position: tuple[str, str]) -> sa.ColumnElement[bool]:
    """Return the condition that a row comes after the one with this time and id in a list that has the newest first."""
    return sa.tuple_(table.c.created_at, table.c.id) < sa.tuple_(*position)


def or_empty(column: sa.Column[str]) -> sa.ColumnElement[str]:
    """Return the column with NULL as '', written exactly as in the unique indexes, so that they are used."""
    return sa.func.coalesce(column, sa.literal_column("''"))


skills = sa.Table(
    "skills",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    *_tenant_columns(),
    sa.Column("slug", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),  # the title, for people
    *texts("description", "version"),
    sa.Column("tags", SEARCHABLE_JSON, nullable=False),
    *texts("source", "digest"),
    sa.Column("kinds", SEARCHABLE_JSON, nullable=False),
    sa.Column("form", sa.Text, nullable=False),
    sa.Column("author", sa.Text),
    *texts("created_at", "updated_at"),
    sa.Column("enabled", sa.Boolean, nullable=False, server_default=sa.true()),
    sa.Column("intent_patterns", SEARCHABLE_JSON, nullable=False),
    sa.Column("trigger_phrases", SEARCHABLE_JSON, nullable=False),
    sa.Column("marketplace_id", sa.Text),
    sa.Column("sync_etag", sa.Text),
    sa.Column("source_type", sa.Text, nullable=False),
    sa.Column("source_url", sa.Text),
    sa.Column("source_ref", sa.Text),
    sa.Column("source_id", sa.Text),
    sa.Column("content_length", sa.Integer, nullable=False),
    sa.Column("content_hash", sa.Text, nullable=False),
    sa.Column("package", sa.Text, nullable=False),  # the name of its folder, file or archive
    sa.Column("manifest", ORDERED_JSON, nullable=False),
    sa.Column("details", ORDERED_JSON, nullable=False),
    sa.Column("content", sa.Text, nullable=False),  # the whole SKILL.md, for people who query; empty without one
    # See `skill.reader_version` and `storage.seals`. They were added later, so SQLite keeps them behind `content`, and
    # reading one walks through the whole text (4,000 skills of 12 KB: 24 ms instead of 6). Where many skills are read, the
    # index answers instead.
    sa.Column("reader", sa.Text, nullable=False, server_default=sa.text("'0'")),
    sa.Column("seal", sa.Text, nullable=False, server_default=sa.text("''")),
    sa.Column("people_only", sa.Boolean, nullable=False, server_default=sa.false()),
)

skill_artifacts = sa.Table(
    "skill_artifacts",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("skill_id", sa.Text, sa.ForeignKey("skills.id", ondelete="CASCADE"), nullable=False),
    *_tenant_columns(),
    *texts("kind", "name"),
    sa.Column("ordinal", sa.Integer, nullable=False),
    sa.Column("position", sa.Integer, nullable=False),  # its place in the skill as it was read
    sa.Column("model_variant", sa.Text),
    sa.Column("path", sa.Text),
    *texts("created_at", "updated_at"),
    sa.Column("metadata", ORDERED_JSON, nullable=False),
    sa.Column("details", ORDERED_JSON, nullable=False),
    sa.Column("content", sa.Text, nullable=False),  # empty where the artifact is a file of the package
    sa.Column("state_blob", sa.LargeBinary),
)

skill_versions = sa.Table(
    "skill_versions",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    *_tenant_columns(),
    sa.Column("place", sa.Text, nullable=False),  # the skill folder it is about; '' for the database's own skills
    sa.Column("slug", sa.Text, nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    *texts("digest", "change", "created_at", "actor", "note", "form", "package"),
    sa.Column("manifest", ORDERED_JSON, nullable=False),
    sa.Column(
        "feed", sa.BigInteger, nullable=False, server_default=sa.text("0")
    ),  # its place in the feed, see `storage.versions`
)

skill_blobs = sa.Table(
    "skill_blobs",
    metadata,
    sa.Column("sha256", sa.Text, primary_key=True),
    sa.Column("size", sa.Integer, nullable=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
)

installation = sa.Table(
    "installation",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),  # random
    sa.Column("seal", sa.Text, nullable=False),  # of the id, by the installation that made or adopted the database
)

# In a unique index NULLs differ from each other: without `or_empty`, a single user could have two skills of one slug.
sa.Index(
    "uq_skills_tenant_slug",
    or_empty(skills.c.organization_id),
    or_empty(skills.c.user_id),
    skills.c.scope,
    skills.c.slug,
    unique=True,
)
sa.Index(
    "ix_skills_tenant_seal",
    or_empty(skills.c.organization_id),
    or_empty(skills.c.user_id),
    skills.c.scope,
    skills.c.reader,
    skills.c.slug,
    skills.c.seal,
    skills.c.people_only,
)
sa.Index(
    "uq_skill_artifacts_name_variant",
    skill_artifacts.c.skill_id,
    skill_artifacts.c.name,
    or_empty(skill_artifacts.c.model_variant),
    unique=True,
)
sa.Index(
    "uq_skill_versions_tenant_slug_number",
    or_empty(skill_versions.c.organization_id),
    or_empty(skill_versions.c.user_id),
    skill_versions.c.scope,
    skill_versions.c.place,
    skill_versions.c.slug,
    skill_versions.c.number,
    unique=True,
)
sa.Index(
    "ix_skill_versions_tenant_feed",
    or_empty(skill_versions.c.organization_id),
    or_empty(skill_versions.c.user_id),
    skill_versions.c.scope,
    skill_versions.c.place,
    skill_versions.c.feed,
)
