"""The files that a person reviews: those they are asked about, and those that were accepted before.

Accepted files are kept by their content in the account's database. In a folder that people edit manually the next change
overwrites them, and without them nobody could be shown what changed. All of this is blocking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from prowess.errors import ProwessError
from prowess.threads import check_cancelled

if TYPE_CHECKING:
    from prowess.catalog.store import Store
    from prowess.engine.context import Context
    from prowess.skill.package import Package
    from prowess.storage.approvals import ApprovalRow


def find_files(context: Context, slug: str, digest: str, *, scope: str = "") -> Package | None:
    """Return the files of a skill if it has exactly these bytes now, or None."""
    check_cancelled()  # this is called for hundreds of skills
    found = _find(context, slug, scope)
    package = found[1] if found else None
    return package if package is not None and package.digest == digest else None


def find_requested_files(context: Context, row: ApprovalRow) -> Package | None:
    """Return the files that a request is about, or None if they are not there any more.

    A skill that was fetched for one conversation is in no store; its files are kept with the request.
    """
    if row.action == "fetch_live":
        from prowess.policy.card import read_files

        return _read_kept(context, row.slug, row.digest, read_files(row.detail))
    return find_files(context, row.slug, row.digest, scope=str(row.detail.get("scope", "")))


def keep_files(context: Context, packages: Sequence[Package]) -> None:
    """Keep the files of packages that a person accepted."""
    from prowess.storage.blobs import put_blobs

    if packages:
        with context.resources.records().write() as connection:
            put_blobs(connection, packages)


def list_files(package: Package) -> list[dict[str, Any]]:
    """Return the manifest of a package, as it is stored with what a person accepted."""
    return [asdict(entry) for entry in package.manifest]


def diff_files(context: Context, slug: str, digest: str, *, scope: str = "") -> str:
    """Return what changed since the bytes that were accepted last, as text; '' if there are none or they are not kept."""
    from prowess.session.text import format_diff

    found = _find(context, slug, scope)
    if found is None or found[1] is None or found[1].digest != digest:
        return ""
    store, after = found
    before = _find_accepted(context, store, slug, digest)
    return format_diff(before, after) if before is not None and after is not None else ""


def _find(context: Context, slug: str, scope: str) -> tuple[Store, Package | None] | None:
    try:
        store, outline = context.catalog.find_outline(f"{scope}:{slug}" if scope else slug)
        return store, store.get_package(outline.id)
    except (ProwessError, OSError):
        return None


def _find_accepted(context: Context, store: Store, slug: str, digest: str) -> Package | None:
    """Return the files that were accepted last among those that have other bytes, if they are kept anywhere."""
    from prowess.policy.card import read_files
    from prowess.storage.skill_records import list_approvals
    from prowess.storage.trust import list_acceptances

    if not context.resources.has_records():
        return None
    owner = context.actor.owner
    with context.resources.records().read() as connection:
        answers = [row for row in list_approvals(connection, owner.organization_id, slug) if row.state != "denied"]
        accepted = list_acceptances(connection, owner, slug=slug, revoked=True)
    decisions = [(row.resolved_at or "", row.digest, row.detail) for row in answers if row.user_id == owner.user_id]
    decisions += [(acceptance.created_at, acceptance.digest, acceptance.detail) for acceptance in accepted]
    for _, before, detail in sorted(decisions, key=lambda one: one[0], reverse=True):
        if before != digest:
            return _read_version(store, slug, before) or _read_kept(context, slug, before, read_files(detail))
    return None


def _read_version(store: Store, slug: str, digest: str) -> Package | None:
    try:
        then = next((version for version in reversed(store.versions(slug)) if version.digest == digest), None)
        return store.version_package(slug, then.number) if then else None
    except ProwessError:
        return None


def _read_kept(context: Context, slug: str, digest: str, manifest: Sequence[Any]) -> Package | None:
    from prowess.storage.blobs import get_package

    try:
        with context.resources.records().read() as connection:
            return get_package(connection, slug, manifest, digest=digest, slug=slug)
    except ProwessError:
        return None
