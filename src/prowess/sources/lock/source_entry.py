"""What the skills CLI records about the source of a skill, and whether a folder still has those files."""

from __future__ import annotations

from pathlib import Path

from prowess.errors import ProwessError
from prowess.sources.lock.folder_hash import compute_hash, git_tree, has_certain_order, read_hashed_files
from prowess.sources.lock.prowess_lock import Pin
from prowess.sources.lock.skills_lock import LockedSource
from prowess.storage.files.skill_packages import read_folder


def locked_source(pin: Pin, computed: str, *, tree: str = "") -> LockedSource:
    """Return what the skills CLI records for a pinned source. `tree` replaces the hash in a user's lock."""
    is_git = pin.type in ("git", "gitlab")
    path = f"{pin.path}/SKILL.md" if pin.path else "SKILL.md"
    has_path = pin.type in ("github", "gitlab", "git")
    return LockedSource(
        source=pin.source,
        source_type=pin.type,
        hash=tree or computed,
        source_url=pin.url if is_git or tree else "",
        ref=pin.ref,
        skill_path=path if has_path else "",
    )


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
