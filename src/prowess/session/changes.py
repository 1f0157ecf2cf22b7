"""What changed, or is to change, in a skill, for the person who is asked about it."""

from __future__ import annotations

from prowess.catalog.catalog import Catalog
from prowess.errors import ProwessError
from prowess.skill.diff import diff_packages
from prowess.skill.outline import Outline
from prowess.skill.package import Package


def diff_since(catalog: Catalog, outline: Outline, digest: str) -> str:
    """The differences to the version of that digest, as text; '' where that version is not kept any more."""
    try:
        store, _ = catalog.find_outline(f"{outline.scope}:{outline.slug}")
        then = next((one for one in reversed(store.versions(outline.slug)) if one.digest == digest), None)
        now = store.get_package(outline.id)
        if then is None or now is None:
            return ""
        return shown_diff(store.version_package(outline.slug, then.number), now)
    except ProwessError:
        return ""


def shown_diff(before: Package, after: Package) -> str:
    """The differences between two packages as text for a person."""
    changes = diff_packages(before, after)
    return "\n".join(f"{change.change} {change.path}\n{change.text}" for change in changes)
