"""What `eval` and `lint` are about: skills in reach by slug, or skills and eval files by path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from prowess.errors import Invalid, NotFound
from prowess.skill.borders import has_marker, is_marker, looks_like_skill
from prowess.skill.evals import EXAMPLE, MOST_BYTES, TriggerSet, eval_paths, read_trigger_set
from prowess.skill.model import SCOPES

if TYPE_CHECKING:
    from prowess.build.opening import Prowess
    from prowess.catalog.intake import Checked
    from prowess.skill.model import Skill

_FILES = (".json", ".yaml", ".yml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One skill with the queries that it ships. `joins` says that it is not what the catalog serves under its slug."""

    skill: Skill
    evals: TriggerSet
    joins: bool


async def find_subjects(prowess: Prowess, target: str, *, about: str | None = None) -> list[Subject]:
    """The skills that a slug or path means; an eval file's queries are put to the skill that it is `about`."""
    path = Path(target)
    if is_eval_file(path):
        return [await _of_file(prowess, path, about)]
    found = await skills_of(prowess, target)
    if about is None:
        return found
    chosen = [subject for subject in found if subject.skill.slug == about]
    if not chosen:
        there = ", ".join(subject.skill.slug for subject in found[:10])
        raise NotFound(f"There is no skill {about[:80]!r} in {target!r}.", hint=f"There are: {there}.")
    return chosen


async def skills_of(prowess: Prowess, target: str) -> list[Subject]:
    """The skill in reach of that slug, or every skill at or below that path."""
    path = Path(target)
    if "/" in target or target.startswith("."):
        return await _at(prowess, path)
    try:
        return [await _in_reach(prowess, target)]
    except NotFound:
        if not _exists(path):
            raise
        return await _at(prowess, path)


def _exists(path: Path) -> bool:
    return path.exists()


def is_eval_file(path: Path) -> bool:
    """Whether a path is a single file with data that is not itself a skill."""
    if not (path.is_file() and path.name.lower().endswith(_FILES)) or is_marker(path.name):
        return False
    return not looks_like_skill(path.name, _read(path))


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MOST_BYTES + 1)


async def _in_reach(prowess: Prowess, address: str) -> Subject:
    skill = await prowess.skill(address)
    paths = eval_paths(entry.path for entry in skill.manifest)
    files = {path: await prowess.read_file(address, path) for path in paths}
    hidden = address.partition(":")[0] in SCOPES and ":" in address
    return Subject(skill=skill, evals=read_trigger_set(files), joins=hidden)


async def _at(prowess: Prowess, path: Path) -> list[Subject]:
    checked = await prowess.check(path)
    found: dict[str, Subject] = {}
    for subject in (_of_check(item) for item in checked if item.ok):
        if subject is not None:
            found.setdefault(subject.skill.slug, subject)
    if not found:
        problems = [problem for item in checked for problem in item.problems if problem.severity == "error"]
        raise Invalid(
            f"No skill in {str(path)!r} can be used.", hint="`prowess validate` says what to mend.", problems=problems
        )
    return list(found.values())


def _of_check(item: Checked) -> Subject | None:
    reading = item.report.reading if item.report else None
    if reading is None or reading.skill is None:
        return None
    package = reading.package
    paths = eval_paths(package.paths)
    files = {file.path: file.content for file in package.files if file.path in paths}
    return Subject(skill=reading.skill, evals=read_trigger_set(files), joins=True)


async def _of_file(prowess: Prowess, path: Path, about: str | None) -> Subject:
    """The skill that an eval file is about: the one that was named, the one it lies in, the one that it names."""
    evals = read_trigger_set({path.name: _read(path)}, named=True)
    if not evals.cases:
        raise Invalid(f"There are no queries in {str(path)!r}.", hint=EXAMPLE, problems=evals.problems)
    around = next((folder for folder in _folders(path) if has_marker(child.name for child in folder.iterdir())), None)
    if about is not None:
        found = await skills_of(prowess, about)
    elif around is not None:
        found = await _at(prowess, around)
    elif evals.skill:
        found = await skills_of(prowess, evals.skill)
    else:
        raise Invalid(f"{str(path)!r} does not say which skill it is about.", hint="Name it with --skill SLUG.")
    return replace(one_of(found, about or str(path)), evals=evals)


def _folders(path: Path) -> Sequence[Path]:
    """The folders whose skill a file may belong to: its own, and the one around `evals`."""
    folder = path.absolute().parent
    return (folder, folder.parent) if folder.name == "evals" else (folder,)


def one_of(found: Sequence[Subject], target: str) -> Subject:
    """The only skill of these."""
    if len(found) != 1:
        raise Invalid(f"{target!r} means {len(found)} skills.", hint="Name one of them with --skill.")
    return found[0]
