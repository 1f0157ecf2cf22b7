"""Artifacts as rows of `skill_artifacts`, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast, get_args

import sqlalchemy as sa

from prowess.skill.kinds import Artifact, ArtifactFields, DspyModule
from prowess.skill.model import Skill
from prowess.storage.rows import built, decoded, defaults_of, filled, raw
from prowess.storage.tables import skill_artifacts
from prowess.storage.tenant import Tenant, belongs

_MODELS: dict[str, type[ArtifactFields]] = {
    model.model_fields["kind"].default: model for model in get_args(get_args(Artifact)[0])
}
_COLUMNS = frozenset(
    {"id", "skill_id", "kind", "name", "ordinal", "content", "variant", "metadata", "path", "state", "revision"}
)
_DETAILS: dict[str, tuple[str, ...]] = {
    kind: tuple(name for name in model.model_fields if name not in _COLUMNS) for kind, model in _MODELS.items()
}
_DEFAULTS: dict[str, dict[str, Any]] = {kind: defaults_of(model, _DETAILS[kind]) for kind, model in _MODELS.items()}

COLUMNS = (
    skill_artifacts.c.position,
    skill_artifacts.c.id,
    skill_artifacts.c.kind,
    skill_artifacts.c.name,
    skill_artifacts.c.ordinal,
    skill_artifacts.c.model_variant,
    skill_artifacts.c.path,
    raw(skill_artifacts.c.metadata),
    raw(skill_artifacts.c.details),
    skill_artifacts.c.content,
    skill_artifacts.c.state_blob,
)
"""What a row that `artifact_of` takes consists of."""

_OWNER = sa.select(skill_artifacts.c.skill_id).where(
    belongs(skill_artifacts), skill_artifacts.c.id == sa.bindparam("which")
)
_MADE = sa.select(skill_artifacts.c.id, skill_artifacts.c.created_at).where(
    belongs(skill_artifacts), skill_artifacts.c.skill_id.in_(sa.bindparam("of", expanding=True))
)
_DELETE = sa.delete(skill_artifacts).where(
    belongs(skill_artifacts), skill_artifacts.c.skill_id.in_(sa.bindparam("of", expanding=True))
)
_INSERT = sa.insert(skill_artifacts)


def artifact_of(row: Sequence[Any], skill_id: str, digest: str) -> Artifact:
    """The artifact that stands in the `COLUMNS` of a row."""
    _, artifact_id, kind, name, ordinal, variant, path, metadata, details, content, state = row
    values = {
        **filled(_DEFAULTS[kind], decoded(details)),
        "name": name,
        "ordinal": ordinal,
        "content": content,
        "path": path,
        "variant": variant,
        "metadata": decoded(metadata),
        "id": artifact_id,
        "skill_id": skill_id,
        "revision": digest,
        "kind": kind,
    }
    if kind == "dspy_module":
        values["state"] = None if state is None else bytes(state).decode()
    return cast("Artifact", built(_MODELS[kind], values))


def owner_of(connection: sa.Connection, tenant: Tenant, artifact_id: str) -> str | None:
    """The id of the skill that an artifact belongs to."""
    return connection.execute(_OWNER, {**tenant.key, "which": artifact_id}).scalar()


def replace_artifacts(connection: sa.Connection, tenant: Tenant, skills: Iterable[Skill], old: list[str]) -> None:
    """Write the artifacts of these skills; those of the ids in `old` are replaced and keep their date of birth."""
    born: dict[str, str] = {}
    if old:
        born = {row.id: row.created_at for row in connection.execute(_MADE, {**tenant.key, "of": old})}
        connection.execute(_DELETE, {**tenant.key, "of": old})
    rows = [
        _row(artifact, tenant, place, born.get(artifact.id, skill.updated_at), skill.updated_at)
        for skill in skills
        for place, artifact in enumerate(skill.artifacts)
    ]
    if rows:
        connection.execute(_INSERT, rows)


def _row(artifact: Artifact, tenant: Tenant, place: int, created_at: str, updated_at: str) -> dict[str, Any]:
    state = artifact.state if isinstance(artifact, DspyModule) else None
    return {
        **tenant.columns,
        "id": artifact.id,
        "skill_id": artifact.skill_id,
        "kind": artifact.kind,
        "name": artifact.name,
        "ordinal": artifact.ordinal,
        "position": place,
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
    """What the kind adds, and what differs from its default."""
    defaults = _DEFAULTS[artifact.kind]
    values = {name: getattr(artifact, name) for name in _DETAILS[artifact.kind]}
    return {name: value for name, value in values.items() if value != defaults[name]}
