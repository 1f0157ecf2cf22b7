"""A version log that is made when the first version is kept, so that looking leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable

from prowess.catalog.versions import Change, VersionLog, unknown_version
from prowess.skill.model import FormName, Version
from prowess.skill.package import Package


class DeferredVersions:
    """Another log, once there is one. `find` gives it or None; `make` gives it, making it if need be."""

    def __init__(self, *, find: Callable[[], VersionLog | None], make: Callable[[], VersionLog]) -> None:
        self._find = find
        self._make = make

    def append(
        self, slug: str, package: Package, *, form: FormName, change: Change, actor: str = "", note: str = ""
    ) -> Version:
        """Add the next version of a skill, making the log if need be."""
        return self._make().append(slug, package, form=form, change=change, actor=actor, note=note)

    def versions(self, slug: str) -> list[Version]:
        """All versions of a skill, oldest first."""
        log = self._find()
        return log.versions(slug) if log else []

    def ends(self, slug: str) -> tuple[Version, Version] | None:
        """The first and the last version, without their files; None where there is none."""
        log = self._find()
        return log.ends(slug) if log else None

    def package(self, slug: str, number: int) -> Package:
        """The files as of one version; `NotFound` if there is none."""
        log = self._find()
        if log is None:
            raise unknown_version(slug, number, 0)
        return log.package(slug, number)
