"""Fetch the skills of a source, whatever its kind. Each kind is one row of the table below."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from prowess.errors import DuplicateSkill, NotFound
from prowess.skill.filenames import find_skill_md
from prowess.sources.discovery import declared_name, is_internal, normalize_name
from prowess.sources.fetch_context import FetchContext
from prowess.sources.fetched import Fetched, FetchedSkill, SourceState, UnreadableSkill
from prowess.sources.git import fetch_git
from prowess.sources.local import fetch_local
from prowess.sources.reference import SourceKind, SourceReference
from prowess.sources.url import fetch_url
from prowess.sources.well_known import fetch_well_known
from prowess.suggestions import did_you_mean


class Fetcher(Protocol):
    """Fetches one kind of source.

    It changes nothing but its cache. It ends within `context.seconds`, also if it is cancelled, and raises a `ProwessError` if
    the source cannot be read as a whole; a skill that cannot be read is in `Fetched.unreadable` and does not affect the others.
    With `last`, the state of an earlier fetch of the same reference, it returns early if nothing changed, and warns about a
    history that does not continue.
    """

    async def __call__(
        self, reference: SourceReference, context: FetchContext, last: SourceState | None = None
    ) -> Fetched:
        """Return the skills of the source, all from one state of it."""
        ...


_FETCHERS: dict[SourceKind, Fetcher] = {
    "local": fetch_local,
    "github": fetch_git,
    "gitlab": fetch_git,
    "git": fetch_git,
    "file": fetch_url,
    "archive": fetch_url,
    "well-known": fetch_well_known,
}


async def fetch(reference: SourceReference, context: FetchContext, last: SourceState | None = None) -> Fetched:
    """Return the skills of a source, or the one that the reference names; see `Fetcher`."""
    fetched = await _FETCHERS[reference.kind](reference, context, last)
    if fetched.unchanged:
        return fetched
    return select_skill(fetched, reference.skill) if reference.skill else _without_copies(fetched)


def _without_copies(fetched: Fetched) -> Fetched:
    """Return the skills that a person would list: without internal ones, and with one skill of each name.

    Repositories often have copies of their skills in the folders of agents. The first one counts, as in the skills CLI; another
    one with the same name and other files is an error that names both.
    """
    skills: dict[str, FetchedSkill] = {}
    clashes: list[UnreadableSkill] = []
    for skill in fetched.skills:
        document = find_skill_md(skill.package)
        if document is not None and is_internal(document.content):
            continue
        # Without a name, the path keeps skills apart; a slash is not part of any name.
        name = _declared_name(skill) or f"/{skill.path}"
        first = skills.setdefault(name, skill)
        if first is not skill and first.package.digest != skill.package.digest:
            message = f"The skill {name!r} is in {first.path!r} and in {skill.path!r}, with different files."
            error = DuplicateSkill(message, hint="Rename one of them, or use the path of one as the source.")
            clashes.append(UnreadableSkill(path=skill.path, error=error))
    return replace(fetched, skills=tuple(skills.values()), unreadable=(*fetched.unreadable, *clashes))


def select_skill(fetched: Fetched, name: str) -> Fetched:
    """Return only the skill with this name, or in a folder of this name; raise `NotFound` if the source has none."""
    normalized = normalize_name(name)
    # The skill's own name first, as in the skills CLI: two folders of one name are common in large repositories.
    for name_of in (_declared_name, _folder_name):
        skills = tuple(skill for skill in fetched.skills if normalize_name(name_of(skill)) == normalized)
        if skills:
            return replace(fetched, skills=skills, unreadable=())
    broken = next(
        (each for each in fetched.unreadable if normalize_name(each.path.rpartition("/")[2]) == normalized), None
    )
    if broken:
        raise broken.error
    names = [_declared_name(skill) or _folder_name(skill) for skill in fetched.skills]
    raise NotFound(f"The source has no skill {name!r}.", hint=did_you_mean(name, names) or _list(names))


def _declared_name(skill: FetchedSkill) -> str:
    document = find_skill_md(skill.package)
    return declared_name(document.content) if document else ""


def _folder_name(skill: FetchedSkill) -> str:
    return skill.package.name


def _list(names: list[str]) -> str:
    listed = ", ".join(sorted(names)[:20])
    return f"It has {listed}{' …' if len(names) > 20 else ''}." if names else "It has no skills that can be read."
