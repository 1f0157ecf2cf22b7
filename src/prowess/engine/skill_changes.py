"""Create or change a skill and return its new row, in one step: one thread does the checks, the write and the reading."""

from __future__ import annotations

from dataclasses import dataclass, field

from prowess.engine.context import Context
from prowess.engine.skill_rows import SkillRow, not_found, read_one
from prowess.engine.skill_writer import SkillWriter
from prowess.engine.visibility import is_off
from prowess.errors import Conflict, Invalid
from prowess.skill.draft import SkillDraft
from prowess.skill.model import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillChange:
    """A change of a skill. With `expected`, it must have one of these digests, or the change is a `Conflict`."""

    draft: SkillDraft = field(default_factory=SkillDraft)
    scope: Scope | None = None
    enabled: bool | None = None
    expected: frozenset[str] = frozenset()


def create_row(context: Context, draft: SkillDraft, scope: Scope, *, enabled: bool) -> SkillRow:
    """Keep a new skill of one document and return its row. Only an admin can create one that is switched off."""
    if not enabled:
        context.actor.require("admin")
    skill = SkillWriter(context, shows=True).create_document(draft, scope, "", enabled=enabled)
    return read_one(context, f"{skill.scope}:{skill.slug}")


def change_row(context: Context, address: str, change: SkillChange) -> SkillRow:
    """Change the document of a skill, or switch it on or off, and return its new row."""
    write = None
    with context.resources.snapshot():  # one transaction for everything that is read before the write
        store, skill = context.catalog.find(address)
        is_on = not is_off(skill.slug, context.visibility.switched_off())
        if not is_on and not context.actor.is_person:
            raise not_found(address)
        if change.expected and skill.digest not in change.expected:
            raise Conflict(f"The skill {skill.slug!r} has changed.", hint="Reload the skill and repeat the change.")
        if change.scope not in (None, skill.scope):
            raise Invalid(
                f"The skill {skill.slug!r} is in the {skill.scope} scope and cannot be moved.",
                hint=f"Copy it with POST /api/v1/skills/{skill.slug}/fork.",
            )
        if change.enabled not in (None, is_on):
            context.actor.require("admin")
        if change.draft != SkillDraft():
            expected = skill.digest if change.expected else ""
            write = SkillWriter(context, shows=True).plan_update(store, skill, change.draft, expected)
    if write is not None:
        write("")
    if change.enabled not in (None, is_on):
        context.resources.policies.switch(context.actor, [skill.slug], on=bool(change.enabled))
    return read_one(context, f"{skill.scope}:{skill.slug}")
