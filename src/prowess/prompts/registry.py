"""The registry: find the prompt or rubric that a generation or review names by id and version.

    registry = Registry(lambda: [FolderShelf(...), DatabaseShelf(...)], catalog)
    registry.prompt("outline", "2.0.0", skill=call.skill, organization=call.actor.organization)

The shelves come from a callable, nearest first. With a catalog, prompts of other skills are found as `slug/id`.
`Registry(lambda: [MemoryShelf(Prompt(...), Rubric(...))])` needs neither files nor a database. Everything here blocks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from prowess.errors import Conflict, Invalid, NotFound, Problem, ProwessError
from prowess.policy.subject import UsedEntry
from prowess.prompts.prompt import Prompt, Rubric, prompt_from_artifact, rubric_from_document
from prowess.prompts.shelf import EntryKind, RegistryEntry, Shelf
from prowess.skill.forms.form import error
from prowess.skill.forms.prompt_files import is_data, plain_text, read_rubric
from prowess.skill.kinds import Artifact, JsonGeneration, Kind, PromptTemplate, Review
from prowess.skill.model import Skill
from prowess.skill.semver import latest_version, version_key
from prowess.suggestions import did_you_mean

if TYPE_CHECKING:
    from prowess.catalog.catalog import Catalog


ARTIFACT_KINDS: Mapping[EntryKind, Kind] = {"prompt": "prompt_template", "rubric": "review"}
"""The kind of artifact that holds each kind of entry."""

SKILL_ORIGIN = "skill:"
"""Prefix of the origin of a skill's own entries."""
TRUSTED_ORIGINS = frozenset({"database", "memory"})
"""Where only people, or the application itself, put entries. Files may come from anyone."""


