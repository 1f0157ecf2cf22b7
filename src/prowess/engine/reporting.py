"""Telling how skills fare: metrics, skills that nobody uses, and the prompts of roles."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from prowess.engine.frame import Frame
from prowess.policy.actor import Actor

if TYPE_CHECKING:
    from prowess.delivery.metrics import Metrics
    from prowess.delivery.uses import Use
    from prowess.session.role_prompt import RolePrompt, RolePrompts
    from prowess.skill.model import SkillCard


class Reporting(Frame):
    """The part of the engine that watchers of it ask."""

    async def metrics(self, *, actor: Actor | None = None) -> bytes:
        """The metrics of the actor's organization in Prometheus's text format, for an endpoint or a file.

        They are made from the records, so every process tells the same; asked again, only what is new is counted.
        """
        from prowess.delivery.metrics import no_records

        if not self._parts.has_records():
            return no_records()
        return await self._blocking(self._metrics_of((actor or self.actor).organization).exposition)

    async def unused(
        self, *, days: float, system: bool = False, actor: Actor | None = None
    ) -> list[tuple[SkillCard, Use]]:
        """The skills in reach that were neither loaded nor let into a prompt in the last days, the longest unused first.

        Skills of the system scope, which came with Prowess or a plugin, are left out unless `system` is said.
        """
        organization = (actor or self.actor).organization
        return await self._blocking(lambda: self._unused(organization, days, system=system))

    def _unused(self, organization: str, days: float, *, system: bool) -> list[tuple[SkillCard, Use]]:
        from prowess.delivery.uses import NEVER, last_used, since

        used = last_used(self._parts.records(), organization) if self._parts.has_records() else {}
        border, cards = since(days), self.catalog.cards()
        found = [(card, used.get(card.slug, NEVER)) for card in cards if system or card.scope != "system"]
        return sorted(
            ((card, use) for card, use in found if use.last < border), key=lambda one: (one[1].last, one[0].slug)
        )

    async def role_prompt(
        self, role: str, *, templates: Path | None = None, values: Mapping[str, str] | None = None
    ) -> RolePrompt:
        """What an agent of a role is told: the role's pack below the index of skills, its older template, or one sentence.

        `templates` has packs in `skills/` and older templates in `roles/`; the packs that come with Prowess stand in for
        roles that it does not have. `values` are for the placeholders of a template.
        """
        return await self._blocking(lambda: self._roles(templates).resolve(role, values))

    def _roles(self, templates: Path | None) -> RolePrompts:
        from prowess.session.role_prompt import RolePrompts

        known = self._role_prompts.get(templates)
        if known is None:
            known = RolePrompts(
                templates=templates, packs=self._parts.packs, index=self._index_text, limits=self._limits
            )
            self._role_prompts[templates] = known
        return known

    def _index_text(self) -> str:
        from prowess.session.render import index_block

        return index_block(self._planner.plan(self.actor, self.catalog.cards())[0])

    @cached_property
    def _role_prompts(self) -> dict[Path | None, RolePrompts]:
        return {}

    def _metrics_of(self, organization: str) -> Metrics:
        from prowess.delivery.metrics import Metrics

        with self._opening:
            if organization not in self._known_metrics:
                self._known_metrics[organization] = Metrics(self._parts.records(), organization)
            return self._known_metrics[organization]

    @cached_property
    def _known_metrics(self) -> dict[str, Metrics]:
        return {}
