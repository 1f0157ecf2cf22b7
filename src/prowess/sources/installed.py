"""A skill that is installed, one to be installed, and what is in its way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from prowess.errors import Conflict
from prowess.skill.package import Package
from prowess.sources.install import PlaceState, placed_package
from prowess.sources.lock.prowess_lock import Approval, InstalledSkill, InstallMode, Pin, Signature, folder_name
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
    """What the lock file of the skills CLI records."""
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


def conflict_error(name: str, obstacles: Iterable[Obstacle]) -> Conflict:
    """Return the error for what is in the way of installing or removing a skill."""
    paths = list(obstacles)
    foreign = [str(one.path) for one in paths if one.state == "foreign"]
    if foreign:
        return Conflict(
            f"Something that Prowess did not install is at {', '.join(map(repr, foreign))}.",
            hint="Move it away, rename it, or install for other agents with --agent.",
        )
    edited = ", ".join(repr(str(one.path)) for one in paths)
    return Conflict(
        f"The files of {name!r} were edited after they were installed: {edited}.",
        hint="Copy what you want to keep, then run the command with --discard-changes.",
    )