def entry_digest(value: Prompt | Rubric) -> str:
    """Return the SHA-256 of the content of an entry, wherever it was found."""
    content = {name: field for name, field in value.as_json().items() if name != "origin"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def check_used(value: Prompt | Rubric, admitted: Sequence[UsedEntry] | None) -> None:
    """Raise `Conflict` unless a run was let through the gate with exactly this entry; None admits everything."""
    if admitted is None or value.origin.startswith(SKILL_ORIGIN):
        return
    if entry_digest(value) not in {entry.digest for entry in admitted}:
        raise Conflict(
            f"{value.label!r} changed after this run was approved, so it is not used.", hint="Run the skill again."
        )


def skill_entries(skill: Skill, kind: EntryKind) -> list[RegistryEntry]:
    """Return the skill's own entries; of a prompt's variants, the default one."""
    return _prompts(skill) if kind == "prompt" else _rubrics(skill)


def _prompts(skill: Skill) -> list[RegistryEntry]:
    found: dict[tuple[str, str], RegistryEntry] = {}
    templates = [artifact for artifact in skill.artifacts if isinstance(artifact, PromptTemplate)]
    for artifact in sorted(templates, key=lambda one: (one.variant not in (None, "default"), one.ordinal)):
        prompt = prompt_from_artifact(artifact, f"{SKILL_ORIGIN}{skill.slug}")
        entry = RegistryEntry(
            kind="prompt",
            id=prompt.id,
            version=prompt.version,
            origin=prompt.origin,
            location=artifact.path or "",
            value=prompt,
        )
        found.setdefault((prompt.id, prompt.version), entry)
    return list(found.values())


def _rubrics(skill: Skill) -> list[RegistryEntry]:
    found: dict[tuple[str, str], RegistryEntry] = {}
    for artifact in skill.artifacts:
        if isinstance(artifact, Review) and artifact.content:
            entry = _rubric(artifact, f"{SKILL_ORIGIN}{skill.slug}")
            found.setdefault((entry.id, entry.version), entry)
    return list(found.values())


def _rubric(artifact: Review, origin: str) -> RegistryEntry:
    """Return the rubric in a review's text, under the id that the skill uses."""
    problems: list[Problem] = []
    ending = ".json" if artifact.content.lstrip("\ufeff \t\r\n").startswith("{") else ".yaml"
    path = artifact.path if artifact.path and is_data(artifact.path) else f"{artifact.rubric_id}{ending}"
    document = read_rubric(path, artifact.content.encode(), problems).object or {}
    entry = RegistryEntry(
        kind="rubric",
        id=artifact.rubric_id,
        version=plain_text(document.get("version")),
        origin=origin,
        location=artifact.path or "",
        value=None,
        problems=tuple(problems),
    )
    if not document or any(problem.severity == "error" for problem in problems):
        return entry
    return replace(entry, value=rubric_from_document(document, entry.id, entry.version, origin))


_NEAR = 5
_VERSIONS = 8


class Registry:
    """Finds prompts and rubrics: first among the skill's own, then on each shelf in turn.

    Without a version, the nearest place with the id decides: its latest release, or a pre-release if it has no other. With
    a version, the nearest place with exactly that version decides; a skill's own entry without a version serves every
    version. Entries of other skills are found as `slug/id` only, so that no skill can shadow another's.

    Raise `NotFound`, with what exists instead, and `Invalid`, with every problem, for an unusable entry: a farther place
    never stands in for it.
    """

    def __init__(self, shelves: Callable[[], Sequence[Shelf]], catalog: Catalog | None = None) -> None:
        self._shelves = shelves
        self._catalog = catalog

    def without_other_skills(self) -> Registry:
        """Return the registry for runs: other skills' entries are behind those skills' own gate."""
        return Registry(self._shelves)

    def prompt(self, id: str, version: str | None = None, *, skill: Skill | None = None, organization: str) -> Prompt:
        """Return a prompt for a skill, or in general, as an organization sees it."""
        entry = self.find("prompt", id, version, skill=skill, organization=organization)
        if isinstance(entry.value, Prompt):
            return entry.value
        raise unusable_entry(entry)

    def rubric(self, id: str, version: str | None = None, *, skill: Skill | None = None, organization: str) -> Rubric:
        """Return a rubric for a skill, or in general, as an organization sees it."""
        entry = self.find("rubric", id, version, skill=skill, organization=organization)
        if isinstance(entry.value, Rubric):
            return entry.value
        raise unusable_entry(entry)

    def prompts(self, *, organization: str) -> list[RegistryEntry]:
        """Return all prompts, including those of skills; nearest first, then by id and version."""
        return self._all("prompt", organization)

    def rubrics(self, *, organization: str) -> list[RegistryEntry]:
        """Return all rubrics, in the same order."""
        return self._all("rubric", organization)

    def find(
        self, kind: EntryKind, id: str, version: str | None = None, *, skill: Skill | None = None, organization: str
    ) -> RegistryEntry:
        """Return the entry for an id and version, even if it is unusable; raise `NotFound` if there is none."""
        there: list[RegistryEntry] = []
        for entries in self._places(kind, id, skill, organization):
            # An unusable entry is returned too: one farther off must not silently take its place.
            found = _choose(entries, version) if entries else None
            if found is not None:
                return found
            there += entries
        raise self._not_found(kind, id, version, there, organization)

    def list_used(self, skill: Skill, artifacts: Sequence[Artifact], *, organization: str) -> tuple[UsedEntry, ...]:
        """Return the entries that these artifacts of a skill take from the shelves, each with the one it hides.

        Missing and unusable entries are left out: using them fails anyway.
        """
        used: dict[UsedEntry, None] = {}
        for reference in filter(None, map(_reference, artifacts)):
            kind, named, version = reference
            places = self._places(kind, named, skill, organization)
            chosen = [entry for entries in places if entries and (entry := _choose(entries, version))]
            if not chosen or chosen[0].value is None or chosen[0].origin.startswith(SKILL_ORIGIN):
                continue
            first, digest = chosen[0], entry_digest(chosen[0].value)
            others = ((other, entry_digest(other.value)) for other in chosen[1:] if other.value is not None)
            hidden, hidden_digest = next(((one, other) for one, other in others if other != digest), (None, ""))
            entry = UsedEntry(
                kind=kind,
                label=first.label,
                digest=digest,
                origin=first.origin,
                location="" if first.origin in TRUSTED_ORIGINS else first.location or first.origin,
                hides=hidden.origin if hidden else "",
                hidden_digest=hidden_digest,
            )
            used[entry] = None
        return tuple(used)

    def _places(
        self, kind: EntryKind, id: str, skill: Skill | None, organization: str
    ) -> Iterator[Sequence[RegistryEntry]]:
        """Yield the entries of this id in each place, nearest first; farther places are read only if needed."""
        yield [entry for entry in skill_entries(skill, kind) if entry.id == id] if skill else []
        for shelf in self._shelves():
            yield shelf.entries(kind, organization, id)
        # Other skills only by address, so that none can replace another skill's prompt with its own.
        slug, slash, rest = id.partition("/")
        if slash:
            yield [entry for entry in self._of_skill(slug, kind) if entry.id == rest]

    def _of_skill(self, slug: str, kind: EntryKind) -> list[RegistryEntry]:
        """Return the entries of one skill; empty if there is no such skill."""
        try:
            return skill_entries(self._catalog.get(slug), kind) if self._catalog is not None else []
        except NotFound:
            return []

    def _all(self, kind: EntryKind, organization: str) -> list[RegistryEntry]:
        found: list[RegistryEntry] = []
        for shelf in self._shelves():
            found += sorted(shelf.entries(kind, organization), key=_order)
        cards = self._catalog.cards() if self._catalog is not None else []
        for card in cards:
            if ARTIFACT_KINDS[kind] in card.kinds:
                found += sorted(self._of_skill(card.slug, kind), key=_order)
        return found

    def _not_found(
        self, kind: EntryKind, id: str, version: str | None, there: Sequence[RegistryEntry], organization: str
    ) -> NotFound:
        if there:
            versions = sorted({entry.version for entry in there}, key=version_key, reverse=True)
            listed = ", ".join(number or "unversioned" for number in versions[:_VERSIONS])
            return NotFound(
                f"Version {version!r} of the {kind} {id!r} not found.", hint=f"Available versions: {listed}."
            )
        ids = sorted({_global_name(entry) for entry in self._all(kind, organization) if entry.value is not None})
        same = [entry_id for entry_id in ids if entry_id.rpartition("/")[2] == id]
        if same:
            hint = f"Use its full name: {', '.join(same[:_NEAR])}."
            return NotFound(f"The {kind} {id[:200]!r} exists only in a skill.", hint=hint)
        hint = did_you_mean(id, ids) or f"Add it with `prowess {kind}s add FILE`, or put it into {kind}s/."
        return NotFound(f"{kind.capitalize()} {id[:200]!r} not found.", hint=hint)


def _choose(entries: Sequence[RegistryEntry], version: str | None) -> RegistryEntry | None:
    """Return the entry for a version; a skill's own entry without a version has the version of its package."""
    chosen_version = version or latest_version(entry.version for entry in entries)
    # Reversed, so that the first of two entries with the same version wins.
    by_version = {entry.version: entry for entry in reversed(entries)}
    unversioned = by_version.get("")
    if unversioned is not None and not unversioned.origin.startswith(SKILL_ORIGIN):
        unversioned = None
    return by_version.get(chosen_version or "", unversioned)


def unusable_entry(entry: RegistryEntry) -> Invalid:
    """Return the error for an unusable entry."""
    errors = [problem for problem in entry.problems if problem.severity == "error"]
    first = errors[0].message if errors else "it cannot be read."
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    hint = errors[0].hint if errors else ""
    message = f"The {entry.kind} {entry.label!r} cannot be used: {first}{more}"
    return Invalid(message, hint=hint, problems=entry.problems)


def _global_name(entry: RegistryEntry) -> str:
    """Return the name that finds an entry from anywhere; a skill's own entry needs the slug."""
    slug = entry.origin.removeprefix(SKILL_ORIGIN)
    return entry.id if slug == entry.origin else f"{slug}/{entry.id}"


def _order(entry: RegistryEntry) -> tuple[str, object]:
    return entry.id, version_key(entry.version)


UNKNOWN_CODES = ("prompt-unknown", "rubric-unknown")
"""Problems that only the registry can decide."""


def add_reference_problems(
    skill: Skill, problems: Sequence[Problem], registry: Registry, organization: str
) -> tuple[Problem, ...]:
    """Return the problems of a skill, with the registry's findings instead of the package's guesses; errors first."""
    others = [problem for problem in problems if problem.code not in UNKNOWN_CODES]
    found = list(find_unresolved(skill, registry, organization))
    return (
        *(problem for problem in found if problem.severity == "error"),
        *others,
        *(problem for problem in found if problem.severity != "error"),
    )


def find_unresolved(skill: Skill, registry: Registry, organization: str) -> Iterator[Problem]:
    """Yield a problem for each prompt or rubric that the skill names and that is missing or unusable. Blocking."""
    for artifact in skill.artifacts:
        reference = _reference(artifact)
        if reference is None:
            continue
        kind, named, version = reference
        field = f"{artifact.name}.{kind}_id"
        try:
            entry = registry.find(kind, named, version, skill=skill, organization=organization)
        except NotFound as fault:
            yield error(f"{kind}-unknown", fault.message, fault.hint, field=field)
        except ProwessError as fault:  # a database that does not answer proves nothing
            yield Problem(
                code=f"{kind}-unknown", severity="warning", message=fault.message, hint=fault.hint, field=field
            )
        else:
            if entry.value is None:
                fault = unusable_entry(entry)
                yield error(f"{kind}-invalid", fault.message, fault.hint, field=field)


def _reference(artifact: Artifact) -> tuple[EntryKind, str, str | None] | None:
    if isinstance(artifact, JsonGeneration):
        return "prompt", artifact.prompt_id, artifact.prompt_version
    if isinstance(artifact, Review):
        return "rubric", artifact.rubric_id, artifact.rubric_version
    return None
