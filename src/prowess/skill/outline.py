"""The outline of a skill: everything but the content of its artifacts, so that a step reads only the content that it needs."""

from __future__ import annotations

from prowess.lazy_dataclass import dataclass
from prowess.skill.filenames import SIDECAR, is_script_name, is_skill_md
from prowess.skill.kinds import Kind, kind_info
from prowess.skill.model import Provenance, Scope, Skill
from prowess.skill.needs import Needs, read_needs
from prowess.skill.package import FileEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactOutline:
    """An artifact without its content."""

    id: str
    kind: Kind
    name: str
    ordinal: int = 0
    variant: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillOutline:
    """A skill without the content of its artifacts and files. `manifest` and `digest` are those of its files.

    `needs` are those of the manifest. Needs that only an artifact implies are included if the whole skill was read.
    """

    id: str
    slug: str
    title: str
    description: str
    version: str
    tags: tuple[str, ...]
    scope: Scope
    location: str
    provenance: Provenance
    digest: str
    manifest: tuple[FileEntry, ...]
    allowed_tools: tuple[str, ...]
    frontmatter: str | None
    parts: tuple[ArtifactOutline, ...]
    needs: Needs
    people_only: bool = False

    @classmethod
    def of(cls, skill: Skill) -> SkillOutline:
        """Return the outline of a skill that has been read."""
        parts = tuple(
            ArtifactOutline(
                id=artifact.id,
                kind=artifact.kind,
                name=artifact.name,
                ordinal=artifact.ordinal,
                variant=artifact.variant,
                path=artifact.path,
            )
            for artifact in skill.artifacts
        )
        return cls(
            id=skill.id,
            slug=skill.slug,
            title=skill.title,
            description=skill.description,
            version=skill.version,
            tags=skill.tags,
            scope=skill.scope,
            location=skill.location,
            provenance=skill.provenance,
            digest=skill.digest,
            manifest=skill.manifest,
            allowed_tools=skill.allowed_tools,
            frontmatter=skill.frontmatter,
            parts=parts,
            needs=read_needs(skill),
            people_only=skill.people_only,
        )

    def of_kind(self, kind: Kind) -> tuple[ArtifactOutline, ...]:
        """Return the artifacts of one kind, in their order."""
        found = [part for part in self.parts if part.kind == kind]
        return tuple(sorted(found, key=lambda part: (part.ordinal, part.name, part.variant or "")))

    def file(self, path: str) -> FileEntry | None:
        """Return the manifest entry of exactly this path, or None."""
        return next((entry for entry in self.manifest if entry.path == path), None)

    def file_part(self, kind: Kind, name: str) -> ArtifactOutline | None:
        """Return the artifact of a file kind by its name or its exact path, or None."""
        parts = self.of_kind(kind) if kind_info(kind).is_file else ()
        by_name = next((part for part in parts if part.name == name), None)
        return by_name or next((part for part in parts if part.path == name), None)

    def find_file(self, kind: Kind, name: str) -> str | None:
        """Return the path of a reference or script by its name or exact path, also outside of `references/` and `scripts/`.

        Many skills have documents next to SKILL.md and scripts in their own folders. What could run counts as a script only.
        """
        part = self.file_part(kind, name)
        if part is not None:
            return part.path
        if self.file(name) is None or is_skill_md(name) or name == SIDECAR:
            return None
        is_script = is_script_name(name) or self.file_part("script", name) is not None
        return name if is_script == (kind == "script") else None
