"""The skill itself, its card, and where it came from."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from functools import cache
from typing import Any, Literal, get_args

from pydantic import Field, field_validator

from prowess.errors import NotFound
from prowess.skill.form_info import FormName
from prowess.skill.kinds import (
    AnyArtifact,
    Artifact,
    FrozenModel,
    JsonObject,
    Kind,
    Reference,
    Script,
    construct,
    kind_info,
)
from prowess.skill.package import FileEntry
from prowess.skill.slug import check_slug

Scope = Literal["session", "workspace", "user", "org", "account", "system"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
"""Nearest first: a skill in a nearer scope hides the skills with the same slug in farther ones."""

SourceName = Literal["system", "community", "user"]


class Provenance(FrozenModel):
    """Where a skill came from, as far as it is known."""

    source: SourceName = "user"
    source_type: Literal["manual", "github", "url", "marketplace"] = "manual"
    source_url: str | None = None
    source_ref: str | None = None
    source_id: str | None = None
    marketplace_id: str | None = None
    sync_etag: str | None = None


class ShadowedSkill(FrozenModel):
    """A skill that is hidden by one with the same slug in a nearer scope."""

    scope: Scope
    source: SourceName
    digest: str


class SkillCard(FrozenModel):
    """The part of a skill that matching and the index may see; never its content."""

    slug: str
    title: str
    description: str
    version: str
    tags: tuple[str, ...]
    scope: Scope
    source: SourceName
    digest: str
    kinds: tuple[Kind, ...]
    chars: int = 0
    """The characters that the skill takes in a prompt, as its budget counts them; 0 if it has no text for one."""
    people_only: bool = False
    """True if agents are not offered the skill: only people start it."""
    hides: tuple[ShadowedSkill, ...] = ()
    trust: str = ""
    """The skill's trust level here; '' if it was not looked up."""
    enabled: bool = True
    """False if an administrator has switched the skill off for the organization."""

    def has_tags(self, tags: Iterable[str]) -> bool:
        """Return True if the skill has all of these tags, in upper or lower case."""
        wanted = {tag.casefold() for tag in tags}
        return not wanted or wanted <= {tag.casefold() for tag in self.tags}

    def as_json(self) -> JsonObject:
        """Return the same as `model_dump(mode="json")` without building pydantic's serializer, which would take a tenth of the time of a short command."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {
            **values,
            "tags": [*self.tags],
            "kinds": [*self.kinds],
            "hides": [dict(hidden) for hidden in self.hides],
        }


class Skill(FrozenModel):
    """One skill, whatever form it came in.

    The files are the source of truth: `manifest` and `digest` identify them, and everything else was read from them.
    `frontmatter` is the raw text between the markers, verbatim; `extra` has the fields that Prowess does not interpret.
    `id`, `scope`, `location`, the dates and `content_length` are set by the store that keeps the skill. `content_length` is
    how many characters the skill takes in a prompt, as the budget of a session counts them.
    """

    slug: str
    title: str
    description: str
    described: bool = True
    """False if the author gave no description, and the first words of the text are shown in its place."""
    version: str = "1.0.0"
    tags: tuple[str, ...] = ()
    author: str | None = None
    license: str | None = None
    compatibility: str | None = None
    allowed_tools: tuple[str, ...] = ()
    metadata: JsonObject = Field(default_factory=dict)
    when_to_use: str | None = None
    trigger_phrases: tuple[str, ...] = ()
    intent_patterns: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    people_only: bool = False
    """True if its author wants only people to start it (`disable-model-invocation`)."""
    parameters: JsonObject | None = None
    output_schema: JsonObject | None = None
    policy: JsonObject = Field(default_factory=dict)
    extra: JsonObject = Field(default_factory=dict)
    frontmatter: str | None = None
    # Constructed without validation, whose schema would be built whenever this module is imported.
    provenance: Provenance = Provenance.model_construct()
    artifacts: tuple[AnyArtifact, ...] = ()
    form: FormName = "native"
    manifest: tuple[FileEntry, ...] = ()
    digest: str = ""
    content_length: int = 0
    id: str = ""
    scope: Scope = "session"
    location: str = ""
    created_at: str = ""
    updated_at: str = ""

    @field_validator("slug")
    @classmethod
    def _slug_by_pattern(cls, slug: str) -> str:
        return check_slug(slug)

    @property
    def name(self) -> str:
        """The last segment of the slug, which is also the name of its folder."""
        return self.slug.rpartition(".")[2]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of its artifacts, each once, in order of appearance."""
        return tuple(dict.fromkeys(artifact.kind for artifact in self.artifacts))

    @property
    def body(self) -> str:
        """The instructions that would enter a prompt; '' if the skill has none."""
        return next((artifact.content for artifact in self.artifacts if artifact.kind == "instructions"), "")

    @property
    def searched_description(self) -> str:
        """The description that search may rank; '' if the author gave none, so that the skill is not ranked."""
        return self.description if self.described else ""

    @property
    def card(self) -> SkillCard:
        """The part that may be shown before the skill is chosen."""
        return self._card(self.scope, self.content_length, self.provenance.source)

    def card_as(self, scope: Scope, chars: int) -> SkillCard:
        """Return the card for a scope, of a skill whose origin nobody recorded. `chars` is its length in a prompt."""
        return self._card(scope, chars, unrecorded(scope).source)

    def _card(self, scope: Scope, chars: int, source: SourceName) -> SkillCard:
        values: dict[str, Any] = {
            "slug": self.slug,
            "title": self.title,
            "description": self.description,
            "version": self.version,
            "tags": self.tags,
            "scope": scope,
            "source": source,
            "digest": self.digest,
            "kinds": self.kinds,
            "chars": chars,
            "people_only": self.people_only,
        }
        # The values were checked with the skill. Building pydantic's validator takes a tenth of a short command.
        return construct(SkillCard, {**values, "hides": (), "trust": "", "enabled": True}, set(values))

    def artifact(self, name: str, variant: str | None = None) -> Artifact | None:
        """Return the artifact with this name and variant, or None."""
        return next((a for a in self.artifacts if a.name == name and a.variant == variant), None)

    def find_artifact(self, name: str, kind: Kind | None = None) -> Artifact:
        """Return an artifact by its name or `name@variant`, a file also by its path; with `kind`, only one of that kind.

        With the kind of a reference or a script, files in other folders are found by their path, too. Raise `NotFound`, with the
        names that there are.
        """
        candidates = [artifact for artifact in self.artifacts if kind in (None, artifact.kind)]
        named = [artifact for artifact in candidates if name in _artifact_names(artifact)]
        found = min(named, key=lambda artifact: _artifact_names(artifact).index(name), default=None)
        if found is None and (other := self.file_at(name)) is not None and other.kind == kind:
            return other
        if found is None:
            there = ", ".join(_artifact_names(artifact)[0] for artifact in candidates)
            raise NotFound(f"{self.slug!r} has no {kind or 'artifact'} {name!r}.", hint=f"It has: {there or 'none'}.")
        return found

    def file_at(self, path: str) -> Script | Reference | None:
        """Return the artifact for a script or document outside of the standard folders, by its path, or None."""
        from prowess.skill.filenames import MAX_ARTIFACT_NAME_CHARS, is_script_name  # not needed by a list

        if len(path) > MAX_ARTIFACT_NAME_CHARS or path not in self.other_files:
            return None
        return Script(name=path, path=path) if is_script_name(path) else Reference(name=path, path=path)

    @property
    def other_files(self) -> tuple[str, ...]:
        """The paths of files that are neither the document, nor the sidecar, nor an artifact."""
        from prowess.skill.filenames import SIDECAR, is_marker

        if len(self.manifest) == 1:
            return ()  # the document, whatever its name
        taken = {SIDECAR, *(artifact.path for artifact in self.artifacts)}
        return tuple(entry.path for entry in self.manifest if entry.path not in taken and not is_marker(entry.path))

    def kept_as(
        self, *, id: str, scope: Scope, location: str = "", provenance: Provenance | None = None, **dates: Any
    ) -> Skill:
        """Return the skill as a store keeps it: with its id, and with ids of its artifacts that are derived from it.

        `provenance` is where it came from as it was recorded when it arrived. What its files say about that does not count, nor
        what a workspace records: its database may come from anyone, and nothing that is fetched is kept in it.
        """
        artifacts = tuple(
            artifact.model_copy(
                update={"id": artifact_id(id, artifact.name, artifact.variant), "skill_id": id, "revision": self.digest}
            )
            for artifact in self.artifacts
        )
        from prowess.skill.prompt_block import prompt_chars

        if provenance is None or scope == "workspace":
            provenance = unrecorded(scope)
        length = prompt_chars(self, scope, provenance)
        changes = {
            "id": id,
            "content_length": length,
            "scope": scope,
            "location": location,
            "provenance": provenance,
            "artifacts": artifacts,
            **dates,
        }
        return self.model_copy(update=changes)


@cache
def unrecorded(scope: Scope) -> Provenance:
    """Return the provenance of a skill for which none was recorded: in the system scope, Prowess or a plugin brings it."""
    # Not validated: that would build the validator of the model, which a short command does without.
    return Provenance.model_construct(source="system" if scope == "system" else "user")


def _artifact_names(artifact: Artifact) -> tuple[str, ...]:
    """Return the names that an artifact can be found by, the most specific first."""
    if kind_info(artifact.kind).is_file and artifact.path:
        return (artifact.name, artifact.path)
    if artifact.variant is None:
        return (artifact.name,)
    return (f"{artifact.name}@{artifact.variant}", artifact.name)


def artifact_id(skill_id: str, name: str, variant: str | None) -> str:
    """Return the id of an artifact, which is the same for the same skill, name and variant in every store."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, "\x00".join([skill_id, name, variant or ""])))


class Version(FrozenModel):
    """One accepted change of a skill, kept permanently; `change` says what was done."""

    slug: str
    number: int
    digest: str
    change: Literal["create", "update", "delete", "rollback"]
    created_at: str
    actor: str = ""
    note: str = ""
    form: FormName = "native"
    manifest: tuple[FileEntry, ...] = ()
