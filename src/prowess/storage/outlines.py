"""What a skill consists of without reading any of it, and artifacts of chosen kinds."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from prowess.skill.kinds import KINDS, Artifact, Kind
from prowess.skill.model import Provenance
from prowess.skill.needs import NEED_FORMS, needs_said
from prowess.skill.outline import Outline, Part
from prowess.storage.artifacts import COLUMNS, artifact_of
from prowess.storage.blobs import manifest_of
from prowess.storage.rows import built, decoded, raw
from prowess.storage.tables import skill_artifacts, skills
from prowess.storage.tenant import Tenant, belongs

_ORIGIN = tuple(Provenance.model_fields)
_OUTLINE = sa.select(
    skills.c.id,
    skills.c.slug,
    skills.c.name,
    skills.c.description,
    skills.c.version,
    skills.c.digest,
    skills.c.form,
    raw(skills.c.tags),
    raw(skills.c.manifest),
    raw(skills.c.details),
    *(skills.c[name] for name in _ORIGIN),
).where(belongs(skills), skills.c.slug == sa.bindparam("which"))
_PARTS = (
    sa.select(
        skill_artifacts.c.id,
        skill_artifacts.c.kind,
        skill_artifacts.c.name,
        skill_artifacts.c.ordinal,
        skill_artifacts.c.model_variant,
        skill_artifacts.c.path,
    )
    .where(belongs(skill_artifacts), skill_artifacts.c.skill_id == sa.bindparam("of"))
    .order_by(skill_artifacts.c.position)
)
_OF_KINDS = (
    sa.select(skills.c.digest, *COLUMNS)
    .select_from(skill_artifacts.join(skills))
    .where(
        belongs(skill_artifacts),
        skill_artifacts.c.skill_id == sa.bindparam("of"),
        skill_artifacts.c.kind.in_(sa.bindparam("kinds", expanding=True)),
    )
)


def get_outline(connection: sa.Connection, tenant: Tenant, slug: str, location: str) -> Outline | None:
    """The outline of one skill; no artifact's content and no file is read."""
    row = connection.execute(_OUTLINE, {**tenant.key, "which": slug}).mappings().first()
    if row is None:
        return None
    details: dict[str, Any] = decoded(row["details"])
    parts = connection.execute(_PARTS, {**tenant.key, "of": row["id"]})
    return Outline(
        id=row["id"],
        slug=row["slug"],
        title=row["name"],
        description=row["description"],
        version=row["version"],
        tags=tuple(decoded(row["tags"])),
        scope=tenant.scope,
        location=location,
        provenance=built(Provenance, {name: row[name] for name in _ORIGIN}),
        digest=row["digest"],
        manifest=manifest_of(decoded(row["manifest"])),
        allowed_tools=tuple(details.get("allowed_tools", ())),
        frontmatter=details.get("frontmatter"),
        parts=tuple(
            Part(id=part_id, kind=kind, name=name, ordinal=ordinal, variant=variant, path=path)
            for part_id, kind, name, ordinal, variant, path in parts
        ),
        needs=needs_said(details.get("extra", {}) if row["form"] in NEED_FORMS else {}),
    )


def get_artifacts(connection: sa.Connection, tenant: Tenant, skill_id: str, kinds: Collection[Kind]) -> list[Artifact]:
    """The artifacts of these kinds, or of all; no other is read."""
    rows = connection.execute(_OF_KINDS, {**tenant.key, "of": skill_id, "kinds": list(kinds or KINDS)})
    return [artifact_of(row[1:], skill_id, row[0]) for row in rows]
