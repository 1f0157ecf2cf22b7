"""Prompts and rubrics by id and version: find, check, add and remove them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from prowess.engine.context import Context, Part
from prowess.errors import Invalid
from prowess.skill.kinds import JsonGeneration, Review
from prowess.skill.needs import list_reached_artifacts
from prowess.threads import offload

if TYPE_CHECKING:
    from prowess.policy.subject import UsedEntry
    from prowess.prompts.shelf import EntryKind, RegistryEntry
    from prowess.skill.model import Skill


class Registry(Part):
    """The prompts and rubrics that skills refer to."""

    async def list(self, kind: EntryKind) -> list[RegistryEntry]:
        """Return every available prompt or rubric, nearest first, including those with problems."""
        _check_kind(kind)
        actor = self._context.actor
        actor.require("skills.read")

        def read() -> list[RegistryEntry]:
            registry = self._context.resources.registry
            find = registry.prompts if kind == "prompt" else registry.rubrics
            return find(organization=actor.organization)

        return await offload(read)

    async def get(self, kind: EntryKind, id: str, version: str | None = None, *, skill: str = "") -> RegistryEntry:
        """Return the latest release of an id, or exactly this version; with `skill`, as that skill finds it.

        Raise `NotFound` if there is none. An entry without a value has problems that say why.
        """
        _check_kind(kind)
        actor = self._context.actor
        actor.require("skills.read")

        def read() -> RegistryEntry:
            referring = self._context.catalog.get(skill) if skill else None
            registry = self._context.resources.registry
            return registry.find(kind, id, version, skill=referring, organization=actor.organization)

        return await offload(read)

    async def check(self, kind: EntryKind, *paths: str | Path) -> list[RegistryEntry]:
        """Return the entries in these files, or in the files directly in these folders, with their problems."""
        from prowess.prompts.folder_shelf import read_entry_files

        _check_kind(kind)
        return await offload(
            lambda: list(read_entry_files(kind, [Path(path) for path in paths], self._context.resources.limits))
        )

    async def add(self, kind: EntryKind, path: str | Path) -> tuple[RegistryEntry, bool]:
        """Store a prompt or rubric from a file for the organization; return it, and True if it is new.

        Only a person can do this. Raise `Conflict` if this version is stored with other content.
        """
        from prowess.prompts.database_shelf import RegistryWriter
        from prowess.prompts.folder_shelf import read_entry_files

        _check_kind(kind)
        resources = self._context.resources

        def add() -> tuple[RegistryEntry, bool]:
            found = list(read_entry_files(kind, [Path(path)], resources.limits))
            if len(found) != 1:
                raise Invalid(
                    f"{str(path)!r} does not contain exactly one {kind}.", hint="Pass the path of a single file."
                )
            return found[0], RegistryWriter(resources.records).add(self._context.actor, found[0])

        return await offload(add)

    async def add_content(
        self, kind: EntryKind, id: str, version: str, content: Mapping[str, Any]
    ) -> tuple[RegistryEntry, bool]:
        """Store one version of a prompt or rubric whose content is a JSON object. Return and raise as `add` does."""
        from prowess.prompts.database_shelf import RegistryWriter
        from prowess.prompts.shelf import read_entry
        from prowess.skill.forms.data import json_text

        _check_kind(kind)
        resources = self._context.resources

        def add() -> tuple[RegistryEntry, bool]:
            document = {**content, f"{kind}_id": id, "version": version}
            data = json_text(document).encode("utf-8", "replace")
            entry = read_entry(kind, f"{kind}.json", data, origin="database", limits=resources.limits)
            return entry, RegistryWriter(resources.records).add(self._context.actor, entry)

        return await offload(add)

    async def remove(self, kind: EntryKind, id: str, version: str) -> None:
        """Remove one version that the organization has stored. Only a person can; files stay."""
        from prowess.prompts.database_shelf import RegistryWriter

        _check_kind(kind)
        writer = RegistryWriter(self._context.resources.records)
        await offload(lambda: writer.remove(self._context.actor, kind, id, version))


def _check_kind(kind: EntryKind) -> None:
    from prowess.prompts.shelf import EntryKind

    if kind not in get_args(EntryKind):
        raise Invalid(f"Unknown kind {str(kind)[:40]!r}.", hint='Pass "prompt" or "rubric".')


def list_used(context: Context, skill: Skill, artifacts: Sequence[str] = ()) -> tuple[UsedEntry, ...]:
    """Return what a run of these artifacts, or of the whole skill, takes from the registry. Blocking."""
    if not any(isinstance(artifact, JsonGeneration | Review) for artifact in skill.artifacts):
        return ()
    named = [
        artifact
        for artifact in list_reached_artifacts(skill, artifacts)
        if isinstance(artifact, JsonGeneration | Review)
    ]
    if not named:
        return ()
    # As the handlers of a run find them: entries of other skills are behind those skills' own gate.
    registry = context.resources.registry.without_other_skills()
    return registry.list_used(skill, named, organization=context.actor.organization)
