"""The registry of prompts and rubrics: what a generation or a review names by id and version, found near or far.

    registry = Registry(lambda: [FolderShelf(...), DatabaseShelf(...)], catalog)
    registry.prompt("outline", "2.0.0", skill=call.skill, organization=call.actor.organization)

It is made from a callable that gives the shelves, nearest first, and optionally the catalog, through which other skills'
prompts are reached as `slug/id`; `Registry(lambda: [MemoryShelf(Prompt(...), Rubric(...))])` needs no file and no database.
All of it blocks: hand it to a thread where something awaits.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from prowess.errors import Invalid, NotFound
from prowess.skill.semver import latest, precedence
from prowess.templates.prompt import Prompt
from prowess.templates.registry_skills import ARTIFACT_KINDS, SKILL, entries_of
from prowess.templates.rubric import Rubric
from prowess.templates.shelves import Entry, EntryKind, Shelf

if TYPE_CHECKING:
    from prowess.catalog.catalog import Catalog
    from prowess.skill.model import Skill

_NEAR = 5
_VERSIONS = 8


class Registry:
    """Finds prompts and rubrics: first among the skill's own, then on each shelf in turn.

    Without a version, the nearest place that has the id gives the latest release it has; a pre-release is given only where
    there is nothing else. With a version, the nearest place that has exactly that version gives it; what a skill brings
    itself without any version serves that skill under each. Entries of other skills
    are found only as `slug/id`, so that no skill stands in the way of another. `NotFound` names what there is instead; `Invalid` has every problem of an entry that breaks
    a rule, since nothing farther off stands in for it.
    """

    def __init__(self, shelves: Callable[[], Sequence[Shelf]], catalog: Catalog | None = None) -> None:
        self._shelves = shelves
        self._catalog = catalog

    def without_other_skills(self) -> Registry:
        """The registry as a run sees it: what belongs to another skill is behind that skill's own gate."""
        return Registry(self._shelves)

    def prompt(self, id: str, version: str | None = None, *, skill: Skill | None = None, organization: str) -> Prompt:
        """One prompt for a skill, or for nobody in particular, as an organization sees it."""
        entry = self.find("prompt", id, version, skill=skill, organization=organization)
        if isinstance(entry.value, Prompt):
            return entry.value
        raise broken(entry)

    def rubric(self, id: str, version: str | None = None, *, skill: Skill | None = None, organization: str) -> Rubric:
        """One rubric for a skill, or for nobody in particular, as an organization sees it."""
        entry = self.find("rubric", id, version, skill=skill, organization=organization)
        if isinstance(entry.value, Rubric):
            return entry.value
        raise broken(entry)

    def prompts(self, *, organization: str) -> list[Entry]:
        """Every prompt there is, also those of skills, each with where it is from; nearest first, then by id and version."""
        return self._all("prompt", organization)

    def rubrics(self, *, organization: str) -> list[Entry]:
        """Every rubric there is, as for prompts."""
        return self._all("rubric", organization)

    def find(
        self, kind: EntryKind, id: str, version: str | None = None, *, skill: Skill | None = None, organization: str
    ) -> Entry:
        """The entry that serves an id and version, also one that cannot be used; `NotFound` where there is none."""
        there: list[Entry] = []
        for entries in self._places(kind, id, skill, organization):
            found = _chosen(entries, version) if entries else None
            if found is not None:
                return found
            there += entries
        raise self._not_found(kind, id, version, there, organization)

    def _places(self, kind: EntryKind, id: str, skill: Skill | None, organization: str) -> Iterator[Sequence[Entry]]:
        """The entries of this id in each place, nearest first; a place is asked when the nearer ones did not serve."""
        yield [entry for entry in entries_of(skill, kind) if entry.id == id] if skill else []
        for shelf in self._shelves():
            yield shelf.entries(kind, organization, id)
        slug, slash, rest = id.partition("/")
        if slash:
            yield [entry for entry in self._of_skill(slug, kind) if entry.id == rest]

    def _of_skill(self, slug: str, kind: EntryKind) -> list[Entry]:
        """The entries of one skill in reach; none where there is no such skill."""
        try:
            return entries_of(self._catalog.get(slug), kind) if self._catalog is not None else []
        except NotFound:
            return []

    def _all(self, kind: EntryKind, organization: str) -> list[Entry]:
        found: list[Entry] = []
        for shelf in self._shelves():
            found += sorted(shelf.entries(kind, organization), key=_order)
        cards = self._catalog.cards() if self._catalog is not None else []
        for card in cards:
            if ARTIFACT_KINDS[kind] in card.kinds:
                found += sorted(self._of_skill(card.slug, kind), key=_order)
        return found

    def _not_found(
        self, kind: EntryKind, id: str, version: str | None, there: Sequence[Entry], organization: str
    ) -> NotFound:
        if there:
            versions = sorted({entry.version for entry in there}, key=precedence, reverse=True)
            shown = ", ".join(one or "one without a version" for one in versions[:_VERSIONS])
            return NotFound(f"There is no version {version!r} of the {kind} {id!r}.", hint=f"There is: {shown}.")
        ids = sorted({_reached_by(entry) for entry in self._all(kind, organization) if entry.value is not None})
        same = [one for one in ids if one.rpartition("/")[2] == id]
        near = same or difflib.get_close_matches(id[:200], ids, n=_NEAR) or ids[:_NEAR]
        if same:
            hint = f"A skill has it: {', '.join(same[:_NEAR])}."
            return NotFound(f"There is no {kind} {id[:200]!r} but in a skill.", hint=hint)
        hint = f"The nearest are: {', '.join(near)}." if near else f"Put it into {kind}s/, or add it to the registry."
        return NotFound(f"There is no {kind} {id[:200]!r}.", hint=hint)


def _chosen(entries: Sequence[Entry], version: str | None) -> Entry | None:
    """The entry of a place that serves a version; a skill's own one without a version has that of its package."""
    wanted = version or latest(entry.version for entry in entries)
    by_version = {entry.version: entry for entry in reversed(entries)}
    unversioned = by_version.get("")
    if unversioned is not None and not unversioned.origin.startswith(SKILL):
        unversioned = None
    return by_version.get(wanted or "", unversioned)


def broken(entry: Entry) -> Invalid:
    """The error for an entry that cannot be used."""
    errors = [problem for problem in entry.problems if problem.severity == "error"]
    first = errors[0].message if errors else "it cannot be read."
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    hint = errors[0].hint if errors else ""
    message = f"The {entry.kind} {entry.label!r} cannot be used: {first}{more}"
    return Invalid(message, hint=hint, problems=entry.problems)


def _reached_by(entry: Entry) -> str:
    """The name by which anybody finds it: one of a skill's own only with the skill's slug."""
    slug = entry.origin.removeprefix(SKILL)
    return entry.id if slug == entry.origin else f"{slug}/{entry.id}"


def _order(entry: Entry) -> tuple[str, object]:
    return entry.id, precedence(entry.version)
