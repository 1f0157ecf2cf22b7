"""The prompt of a role: its skill pack, else its older template, else one sentence.

Looked for in this order, nearest first:

1. `<templates>/skills/<role>/SKILL.md`: the index of all skills, then the pack's text as the one renderer has it.
2. `<templates>/roles/<role>/system_prompt.md`: its text with its placeholders filled in.
3. `<packs>/<role>/SKILL.md`, the packs that are shipped: as 1. They stand in where the templates say nothing of the role.
4. "You are a <role> specialist."

A role is a name by a pattern and is never taken for a path. Nothing is read through a link below the two folders.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from prowess.errors import Invalid
from prowess.session.neutral import neutralised
from prowess.session.placeholders import fill_in
from prowess.session.render import joined
from prowess.session.role_files import Found, RoleSource, Watched, read_pack, read_template
from prowess.skill.limits import DEFAULT_LIMITS, Limits

ROLE = re.compile(r"[a-z][a-z0-9-]{0,63}")
"""What a role may be called."""

_KEPT = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class RolePrompt:
    """What an agent of a role is told; `location` is the folder or file it was read from, and '' for the stub."""

    role: str
    source: RoleSource
    text: str
    location: str = ""
    digest: str = ""


class RolePrompts:
    """The prompts of roles, each read once, and again only after something changed that it was read from.

    That is the `skills` or `roles` folder as such, as well as every file and folder of the role. The index is asked for at
    every prompt, since it is made from more than the roles.
    """

    def __init__(
        self, *, templates: Path | None, packs: Path, index: Callable[[], str], limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._templates = str(templates.absolute()) if templates is not None else None
        self._packs = str(packs.absolute())
        self._index = index
        self._limits = limits
        self._known: dict[str, Found] = {}

    def resolve(self, role: str, values: Mapping[str, str] | None = None) -> RolePrompt:
        """The prompt of a role; `values` are for the placeholders of a template.

        `Invalid` for what is no role's name, and for a pack or template that is there and cannot be used: a broken one is
        never passed over in silence.
        """
        found = self._find(check_role(role))
        if found.source == "pack":
            text = joined(part for part in (self._index(), found.text) if part)
        elif found.source == "template":
            text = neutralised(fill_in(found.text, values or {}, source=found.location))
        else:
            text = f"You are a {role} specialist."
        return RolePrompt(role=role, source=found.source, text=text, location=found.location, digest=found.digest)

    def _find(self, role: str) -> Found:
        known = self._known.get(role)
        if known is None or not known.holds():
            known = self._look(role)
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[role] = known
        return known

    def _look(self, role: str) -> Found:
        """What is there now, first to last; what was not there is watched as well."""
        passed: Watched = ()
        settled = True
        for look in self._places(role):
            found = look()
            passed += found.watched
            settled = settled and found.settled
            if found.source != "stub":
                return replace(found, watched=passed, settled=settled)
        return Found(watched=passed, settled=settled)

    def _places(self, role: str) -> list[Callable[[], Found]]:
        own, packs, limits = self._templates, self._packs, self._limits
        shipped = [lambda: read_pack(packs, role, "system", limits)]
        if own is None:
            return [*shipped]
        return [
            lambda: read_pack(own, f"skills/{role}", "templates", limits),
            lambda: read_template(own, f"roles/{role}", limits),
            *shipped,
        ]


def check_role(role: str) -> str:
    """Give the name back if a role may be called so, else raise `Invalid`."""
    if ROLE.fullmatch(role):
        return role
    raise Invalid(
        f"{role[:80]!r} is not the name of a role: a lowercase letter, then lowercase letters, digits and hyphens, 64 at most.",
        hint="Use a name such as 'backend' or 'ml-engineer'.",
    )
