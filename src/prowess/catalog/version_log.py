"""The `VersionLog` protocol, a log in memory, and a log that is created at the first write."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal, Protocol

from prowess.errors import NotFound
from prowess.skill.form_info import FormName
from prowess.skill.model import Version
from prowess.skill.package import Package
from prowess.storage.clock import now

VersionChange = Literal["create", "update", "delete", "rollback"]


class VersionLog(Protocol):
    """Stores every accepted change of the skills of one store. Entries are never altered."""

    def append(
        self, slug: str, package: Package, *, form: FormName, change: VersionChange, actor: str = "", note: str = ""
    ) -> Version:
        """Add the next version of a skill. It survives a crash once this returns."""
        ...

    def versions(self, slug: str) -> list[Version]:
        """Return all versions of a skill, oldest first."""
        ...

    def ends(self, slug: str) -> tuple[Version, Version] | None:
        """Return the first and the last version without their manifests, or None. The cost does not grow with their number."""
        ...

    def package(self, slug: str, number: int) -> Package:
        """Return the files as of a version, or raise `NotFound`."""
        ...


class MemoryVersions:
    """A version log in memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, list[tuple[Version, Package]]] = {}

    def append(
        self, slug: str, package: Package, *, form: FormName, change: VersionChange, actor: str = "", note: str = ""
    ) -> Version:
        """Add the next version of a skill."""
        with self._lock:
            entries = self._entries.setdefault(slug, [])
            version = Version(
                slug=slug,
                number=len(entries) + 1,
                digest=package.digest,
                change=change,
                created_at=now(),
                actor=actor,
                note=note,
                form=form,
                manifest=package.manifest,
            )
            entries.append((version, package))
            return version

    def versions(self, slug: str) -> list[Version]:
        """Return all versions of a skill, oldest first."""
        with self._lock:
            return [version for version, _ in self._entries.get(slug, ())]

    def ends(self, slug: str) -> tuple[Version, Version] | None:
        """Return the first and the last version without their manifests, or None."""
        with self._lock:
            entries = self._entries.get(slug)
            if not entries:
                return None
            first, last = entries[0][0], entries[-1][0]
        return first.model_copy(update={"manifest": ()}), last.model_copy(update={"manifest": ()})

    def package(self, slug: str, number: int) -> Package:
        """Return the files as of a version, or raise `NotFound`."""
        with self._lock:
            entries = self._entries.get(slug, [])
            if 1 <= number <= len(entries):
                return entries[number - 1][1]
        raise unknown_version(slug, number, len(entries))


def unknown_version(slug: str, number: int, last: int) -> NotFound:
    """Return the error for an unknown version, with the versions that exist."""
    hint = f"It has versions 1 to {last}." if last else "It has no versions here. Run `prowess list` to see all skills."
    return NotFound(f"Skill {slug[:80]!r} has no version {number}.", hint=hint)


class LazyVersions:
    """A log that is created at the first write, so that reading leaves nothing behind.

    `find` returns the log if it exists; `make` returns it, creating it if needed.
    """

    def __init__(self, *, find: Callable[[], VersionLog | None], make: Callable[[], VersionLog]) -> None:
        self._find = find
        self._make = make

    def append(
        self, slug: str, package: Package, *, form: FormName, change: VersionChange, actor: str = "", note: str = ""
    ) -> Version:
        """Add the next version of a skill, creating the log if needed."""
        return self._make().append(slug, package, form=form, change=change, actor=actor, note=note)

    def versions(self, slug: str) -> list[Version]:
        """Return all versions of a skill, oldest first."""
        log = self._find()
        return log.versions(slug) if log else []

    def ends(self, slug: str) -> tuple[Version, Version] | None:
        """Return the first and the last version without their manifests, or None."""
        log = self._find()
        return log.ends(slug) if log else None

    def package(self, slug: str, number: int) -> Package:
        """Return the files as of a version, or raise `NotFound`."""
        log = self._find()
        if log is None:
            raise unknown_version(slug, number, 0)
        return log.package(slug, number)
