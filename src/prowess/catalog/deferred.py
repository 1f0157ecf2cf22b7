"""A version log that is made when the first version is kept, so that looking leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable

from prowess.catalog.versions import Change, VersionLog, unknown_version
from prowess.errors import Unavailable
from prowess.skill.model import FormName, Version
from prowess.skill.package import Package


class DeferredVersions:
    """Another log, opened when it is needed. `open(create)` gives None while there is none and `create` is false."""

    def __init__(self, open: Callable[[bool], VersionLog | None]) -> None:
        self._open = open

    def append(
        self, slug: str, package: Package, *, form: FormName, change: Change, actor: str = "", note: str = ""
    ) -> Version:
        """Add the next version of a skill, making the log if need be."""
        log = self._open(True)
        if log is None:
            raise Unavailable("There is no place to keep versions in.", hint="Run `prowess doctor`.")
        return log.append(slug, package, form=form, change=change, actor=actor, note=note)

    def versions(self, slug: str) -> list[Version]:
        """All versions of a skill, oldest first."""
        log = self._open(False)
        return log.versions(slug) if log else []

    def package(self, slug: str, number: int) -> Package:
        """The files as of one version; `NotFound` if there is none."""
        log = self._open(False)
        if log is None:
            raise unknown_version(slug, number, 0)
        return log.package(slug, number)
