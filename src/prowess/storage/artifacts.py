"""Store artifacts as rows of `skill_artifacts`, for people and programs that query the tables.

Prowess itself reads artifacts from the files of the skill, whose digest proves that they are unchanged. It only uses these
rows to find the skill that an artifact belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from prowess.skill.kinds import KINDS, Artifact, DspyModule, Kind, is_plugin_kind
from prowess.skill.model import Skill
from prowess.storage.owner import Tenant
from prowess.storage.rows import LazyStatements, field_defaults

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.storage.sql import skills as sql
else:
    sql = LazyStatements("skills")

_OWN_COLUMNS = frozenset(
    {"id", "skill_id", "kind", "name", "ordinal", "content", "variant", "metadata", "path", "state", "revision"}
)


@cache
def _defaults(kind: Kind) -> dict[str, Any]:
    """Return the fields that a built-in kind adds to the columns, with their defaults."""
    model = KINDS[kind].model
    return field_defaults(model, tuple(name for name in model.model_fields if name not in _OWN_COLUMNS))


def owner_of(connection: sa.Connection, tenant: Tenant, artifact_id: str) -> str | None:
    """Return the id of the skill that an artifact belongs to, or None."""
    found = sql.ARTIFACT_OWNER.first(connection, {**tenant.key, "which": artifact_id})
    return found[0] if found else None


def replace_artifacts(connection: sa.Connection, tenant: Tenant, skills: Iterable[Skill], old: list[str]) -> None:
    """Write the artifacts of these skills. Those of the skill ids in `old` are replaced and keep their creation time."""
    created: dict[str, str] = {}
    if old:
        key = tenant.key
        if len(old) == 1:  # most writes are about one skill
            created = dict(sql.ARTIFACTS_MADE_OF.rows(connection, {**key, "of": old[0]}))
        else:
            created = dict(sql.ARTIFACTS_MADE.rows(connection, {**key, "of": old}))
        sql.DELETE_ARTIFACTS.run(connection, [{**key, "of": skill_id} for skill_id in old])
    rows = [
        _row(artifact, tenant, position, created.get(artifact.id, skill.updated_at), skill.updated_at)
        for skill in skills
        for position, artifact in enumerate(skill.artifacts)
    ]
    if rows:
        sql.INSERT_ARTIFACTS.run(connection, rows)


def _row(artifact: Artifact, tenant: Tenant, position: int, created_at: str, updated_at: str) -> dict[str, Any]:
    state = artifact.state if isinstance(artifact, DspyModule) else None
    return {
        **tenant.columns,
        "id": artifact.id,
        "skill_id": artifact.skill_id,
        "kind": artifact.kind,
        "name": artifact.name,
        "ordinal": artifact.ordinal,
        "position": position,
        "model_variant": artifact.variant,
        "path": artifact.path,
        "created_at": created_at,
        "updated_at": updated_at,
        "metadata": artifact.metadata,
        "details": _details(artifact),
        "content": artifact.content,
        "state_blob": None if state is None else state.encode(),
    }


def _details(artifact: Artifact) -> dict[str, Any]:
    """Return the fields that the kind adds and that differ from their defaults."""
    if is_plugin_kind(artifact.kind):
        return artifact.model_dump(mode="json", exclude=set(_OWN_COLUMNS), exclude_defaults=True)
    values = {name: (getattr(artifact, name), default) for name, default in _defaults(artifact.kind).items()}
    return {name: value for name, (value, default) in values.items() if value != default}
