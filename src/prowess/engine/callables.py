"""Find the skills that can be called as tools, with everything that callers and the gate need to know of each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prowess.catalog.catalog import Catalog
from prowess.errors import ProwessError
from prowess.policy.subject import Subject
from prowess.skill.kinds import JsonObject, kind_info, select_kinds

if TYPE_CHECKING:
    from prowess.engine.context import Context
    from prowess.policy.rules import Ruling

_LOOKUP_LIMIT = 64
"""Up to this many changed skills are looked up by name. If there are more, listing all is faster."""
SLOW_LOOK_SECONDS = 0.02
"""If nothing has changed and finding that out takes more CPU, it is not repeated at once: from about 1,000 skills in folders."""
_SHARE = 20
"""Slow looks take at most 1/20 of the time, however many folders there are."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CallableSkill:
    """A skill with a function, a request or a command that agents can call; `artifact` is what a call runs.

    If it cannot be called, `fault` says why. It stays the same object while the skill stays the same, so that caches can use
    it as a key.
    """

    slug: str
    title: str
    description: str
    parameters: JsonObject | None
    artifact: str
    subject: Subject
    """The subject of the gate's decision before a run."""
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The skills of an agent: whether there are any, any with files besides their instructions, any with scripts.

    `functions` are the callable skills, by slug.
    """

    skills: bool = False
    files: bool = False
    scripts: bool = False
    functions: tuple[CallableSkill, ...] = ()


class CallableIndex:
    """Remembers the callable skills of a catalog. Blocking.

    Only changes are read again, and nothing while the catalog has not changed. Looking at many folders takes long: then
    the result is used again for a while, unless this process has changed a skill.
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        self._catalog = catalog
        self._clock = clock
        self._cpu = cpu
        self._due = 0.0
        self._looked_at = float("-inf")
        self._changes = self._known_changes = 0
        self._lock = threading.Lock()
        self._positions: Mapping[str, str] = {}
        self._known: dict[str, CallableSkill] = {}
        self.seen = Inventory()
        """The result of the last look."""

    def look(self, *, recent: float = 0.0) -> Inventory:
        """Return what the catalog has now, or had at a look at most `recent` seconds ago if this process changed nothing since."""
        with self._lock:
            # Read before the look, so that a change during it counts next time.
            changes, now = self._changes, self._clock()
            if changes == self._known_changes and (now < self._due or now - self._looked_at < recent):
                return self.seen
            self._looked_at = now
            began = self._cpu()
            found = self._catalog.changes(self._positions)
            # A store that failed has the position '': what changed in it is unknown, so it is read again each time.
            taken = self._cpu() - began
            if found.positions != self._positions or "" in found.positions.values():
                self._follow(found.slugs)
                self.seen = self._held()
                self._positions, self._due = found.positions, 0.0
            elif taken > SLOW_LOOK_SECONDS:
                self._due = self._clock() + _SHARE * taken
            self._known_changes = changes
            return self.seen

    def look_again(self) -> None:
        """Make the next look read the catalog, because something changed."""
        self._changes += 1

    def _held(self) -> Inventory:
        files = self._catalog.serves(select_kinds(lambda kind: kind.is_file))
        return Inventory(
            skills=files or self._catalog.serves(),
            files=files,
            scripts=files and self._catalog.serves({"script"}),
            functions=tuple(self._known[slug] for slug in sorted(self._known)),
        )

    def _follow(self, changed: frozenset[str] | None) -> None:
        if changed is not None and len(changed) <= _LOOKUP_LIMIT:
            for slug in changed:
                self._look_up(slug)
            return
        tools = select_kinds(lambda kind: kind.is_tool)
        if not self._catalog.serves(tools):
            self._known.clear()
            return
        cards = {
            card.slug: card
            for card in self._catalog.cards()
            if not card.people_only and not tools.isdisjoint(card.kinds)
        }
        for slug in self._known.keys() - cards.keys():
            del self._known[slug]
        for slug, card in cards.items():
            known = self._known.get(slug)
            # Unchanged skills keep their object, which caches use as a key.
            if known is None or (known.subject.scope, known.subject.digest) != (card.scope, card.digest):
                self._read(slug)

    def _look_up(self, slug: str) -> None:
        outline = self._catalog.outline(slug)
        if outline is None or outline.people_only or not any(kind_info(part.kind).is_tool for part in outline.parts):
            self._known.pop(slug, None)
        else:
            self._read(slug)

    def _read(self, slug: str) -> None:
        """Read a skill as it is now, or forget it if it is gone."""
        # Imports the code that runs skills, which a catalog without callable skills does not need.
        from prowess.engine.callable_reader import read_callable

        self._known.pop(slug, None)
        try:
            # Forgotten above already: a skill that cannot be read now must not be offered as it was before.
            found = read_callable(self._catalog, *self._catalog.find(slug))
        except (ProwessError, OSError):
            return
        if found is not None:
            self._known[slug] = found


def preview_calls(context: Context, skills: Sequence[CallableSkill]) -> tuple[tuple[Subject, Ruling], ...]:
    """Return the current trust of each skill, and what the gate would decide about calling it. Blocking."""
    gate = context.resources.gate
    subjects = gate.resolve(context.actor, [skill.subject for skill in skills])
    rulings = gate.preview_all(context.actor, subjects, context.read_policy(), "run")
    return tuple(zip(subjects, rulings, strict=True))
