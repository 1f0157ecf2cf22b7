"""The skills installed in one project or for one user: both lock files, and the places where the files are.

A change is written to `prowess.lock` before the first file moves, and confirmed after the last. If the process is killed in
between, the next change finds the entry pending, and finishes it if the new files are in place, or else undoes it. The lock file
of the skills CLI is changed by the same steps, so that both tools agree on what is installed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from prowess.catalog.discovery import AGENTS
from prowess.errors import NotFound, Problem, ProwessError, Unavailable
from prowess.sources.agents import UNIVERSAL, find_agent, reads_shared_folder
from prowess.sources.install import (
    Base,
    Place,
    PlaceState,
    check_inside,
    clean_up,
    look_at,
    missing_folders,
    place_files,
    plan_places,
    read_digest,
    remove_empty,
    remove_files,
)
from prowess.sources.installed import KnownSkill, NewSkill, Obstacle, conflict_error, make_entry, make_pending
from prowess.sources.lock.gh_skill import find_gh_skills
from prowess.sources.lock.lock_file import locked, remove_document, write_document
from prowess.sources.lock.prowess_lock import InstalledSkill, InstallMode, ProwessLock, folder_name
from prowess.sources.lock.skills_lock import (
    PROJECT,
    USER,
    LockedSource,
    SkillsLock,
    javascript_time,
    locked_source,
    matches_locked,
)
from prowess.storage.files.atomic_write import recover_folder
from prowess.storage.files.skill_packages import read_folder
from prowess.storage.files.skill_paths import TEMP_PREFIX
from prowess.suggestions import did_you_mean
from prowess.threads import check_cancelled, is_cancelled

_LOCK_ATTEMPTS = 20
_Folders = Sequence[tuple[str, str]]


class Installation:
    """Reads and changes what is installed at one base. Blocking."""

    def __init__(self, base: Base) -> None:
        self.base = base
        self._form = USER if base.is_user else PROJECT

    def known(self) -> dict[str, KnownSkill]:
        """Return every installed skill by its name, of both lock files, and those of `gh skill`, which has none."""
        lock = ProwessLock.read(self.base.prowess_lock)
        sources = SkillsLock.read(self.base.skills_lock, self._form).skills
        folders = self._agent_folders()
        recorded = {folder_name(name) for name in (*lock.skills, *sources)}
        sources |= find_gh_skills([str(self.base.shared), *(path for _, path in folders)], recorded)
        names = sorted({*lock.skills, *sources})
        return {name: self._describe(name, lock.skills.get(name), sources.get(name), folders) for name in names}

    def problems(self) -> tuple[Problem, ...]:
        """Return what is wrong with entries of `prowess.lock`."""
        return ProwessLock.read(self.base.prowess_lock).problems

    def find(self, names: Sequence[str]) -> list[KnownSkill]:
        """Return installed skills by their names or folders, all of them for no names; raise `NotFound` with a near name."""
        known = self.known()
        by_name = {**{skill.folder: skill for skill in known.values()}, **known}
        for name in names:
            if name not in by_name:
                where = "for all projects" if self.base.is_user else "in this project"
                other = "leave out --global" if self.base.is_user else "pass --global"
                raise NotFound(
                    f"No skill {name[:80]!r} is installed {where}.",
                    hint=did_you_mean(name, known) or f"For the others, {other}. `prowess outdated` lists all.",
                )
        return [by_name[name] for name in dict.fromkeys(names)] if names else list(known.values())

    def _agent_folders(self) -> list[tuple[str, str]]:
        """Return the agents that read a folder of their own which exists, each with it.

        Of dozens of agents, few have one. To look for every skill in the folders of all took seconds.
        """
        own = [
            one.agent for one in AGENTS if not reads_shared_folder(one.agent) and (one.user or not self.base.is_user)
        ]
        folders = [(agent, str(self.base.folder_of(agent))) for agent in own]
        return [(agent, folder) for agent, folder in folders if os.path.isdir(folder)]  # noqa: PTH112  (False if denied)

    def _describe(
        self, name: str, entry: InstalledSkill | None, source: LockedSource | None, folders: _Folders = ()
    ) -> KnownSkill:
        folder = folder_name(name)
        if entry is not None:
            agents, mode = tuple(agent for agent in entry.agents if _is_known(agent)), entry.mode
        else:
            agents, mode = self._find_agents(folder, folders)
        return KnownSkill(name=name, folder=folder, mode=mode, agents=agents, entry=entry, locked=source)

    def _find_agents(self, folder: str, agent_folders: _Folders) -> tuple[tuple[str, ...], InstallMode]:
        """Return the agents whose folders have a skill that another tool installed, and how it is placed there."""
        paths = {agent: f"{parent}/{folder}" for agent, parent in agent_folders}
        found = [agent for agent, path in paths.items() if os.path.lexists(path)]
        has_links = any(os.path.islink(paths[agent]) for agent in found)  # noqa: PTH114  (thousands of times)
        shared = (UNIVERSAL,) if os.path.lexists(self.base.shared / folder) else ()
        return (*shared, *found), "symlink" if has_links or not found else "copy"

    def places(self, skill: KnownSkill) -> tuple[Place, ...]:
        """Return where an installed skill is placed."""
        copied = skill.entry.copied if skill.entry else ()
        return plan_places(self.base, skill.folder, skill.agents, skill.mode, copied)

    def states(self, skill: KnownSkill) -> list[tuple[Place, PlaceState]]:
        """Return what is at each place of an installed skill now."""
        digest = skill.entry.digest if skill.entry else ""
        found: list[tuple[Place, PlaceState]] = []
        for place in self.places(skill):
            state = look_at(place, self.base, skill.folder, known=digest, recorded=True)
            if state == "edited" and skill.entry is None and skill.locked is not None:
                # `gh skill` records no hash, and that of the skills CLI cannot always be compared: then the files count as installed.
                state = state if matches_locked(skill.locked, place.path) is False else "ours"
            found.append((place, state))
        return found

    def obstacles(self, new: NewSkill, before: KnownSkill | None) -> list[Obstacle]:
        """Return what installing a skill would overwrite: files of someone else, and edited files.

        `before` is the skill as it is installed now.
        """
        known = before.entry.digest if before and before.entry else ""
        recorded = {place.path for place in self.places(before)} if before else set[Path]()
        found: list[Obstacle] = []
        for place in self._plan(new):
            is_recorded = place.path in recorded
            old, digest = known if is_recorded else "", new.placed.digest
            state = look_at(place, self.base, new.folder, known=old, new_digest=digest, recorded=is_recorded)
            if state == "edited" and before and before.entry is None and before.locked:
                # The lock file of the skills CLI has a hash of the files.
                state = "ours" if matches_locked(before.locked, place.path) is True else state
            if state in ("same", "edited", "foreign"):
                found.append(Obstacle(path=place.path, state=state))
        return found

    @contextmanager
    def _changing(self) -> Generator[list[str]]:
        """Hold the lock, after interrupted changes of others are finished or undone; yield the folders that this made."""
        folder = self.base.lock_folder
        try:
            for _ in range(_LOCK_ATTEMPTS):
                folder.mkdir(parents=True, exist_ok=True)
                known = _identify(folder)
                with locked(folder):
                    # The last skill of a user may be removed in the meantime, and the folder with it: then another one is locked.
                    if _identify(folder) != known:
                        continue
                    if self.base.skills_lock.parent != folder and self.base.skills_lock.parent.is_dir():
                        recover_folder(self.base.skills_lock.parent)
                    self._recover()
                    if _identify(folder) != known:
                        continue
                    is_ours = self.base.is_user and not any(folder.iterdir())
                    yield [str(folder.relative_to(self.base.root))] if is_ours else []
                    return
        finally:
            if self.base.is_user:
                with suppress(OSError):  # it has something in it, which is the usual case
                    folder.rmdir()
        raise Unavailable(f"The folder {str(folder)!r} keeps changing.", hint="Try again.")

    def recover(self) -> None:
        """Finish or undo changes that were interrupted, and remove what they left behind."""
        folder = self.base.lock_folder
        left = folder.is_dir() and any(path.name.startswith(TEMP_PREFIX) for path in folder.iterdir())
        if left or any(skill.pending for skill in ProwessLock.read(self.base.prowess_lock).skills.values()):
            with self._changing():
                pass

    def install(self, new: Sequence[NewSkill], *, discard_changes: bool = False) -> dict[str, InstalledSkill]:
        """Install or update skills, and return their entries by name.

        Raise `Conflict` before anything is changed if a file of someone else is in the way, or, without `discard_changes`, if
        installed files were edited, and `Refused` if a link leads out of the project.
        """
        with self._changing() as made:
            known = self.known()
            for skill in new:
                check_cancelled()
                in_the_way = self.obstacles(skill, known.get(skill.name))
                fatal = [each for each in in_the_way if each.state != "edited" or not discard_changes]
                if fatal:
                    raise conflict_error(skill.name, fatal)
                for place in self._plan(skill):
                    check_inside(place.path, self.base)
            try:
                return self._install(new, known, made)
            except (ProwessError, OSError):
                # Such as a full disk: what was started is finished or undone now, if that is possible.
                with suppress(ProwessError, OSError):
                    self._recover()
                raise

    def _install(
        self, new: Sequence[NewSkill], known: Mapping[str, KnownSkill], new_folders: Sequence[str]
    ) -> dict[str, InstalledSkill]:
        """Place skills. Both lock files are written for all of them at once, so that many skills take no longer each."""
        now = javascript_time()
        lock = ProwessLock.read(self.base.prowess_lock)
        entries = {skill.name: make_entry(skill, lock.skills.get(skill.name), now) for skill in new}
        todo = [skill for skill in new if not self._is_in_place(known.get(skill.name), entries[skill.name])]
        if not todo:
            return entries
        created = [*new_folders, *(path for skill in todo for path in missing_folders(self._plan(skill), self.base))]
        if not os.path.lexists(self.base.skills_lock) and self.base.skills_lock.is_relative_to(self.base.root):
            created.append(str(self.base.skills_lock.relative_to(self.base.root)))
        pending = {skill.name: make_pending(entries[skill.name], lock.skills.get(skill.name)) for skill in todo}
        self._write_lock(lock.with_skills(pending).with_created(created))
        placed: dict[str, InstalledSkill] = {}
        for skill in todo:
            if placed and is_cancelled():
                # What is in place stays installed, but a person who stops has not finished accepting it.
                placed = {name: entry.model_copy(update={"approval": None}) for name, entry in placed.items()}
                break
            copied = place_files(skill.placed, self._plan(skill), self.base)
            before = lock.skills.get(skill.name)
            if before is not None:
                self._remove_left_places(skill, before)
            placed[skill.name] = entries[skill.name].model_copy(update={"copied": tuple(sorted(copied))})
        sources = {skill.name: (skill.locked, placed[skill.name].updated_at) for skill in todo if skill.name in placed}
        self._confirm(lock.with_created(created), placed, sources)
        check_cancelled()
        return entries | placed

    def _plan(self, new: NewSkill) -> tuple[Place, ...]:
        return plan_places(self.base, new.folder, new.agents, new.mode)

    def _is_in_place(self, skill: KnownSkill | None, entry: InstalledSkill) -> bool:
        """Return True if exactly this entry is recorded, and its files are where they belong."""
        if skill is None or skill.locked is None or skill.entry != entry:
            return False
        return all(state == "ours" for _, state in self.states(skill))

    def _remove_left_places(self, new: NewSkill, before: InstalledSkill) -> None:
        """Remove the skill from places that it had and no longer has."""
        new_paths = {place.path for place in self._plan(new)}
        agents = [agent for agent in before.agents if _is_known(agent)]
        old = plan_places(self.base, new.folder, agents, before.mode, before.copied)
        left = [place for place in old if place.path not in new_paths]
        owned = [place for place in left if look_at(place, self.base, new.folder, known=before.digest) == "ours"]
        remove_files(owned, self.base)

    def _confirm(
        self, lock: ProwessLock, entries: Mapping[str, InstalledSkill], sources: Mapping[str, tuple[LockedSource, str]]
    ) -> None:
        """Record skills whose files are in place, in the lock file of the skills CLI and then in our own."""
        path = self.base.skills_lock
        path.parent.mkdir(parents=True, exist_ok=True)
        skills_lock = SkillsLock.read(path, self._form)
        for name, (source, at) in sources.items():
            skills_lock = skills_lock.with_skill(name, source, at=at)
        write_document(path, skills_lock.text())
        self._write_lock(lock.with_skills(entries))

    def _write_lock(self, lock: ProwessLock) -> None:
        path = self.base.prowess_lock
        if lock.is_empty and not lock.created:
            remove_document(path)
        else:
            write_document(path, lock.text())

    def remove(
        self, names: Sequence[str], *, agents: Collection[str] = (), discard_changes: bool = False
    ) -> list[tuple[KnownSkill, list[Path]]]:
        """Remove skills, or only from some agents, and return each with the paths that were removed.

        Raise `NotFound` for an unknown name, and `Conflict` before anything is changed if files were edited. Something at the
        place of a skill that Prowess did not put there stays.
        """
        with self._changing():
            skills = self.find(names)
            for skill in skills:
                edited = [
                    Obstacle(path=place.path, state=state) for place, state in self.states(skill) if state == "edited"
                ]
                if edited and not discard_changes:
                    raise conflict_error(skill.name, edited)
            return [(skill, self._remove(skill, agents)) for skill in skills]

    def _remove(self, skill: KnownSkill, agents: Collection[str]) -> list[Path]:
        lock = ProwessLock.read(self.base.prowess_lock)
        left = tuple(agent for agent in skill.agents if agents and agent not in agents)
        remaining = (
            {place.path for place in plan_places(self.base, skill.folder, left, skill.mode)} if left else set[Path]()
        )
        mine = [
            place for place, state in self.states(skill) if state in ("ours", "edited") and place.path not in remaining
        ]
        if skill.entry is not None:
            pending = "remove" if not left else ""
            lock = lock.with_skill(
                skill.name, skill.entry.model_copy(update={"pending": pending, "agents": left or skill.agents})
            )
            self._write_lock(lock)
        removed = remove_files(mine, self.base)
        if not left:
            self._forget(skill.name, lock)
        return removed

    def _forget(self, name: str, lock: ProwessLock) -> None:
        """Remove a skill from both lock files, and the empty folders that Prowess made."""
        path = self.base.skills_lock
        own = str(path.relative_to(self.base.root)) if path.is_relative_to(self.base.root) else ""
        sources = SkillsLock.read(path, self._form).without(name)
        if own in lock.created and sources.is_empty:
            remove_document(path)
        elif os.path.lexists(path):
            write_document(path, sources.text())
        lock = self._prune_created(lock.without(name))
        self._write_lock(ProwessLock() if lock.is_empty else lock)
        if lock.is_empty:
            # Again, because the lock itself may have been the last file in one of these folders.
            self._prune_created(lock)

    def _prune_created(self, lock: ProwessLock) -> ProwessLock:
        """Return the lock without the paths that Prowess made and that are gone, after removing folders that are empty."""
        files = {path for path in lock.created if (self.base.root / path).is_file()}
        left = remove_empty([path for path in lock.created if path not in files], self.base)
        return lock.model_copy(update={"created": tuple(sorted({*files, *left}))})

    def _recover(self) -> None:
        lock = ProwessLock.read(self.base.prowess_lock)
        for name, entry in lock.skills.items():
            if not entry.pending:
                continue
            skill = self._describe(name, entry, None)
            clean_up(plan_places(self.base, skill.folder, skill.agents, skill.mode), self.base)
            if entry.pending == "remove":
                remove_files([place for place, state in self.states(skill) if state == "ours"], self.base)
                self._forget(name, ProwessLock.read(self.base.prowess_lock))
            else:
                self._recover_install(name, entry, skill)

    def _recover_install(self, name: str, entry: InstalledSkill, skill: KnownSkill) -> None:
        lock = ProwessLock.read(self.base.prowess_lock)
        places = plan_places(self.base, skill.folder, skill.agents, skill.mode)
        first = next((place.path for place in places if not place.link), None)
        if first is not None and not first.is_symlink() and read_digest(first) == entry.digest:
            # A person did not finish accepting it, so it stays unaccepted; but what is installed is complete.
            usable = [place for place in places if self._may_write(place, skill, entry)]
            copied = place_files(replace(read_folder(first), name=skill.folder), usable, self.base)
            done = entry.model_copy(update={"pending": "", "previous": None, "approval": None, "copied": tuple(copied)})
            source = locked_source(entry.pin, entry.computed_hash, user=self.base.is_user)
            self._confirm(lock, {name: done}, {name: (source, entry.updated_at)})
            return
        try:
            before = InstalledSkill.model_validate(entry.previous, strict=False) if entry.previous else None
        except ValueError:
            before = None
        if before is not None:
            self._write_lock(
                self._prune_created(lock.with_skill(name, before.model_copy(update={"pending": "", "previous": None})))
            )
        else:
            self._forget(name, lock)

    def _may_write(self, place: Place, skill: KnownSkill, entry: InstalledSkill) -> bool:
        return look_at(place, self.base, skill.folder, known=entry.digest) in ("free", "ours")


def _is_known(agent: str) -> bool:
    try:
        find_agent(agent)
    except NotFound:
        return False
    return True


def _identify(folder: Path) -> tuple[int, int]:
    try:
        status = folder.stat()
    except OSError:
        return (0, 0)
    return (status.st_dev, status.st_ino)
