"""Store artifacts as rows of `skill_artifacts`; read them by kind, or only the outline of a skill."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa
from pydantic import ValidationError

from prowess.skill.form_info import form_info
from prowess.skill.kinds import KINDS, Artifact, DspyModule, Kind, UnknownArtifact, is_plugin_kind, kind_info
from prowess.skill.model import Provenance, Skill
from prowess.skill.needs import parse_needs
from prowess.skill.outline import ArtifactOutline, SkillOutline
from prowess.storage.blobs import load_manifest
from prowess.storage.rows import build_model, check_reader, decode_json, field_defaults, fill_defaults, raw_json
from prowess.storage.tables import skill_artifacts, skills
from prowess.storage.tenant import Tenant, tenant_condition

_OWN_COLUMNS = frozenset(
    {"id", "skill_id", "kind", "name", "ordinal", "content", "variant", "metadata", "path", "state", "revision"}
)


@cache
def _defaults(kind: Kind) -> dict[str, Any]:
    """Return the fields that a built-in kind adds to the columns, with their defaults."""
    model = KINDS[kind].model
    return field_defaults(model, tuple(name for name in model.model_fields if name not in _OWN_COLUMNS))


ARTIFACT_COLUMNS = (
    skill_artifacts.c.position,
    skill_artifacts.c.id,
    skill_artifacts.c.kind,
    skill_artifacts.c.name,
    skill_artifacts.c.ordinal,
    skill_artifacts.c.model_variant,
    skill_artifacts.c.path,
    raw_json(skill_artifacts.c.metadata),
    raw_json(skill_artifacts.c.details),
    skill_artifacts.c.content,
    skill_artifacts.c.state_blob,
)
"""The columns of a row for `to_artifact`."""

_OWNER = sa.select(skill_artifacts.c.skill_id).where(
    tenant_condition(skill_artifacts), skill_artifacts.c.id == sa.bindparam("which")
)
_MADE = sa.select(skill_artifacts.c.id, skill_artifacts.c.created_at).where(
    tenant_condition(skill_artifacts), skill_artifacts.c.skill_id.in_(sa.bindparam("of", expanding=True))
)
_DELETE = sa.delete(skill_artifacts).where(
    tenant_condition(skill_artifacts), skill_artifacts.c.skill_id.in_(sa.bindparam("of", expanding=True))
)
_INSERT = sa.insert(skill_artifacts)


def to_artifact(row: Sequence[Any], skill_id: str, digest: str) -> Artifact:
    """Return the artifact of the `ARTIFACT_COLUMNS` of a row."""
    _, artifact_id, kind, name, ordinal, variant, path, metadata, details, content, state = row
    values = {
        **(decode_json(details) if is_plugin_kind(kind) else fill_defaults(_defaults(kind), decode_json(details))),
        "name": name,
        "ordinal": ordinal,
        "content": content,
        "path": path,
        "variant": variant,
        "metadata": decode_json(metadata),
        "id": artifact_id,
        "skill_id": skill_id,
        "revision": digest,
        "kind": kind,
    }
    if kind == "dspy_module":
        values["state"] = None if state is None else bytes(state).decode()
    return _plugin_artifact(kind, values) if is_plugin_kind(kind) else build_model(KINDS[kind].model, values)


def _plugin_artifact(kind: Kind, values: dict[str, Any]) -> Artifact:
    """Build an artifact of a plugin's kind, which is validated each time.

    The row may have been written while the plugin was not installed, or by another version of it. Values that its model
    rejects now are kept unchanged, as they are without the plugin.
    """
    try:
        return kind_info(kind).model.model_validate(values)
    except ValidationError:
        return UnknownArtifact.model_validate(values)


def owner_of(connection: sa.Connection, tenant: Tenant, artifact_id: str) -> str | None:
    """Return the id of the skill that an artifact belongs to, or None."""
    return connection.execute(_OWNER, {**tenant.key, "which": artifact_id}).scalar()


def replace_artifacts(connection: sa.Connection, tenant: Tenant, skills: Iterable[Skill], old: list[str]) -> None:
    """Write the artifacts of these skills. Those of the skill ids in `old` are replaced and keep their creation time."""
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
    """Return the fields that the kind adds and that differ from their defaults."""
    if is_plugin_kind(artifact.kind):
        return artifact.model_dump(mode="json", exclude=set(_OWN_COLUMNS), exclude_defaults=True)
    values = {name: (getattr(artifact, name), default) for name, default in _defaults(artifact.kind).items()}
    return {name: value for name, (value, default) in values.items() if value != default}


_PROVENANCE_COLUMNS = tuple(Provenance.model_fields)
_OUTLINE = sa.select(
    skills.c.id,
    skills.c.slug,
    skills.c.name,
    skills.c.description,
    skills.c.version,
    skills.c.digest,
    skills.c.form,
    skills.c.reader,
    raw_json(skills.c.tags),
    raw_json(skills.c.manifest),
    raw_json(skills.c.details),
    *(skills.c[name] for name in _PROVENANCE_COLUMNS),
).where(tenant_condition(skills), skills.c.slug == sa.bindparam("which"))
_PARTS = (
    sa.select(
        skill_artifacts.c.id,
        skill_artifacts.c.kind,
        skill_artifacts.c.name,
        skill_artifacts.c.ordinal,
        skill_artifacts.c.model_variant,
        skill_artifacts.c.path,
    )
    .where(tenant_condition(skill_artifacts), skill_artifacts.c.skill_id == sa.bindparam("of"))
    .order_by(skill_artifacts.c.position)
)
_OWNED = skill_artifacts.c.skill_id == skills.c.id
_OF_KINDS_ONLY = sa.and_(_OWNED, skill_artifacts.c.kind.in_(sa.bindparam("kinds", expanding=True)))
_SKILL_AND_ARTIFACTS = sa.select(skills.c.slug, skills.c.reader, skills.c.digest, *ARTIFACT_COLUMNS).where(
    tenant_condition(skills), skills.c.id == sa.bindparam("of")
)
# Outer joins, so that the reader version is there even if no artifact is of these kinds: a newer reader may find one.
_OF_SKILL = _SKILL_AND_ARTIFACTS.select_from(skills.outerjoin(skill_artifacts, _OWNED))
_OF_KINDS = _SKILL_AND_ARTIFACTS.select_from(skills.outerjoin(skill_artifacts, _OF_KINDS_ONLY))


def get_outline(connection: sa.Connection, tenant: Tenant, slug: str, location: str) -> SkillOutline | None:
    """Return the outline of a skill without reading the content of any artifact or file; raise `StaleRow` if outdated."""
    row = connection.execute(_OUTLINE, {**tenant.key, "which": slug}).mappings().first()
    if row is None:
        return None
    check_reader(slug, row["reader"])
    details: dict[str, Any] = decode_json(row["details"])
    parts = connection.execute(_PARTS, {**tenant.key, "of": row["id"]})
    return SkillOutline(
        id=row["id"],
        slug=row["slug"],
        title=row["name"],
        description=row["description"],
        version=row["version"],
        tags=tuple(decode_json(row["tags"])),
        scope=tenant.scope,
        location=location,
        provenance=build_model(Provenance, {name: row[name] for name in _PROVENANCE_COLUMNS}),
        digest=row["digest"],
        manifest=load_manifest(decode_json(row["manifest"])),
        allowed_tools=tuple(details.get("allowed_tools", ())),
        frontmatter=details.get("frontmatter"),
        parts=tuple(
            ArtifactOutline(id=part_id, kind=kind, name=name, ordinal=ordinal, variant=variant, path=path)
            for part_id, kind, name, ordinal, variant, path in parts
        ),
        needs=parse_needs(details.get("extra", {}) if form_info(row["form"]).has_needs else {}),
    )


def get_artifacts(connection: sa.Connection, tenant: Tenant, skill_id: str, kinds: Collection[Kind]) -> list[Artifact]:
    """Return the artifacts of these kinds, or of all if none is given; raise `StaleRow` if outdated."""
    which = {**tenant.key, "of": skill_id}
    found = (
        connection.execute(_OF_KINDS, {**which, "kinds": list(kinds)})
        if kinds
        else connection.execute(_OF_SKILL, which)
    )
    rows = found.all()
    if rows:
        check_reader(rows[0].slug, rows[0].reader)
    # Without a matching artifact, the outer join gives one row whose artifact columns are NULL.
    return [to_artifact(row[3:], skill_id, row.digest) for row in rows if row[3] is not None]
