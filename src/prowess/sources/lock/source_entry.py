"""What the skills CLI records about the source of a skill, and whether a folder still has those files."""

from __future__ import annotations

from pathlib import Path

from prowess.errors import ProwessError
from prowess.sources.lock.folder_hash import compute_hash, git_tree, has_certain_order, read_hashed_files
from prowess.sources.lock.prowess_lock import Pin
from prowess.sources.lock.skills_lock import LockedSource
from prowess.storage.files.skill_packages import read_folder

GIT_TYPES = ("github", "gitlab", "git")


def locked_source(pin: Pin, computed: str, *, user: bool = False) -> LockedSource:
    """Return what the skills CLI records for a pinned source, in a project's lock or in a user's.

    `computed` is the `computedHash` of the source. A user's lock has the git tree of a skill from GitHub instead, and nothing
    for a well-known site.
    """
    tree = {"github": pin.tree or computed, "well-known": ""}.get(pin.type, computed)
    path = f"{pin.path}/SKILL.md" if pin.path else "SKILL.md"
    return LockedSource(
        source=pin.source,
        source_type=pin.type,
        hash=tree if user else computed,
        source_url=pin.url if user or pin.type in ("git", "gitlab") else "",
        ref=pin.ref,
        skill_path=path if pin.type in GIT_TYPES else "",
    )


def source_text(locked: LockedSource) -> str:
    """Return the source string of a skill that the skills CLI installed, for `parse_source`."""
    if locked.source_type == "well-known":
        return locked.source_url or f"https://{locked.source.removeprefix('wellknown/')}"
    text = locked.source if locked.source_type in ("github", "local") else locked.source_url or locked.source
    return f"{text}#{locked.ref}" if locked.ref else text


def matches_locked(locked: LockedSource, folder: Path) -> bool | None:
    """Return True if a folder has the files that the skills CLI recorded, and None if that cannot be told.

    Its order of names outside ASCII depends on the machine. It also hashes `metadata.json`, but does not install it.
    """
    try:
        contents = read_hashed_files(folder)
        package = read_folder(folder)
    except (ProwessError, OSError):
        return False
    if locked.hash in (compute_hash(contents), git_tree(package.files)):
        return True
    return False if locked.hash and has_certain_order(contents) else None
