"""A skill that is installed, one to be installed, and what is in its way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prowess.errors import Conflict
from prowess.skill.package import Package
from prowess.sources.install import PlaceState, is_left_out, placed_package
from prowess.sources.lock.prowess_lock import (
    Approval,
    InstalledSkill,
    InstallMode,
    Pin,
    Signature,
    folder_name,
    lock_files,
)
from prowess.sources.lock.skills_lock import LockedSource


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSkill:
    """An installed skill, as far as the lock files know it. One that the skills CLI installed has no `entry`."""

    name: str
    folder: str
    mode: InstallMode
    agents: tuple[str, ...]
    entry: InstalledSkill | None = None
    locked: LockedSource | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSkill:
    """A skill to be installed: its files as fetched, and everything that the lock files record."""

    name: str
    package: Package
    pin: Pin
    locked: LockedSource
    """The entry in the lock file of the skills CLI."""
    computed_hash: str
    """The hash that the skills CLI computes for the files of the source."""
    agents: tuple[str, ...]
    mode: InstallMode
    signature: Signature | None = None
    approval: Approval | None = None

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return folder_name(self.name)

    @property
    def placed(self) -> Package:
        """The files that are placed."""
        return placed_package(self.package, self.folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """A path where something is in the way of a change."""

    path: Path
    state: PlaceState


def conflict_error(name: str, obstacles: Sequence[Obstacle]) -> Conflict:
    """Return the error for what is in the way of installing or removing a skill."""
    foreign = [obstacle for obstacle in obstacles if obstacle.state != "edited"]
    if foreign:
        paths = ", ".join(repr(str(obstacle.path)) for obstacle in foreign)
        if all(obstacle.state == "same" for obstacle in foreign):
            return Conflict(
                f"The same files are already at {paths}, and Prowess did not install them.",
                hint=f"Keep them and run `prowess trust {name}`, add --agent ID --copy to copy them for another agent, "
                "or move them away to install the skill from this source.",
            )
        return Conflict(
            f"Prowess did not install what is at {paths}.",
            hint="Move it away, rename it, or install for other agents with --agent.",
        )
    edited = ", ".join(repr(str(obstacle.path)) for obstacle in obstacles)
    return Conflict(
        f"The files of {name!r} were edited after they were installed: {edited}.",
        hint="Copy what you want to keep, then run the command with --discard-changes.",
    )


def make_entry(new: NewSkill, before: InstalledSkill | None, now: str) -> InstalledSkill:
    """Return the entry of a skill to be installed: the one before if nothing in it would change."""
    placed = new.placed
    entry = InstalledSkill(
        pin=new.pin,
        digest=placed.digest,
        source_digest=new.package.digest,
        computed_hash=new.computed_hash,
        files=lock_files(placed.manifest),
        left_out=lock_files(file for file in new.package.manifest if is_left_out(file.path)),
        mode=new.mode,
        agents=tuple(sorted(new.agents)),
        approval=new.approval,
        signature=new.signature,
        installed_at=before.installed_at if before else now,
        updated_at=now,
    )
    return before if before is not None and _without_times(before) == _without_times(entry) else entry


def make_pending(entry: InstalledSkill, before: InstalledSkill | None) -> InstalledSkill:
    """Return the entry as it is recorded before the first file moves, with what it replaces."""
    previous = before.model_dump(mode="json", exclude_defaults=True) if before else None
    return entry.model_copy(update={"pending": "install", "previous": previous})


def _without_times(entry: InstalledSkill) -> InstalledSkill:
    return entry.model_copy(update={"installed_at": "", "updated_at": "", "approval": None, "copied": ()})
