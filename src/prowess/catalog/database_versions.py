"""A version log in a database, for stores that keep the skills themselves elsewhere."""

from __future__ import annotations

from prowess.catalog.version_log import VersionChange, unknown_version
from prowess.skill.form_info import FormName
from prowess.skill.model import Scope, Version
from prowess.skill.package import Package
from prowess.skill.slug import check_slug, is_slug
from prowess.storage import blobs, versions
from prowess.storage.database import Connections
from prowess.storage.owner import Tenant

# The largest integer of PostgreSQL: a query with a larger number fails instead of finding nothing.
_LARGEST = 2**31 - 1


class DatabaseVersions:
    """Versions of the skills of one place (such as a skill folder) in one scope. Without a place: of the database's own."""

    def __init__(
        self,
        database: Connections,
        *,
        scope: Scope,
        place: str = "",
        organization_id: str | None = None,
        user_id: str | None = None,
    ) -> None:
        self._database = database
        self._tenant = Tenant(scope=scope, place=place, organization_id=organization_id, user_id=user_id)

    def append(
        self, slug: str, package: Package, *, form: FormName, change: VersionChange, actor: str = "", note: str = ""
    ) -> Version:
        """Add the next version of a skill. It survives a crash once this returns."""
        entry = versions.NewVersion(
            slug=check_slug(slug),
            package=package.name,
            manifest=package.manifest,
            digest=package.digest,
            form=form,
            change=change,
            actor=actor,
            note=note,
        )
        with self._database.write() as connection:
            versions.lock_slug(connection, self._tenant, slug)
            blobs.put_blobs(connection, [package])
            return versions.append_versions(connection, self._tenant, [entry])[0]

    def versions(self, slug: str) -> list[Version]:
        """Return all versions of a skill, oldest first."""
        if not is_slug(slug):
            return []
        with self._database.read() as connection:
            return versions.get_versions(connection, self._tenant, slug)

    def ends(self, slug: str) -> tuple[Version, Version] | None:
        """Return the first and the last version without their manifests, or None."""
        if not is_slug(slug):
            return None
        with self._database.read() as connection:
            return versions.get_ends(connection, self._tenant, slug)

    def package(self, slug: str, number: int) -> Package:
        """Return the files as of a version, or raise `NotFound`."""
        if not is_slug(slug):
            raise unknown_version(slug, number, 0)
        with self._database.read() as connection:
            package = None
            if 1 <= number <= _LARGEST:
                package = versions.get_version_package(connection, self._tenant, slug, number)
            if package is None:
                last = versions.last_numbers(connection, self._tenant, [slug]).get(slug, 0)
                raise unknown_version(slug, number, last)
            return package
