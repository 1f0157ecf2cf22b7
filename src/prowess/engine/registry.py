"""Prompts and rubrics: find, check, register and remove them."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from prowess.engine.parts import Frame
from prowess.errors import Invalid
from prowess.policy.actor import Actor

if TYPE_CHECKING:
    from prowess.prompts.database_shelf import RegistryWriter
    from prowess.prompts.shelf import EntryKind, RegistryEntry


class Registering(Frame):
    """The part of the engine that knows prompts and rubrics by id and version."""

    async def registered(self, kind: EntryKind, *, actor: Actor | None = None) -> list[RegistryEntry]:
        """Every prompt or rubric in reach, nearest first, those with problems too; each says where it is from."""
        who = actor or self.actor
        who.require("skills.read")

        def work() -> list[RegistryEntry]:
            registry = self._parts.registry()
            find = registry.prompts if kind == "prompt" else registry.rubrics
            return find(organization=who.organization)

        return await self._blocking(work)

    async def registry_entry(
        self, kind: EntryKind, id: str, version: str | None = None, *, skill: str = "", actor: Actor | None = None
    ) -> RegistryEntry:
        """The entry that serves an id: its latest release, or exactly this version; with `skill`, as that skill finds it.

        An entry without a value has problems that say why; `NotFound` where there is none.
        """
        who = actor or self.actor
        who.require("skills.read")

        def work() -> RegistryEntry:
            of = self.catalog.get(skill) if skill else None
            return self._parts.registry().find(kind, id, version, skill=of, organization=who.organization)

        return await self._blocking(work)

    async def check_entries(self, kind: EntryKind, *paths: Path) -> list[RegistryEntry]:
        """The entries in these files, or in the files directly in these folders, good and bad."""
        from prowess.prompts.folder_shelf import read_entry_files

        return await self._blocking(lambda: list(read_entry_files(kind, paths, self._limits)))

    async def register(self, kind: EntryKind, path: Path, *, actor: Actor | None = None) -> tuple[RegistryEntry, bool]:
        """Keep a prompt or rubric from a file for the organization; with it, whether it is new. A person does this.

        `Conflict` where this version is kept with other content.
        """
        from prowess.prompts.folder_shelf import read_entry_files

        def work() -> tuple[RegistryEntry, bool]:
            found = list(read_entry_files(kind, [path], self._limits))
            if len(found) != 1:
                raise Invalid(f"{str(path)!r} is not one {kind}.", hint="Name one file.")
            return found[0], self._registry_writer.add(actor or self.actor, found[0])

        return await self._blocking(work)

    async def unregister(self, kind: EntryKind, id: str, version: str, *, actor: Actor | None = None) -> None:
        """Forget one version that the organization keeps. A person does this; files are left alone."""
        await self._blocking(lambda: self._registry_writer.remove(actor or self.actor, kind, id, version))

    @cached_property
    def _registry_writer(self) -> RegistryWriter:
        from prowess.prompts.database_shelf import RegistryWriter

        return RegistryWriter(self._parts.records)
