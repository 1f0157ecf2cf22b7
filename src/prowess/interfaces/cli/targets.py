"""Resolve the targets of commands: a slug, a path of skills, or an eval file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from prowess.catalog.store import SearchDocument
from prowess.errors import Invalid, NotFound, ProwessError
from prowess.match.collisions import sample_messages
from prowess.skill.evals import EVAL_EXAMPLE, MAX_EVAL_BYTES, TriggerSet, find_eval_paths, read_trigger_set
from prowess.skill.filenames import has_marker, is_marker, looks_like_skill
from prowess.skill.model import SCOPES, Skill

if TYPE_CHECKING:
    from prowess.catalog.importer import CheckResult
    from prowess.open import Prowess

_EVAL_SUFFIXES = (".json", ".yaml", ".yml")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillTarget:
    """One skill with its trigger queries.

    `joins` is True if the catalog does not serve this skill under its slug, so that it must be added to the matcher.
    """

    skill: Skill
    evals: TriggerSet
    joins: bool


async def find_targets(prowess: Prowess, target: str, *, about: str | None = None) -> list[SkillTarget]:
    """Return the skills of a slug, a path or an eval file.

    `about` names the skill that an eval file tests, or selects one skill of a folder. Raise `NotFound` if that skill is
    not among the results, and `Invalid` if an eval file has no queries or does not belong to exactly one skill.
    """
    path = Path(target)
    if is_eval_file(path):
        return [await _from_eval_file(prowess, path, about)]
    found = await find_skills(prowess, target)
    if about is None:
        return found
    chosen = [subject for subject in found if subject.skill.slug == about]
    if not chosen:
        there = ", ".join(subject.skill.slug for subject in found[:10])
        raise NotFound(f"Skill {about[:80]!r} not found in {target!r}.", hint=f"Skills there: {there}.")
    return chosen


async def find_skills(prowess: Prowess, target: str) -> list[SkillTarget]:
    """Return the available skill with that slug, or every skill at or below that path.

    A target with a slash or a leading dot is always a path. Raise `NotFound` for an unknown slug, and `Invalid` if no
    skill at the path can be used.
    """
    path = Path(target)
    if "/" in target or target.startswith("."):
        return await _from_path(prowess, path)
    try:
        return [await _from_catalog(prowess, target)]
    except NotFound:
        if not _exists(path):
            raise
        return await _from_path(prowess, path)


async def find_path(prowess: Prowess, target: str) -> Path:
    """Return the path that a target names, or else the folder of the skill with that slug, even if the skill is broken.

    Raise `Invalid` if the skill has no folder, and `NotFound` if a skill has nearly that name. Any other target is returned
    as a path, for the caller to report.
    """
    path = Path(target)
    if _exists(path) or "/" in target:
        return path
    try:
        location = Path((await prowess.skills.get(target)).location)
    except ProwessError as error:
        broken = next((fault for fault in await prowess.skills.faults() if fault.slug == target), None)
        if broken is None and error.hint.startswith("Did you mean"):
            raise
        return Path(broken.location) if broken is not None else path
    if not _is_folder(location):
        raise Invalid(
            f"The skill {target[:80]!r} is not stored in a folder.",
            hint=f"Write it to one, and pass its path: prowess export {target[:80]} --to DIR",
        )
    return location


def _exists(path: Path) -> bool:
    return path.exists()


def _is_folder(path: Path) -> bool:
    return path.is_dir()


def is_eval_file(path: Path) -> bool:
    """Return True if the path is a JSON or YAML file that is not itself a skill."""
    if not (path.is_file() and path.name.lower().endswith(_EVAL_SUFFIXES)) or is_marker(path.name):
        return False
    return not looks_like_skill(path.name, _read(path))


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_EVAL_BYTES + 1)


async def _from_catalog(prowess: Prowess, address: str) -> SkillTarget:
    skill = await prowess.skills.get(address)
    paths = find_eval_paths(entry.path for entry in skill.manifest)
    files = {path: await prowess.skills.read_file(address, path) for path in paths}
    # `SCOPE:SLUG` may name a skill that a nearer scope hides, and the matcher knows only the nearer one.
    hidden = address.partition(":")[0] in SCOPES and ":" in address
    return SkillTarget(skill=skill, evals=read_trigger_set(files), joins=hidden)


async def read_messages(
    prowess: Prowess, slugs: Iterable[str], subjects: Iterable[SkillTarget]
) -> dict[str, list[str]]:
    """Return the messages that these skills should match, by slug. Subjects are not read again.

    For a skill without queries, the messages come from its triggers and description. Unreadable skills are left out.
    """
    known = {subject.skill.slug: subject for subject in subjects}
    found: dict[str, list[str]] = {}
    for slug in slugs:
        with suppress(ProwessError):
            target = known.get(slug) or await _from_catalog(prowess, slug)
            shipped = [case.query for case in target.evals.cases if case.should_trigger]
            found[slug] = shipped or sample_messages(SearchDocument.of(target.skill))
    return found


async def _from_path(prowess: Prowess, path: Path) -> list[SkillTarget]:
    checked = await prowess.skills.check(path)
    found: dict[str, SkillTarget] = {}
    for subject in (_from_check(item) for item in checked if item.ok):
        if subject is not None:
            found.setdefault(subject.skill.slug, subject)
    if not found:
        problems = [problem for item in checked for problem in item.problems if problem.severity == "error"]
        raise Invalid(
            f"No valid skill in {str(path)!r}.", hint="`prowess validate` shows how to fix them.", problems=problems
        )
    return list(found.values())


def _from_check(item: CheckResult) -> SkillTarget | None:
    reading = item.report.reading if item.report else None
    if reading is None or reading.skill is None:
        return None
    package = reading.package
    paths = find_eval_paths(package.paths)
    files = {file.path: file.content for file in package.files if file.path in paths}
    return SkillTarget(skill=reading.skill, evals=read_trigger_set(files), joins=True)


async def _from_eval_file(prowess: Prowess, path: Path, about: str | None) -> SkillTarget:
    """Return the skill that an eval file tests: `about`, or the skill it is stored in, or the one that it names."""
    evals = read_trigger_set({path.name: _read(path)}, named=True)
    if not evals.cases:
        raise Invalid(f"No queries in {str(path)!r}.", hint=EVAL_EXAMPLE, problems=evals.problems)
    around = next(
        (folder for folder in _skill_folders(path) if has_marker(child.name for child in folder.iterdir())), None
    )
    if about is not None:
        found = await find_skills(prowess, about)
    elif around is not None:
        found = await _from_path(prowess, around)
    elif evals.skill:
        found = await find_skills(prowess, evals.skill)
    else:
        raise Invalid(f"{str(path)!r} does not name a skill.", hint="Name it with --skill SLUG.")
    return replace(single_target(found, about or str(path)), evals=evals)


def _skill_folders(path: Path) -> Sequence[Path]:
    """Return the folders that may hold the skill of an eval file: its own, and the parent of `evals`."""
    folder = path.absolute().parent
    return (folder, folder.parent) if folder.name == "evals" else (folder,)


def single_target(found: Sequence[SkillTarget], target: str) -> SkillTarget:
    """Return the only skill in the list. Raise `Invalid` if there is not exactly one."""
    if len(found) != 1:
        raise Invalid(f"{target!r} has {len(found)} skills.", hint="Choose one with --skill SLUG.")
    return found[0]
