"""Read traces and their statistics, metrics, unused skills and the prompts of roles."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prowess.engine.parts import Frame
from prowess.policy.actor import Actor

if TYPE_CHECKING:
    from prowess.feed.metrics import Metrics
    from prowess.feed.usage import SkillUsage
    from prowess.session.role_prompt import RolePrompt, RolePrompts
    from prowess.skill.model import SkillCard
    from prowess.storage.trace_stats import GroupBy
    from prowess.storage.traces import TraceFilter
    from prowess.traces.export import ExportFormat
    from prowess.traces.report import Report
    from prowess.traces.trace import Trace


_DAY_SECONDS = 86_400


async def _wait_one_second() -> None:
    await asyncio.sleep(1)


class Tracing(Frame):
    """The part of the engine that reads traces: an actor sees those of its own user, an administrator all of the organization.

    Those of others are as if they were not there. Filters that are '' let everything through; `days` are the last ones.
    """

    async def traces(
        self,
        *,
        skill: str = "",
        artifact: str = "",
        status: str = "",
        session: str = "",
        model: str = "",
        run: str = "",
        days: float | None = None,
        limit: int = 50,
        actor: Actor | None = None,
    ) -> list[Trace]:
        """The runs that began last, the last first, without their inputs and texts."""
        from prowess.traces.history import list_newest

        which = _visible_traces(
            actor or self.actor,
            days,
            skill=skill,
            artifact=artifact,
            status=status,
            session=session,
            model=model,
            run=run,
        )
        if not self._parts.has_records():
            return []
        return await self._blocking(lambda: list_newest(self._parts.records(), which, limit))

    async def trace(self, trace_id: str, *, actor: Actor | None = None) -> Trace:
        """One trace with all that it has, by its id or the first four or more characters of it; `NotFound` for any other."""
        from prowess.traces.history import get_trace, unknown_trace

        which = _visible_traces(actor or self.actor)
        if not self._parts.has_records():
            raise unknown_trace(trace_id)
        return await self._blocking(lambda: get_trace(self._parts.records(), which, trace_id))

    async def stats(
        self, by: GroupBy = "skill", *, skill: str = "", days: float | None = None, actor: Actor | None = None
    ) -> Report:
        """Runs, failures, assertions, tokens, cost and times of each skill, artifact, model or day, and of all together."""
        from prowess.errors import Invalid
        from prowess.storage.trace_stats import GROUPINGS
        from prowess.traces.report import build_report

        if by not in GROUPINGS:
            raise Invalid(f"There are no figures by {by[:40]!r}.", hint=f"Give one of: {', '.join(GROUPINGS)}.")
        which = _visible_traces(actor or self.actor, days, skill=skill)
        records = self._parts.records() if self._parts.has_records() else None
        return await self._blocking(build_report, records, which, by)

    async def export_traces(
        self,
        format: ExportFormat = "jsonl",
        *,
        skill: str = "",
        artifact: str = "",
        status: str = "",
        days: float | None = None,
        actor: Actor | None = None,
    ) -> AsyncGenerator[dict[str, Any]]:
        """Each run as a JSON object, the oldest first: every column of its trace, or an example of an evaluation data set."""
        from prowess.errors import Invalid
        from prowess.traces.export import EXPORT_FORMATS, export_traces
        from prowess.traces.history import iterate_pages

        if format not in EXPORT_FORMATS:
            raise Invalid(f"There is no format {format[:40]!r}.", hint=f"Give one of: {', '.join(EXPORT_FORMATS)}.")
        which = _visible_traces(actor or self.actor, days, skill=skill, artifact=artifact, status=status)
        if not self._parts.has_records():
            return
        pages = iterate_pages(self._parts.records(), which)
        while page := await self._blocking(next, pages, None):
            for row in export_traces(page, format):
                yield row

    async def follow_traces(
        self,
        *,
        skill: str = "",
        artifact: str = "",
        status: str = "",
        session: str = "",
        pause: Callable[[], Awaitable[None]] = _wait_one_second,
        actor: Actor | None = None,
    ) -> AsyncGenerator[Trace]:
        """Each run that begins from now on, when it is over, in this process or another; `pause` is waited for between looks."""
        from prowess.traces.history import TraceFollower

        which = _visible_traces(actor or self.actor, 0, skill=skill, artifact=artifact, status=status, session=session)
        tail: TraceFollower | None = None
        while True:
            if tail is None and self._parts.has_records():
                tail = TraceFollower(self._parts.records(), which)
            for trace in await self._blocking(tail.look) if tail else ():
                yield trace
            await pause()


def _visible_traces(actor: Actor, days: float | None = None, **wanted: str) -> TraceFilter:
    """What an actor may see of what it wants to see."""
    from prowess.storage.clock import seconds_from_now
    from prowess.storage.traces import TraceFilter

    actor.require("skills.read")
    return TraceFilter(
        organization_id=actor.organization,
        user_id=None if actor.admin else actor.user,
        since="" if days is None else seconds_from_now(-days * _DAY_SECONDS),
        **wanted,
    )


class Reporting(Frame):
    """The part of the engine that watchers of it ask."""

    async def metrics(self, *, actor: Actor | None = None) -> bytes:
        """The metrics of the actor's organization in Prometheus's text format, for an endpoint or a file.

        They are made from the records, so every process tells the same; asked again, only what is new is counted.
        """
        from prowess.feed.metrics import empty_metrics

        if not self._parts.has_records():
            return empty_metrics()
        return await self._blocking(self._metrics_of((actor or self.actor).organization).exposition)

    async def unused(
        self, *, days: float, system: bool = False, actor: Actor | None = None
    ) -> list[tuple[SkillCard, SkillUsage]]:
        """The skills in reach that were neither loaded nor let into a prompt in the last days, the longest unused first.

        Skills of the system scope, which came with Prowess or a plugin, are left out unless `system` is said.
        """
        organization = (actor or self.actor).organization
        return await self._blocking(lambda: self._unused(organization, days, system=system))

    def _unused(self, organization: str, days: float, *, system: bool) -> list[tuple[SkillCard, SkillUsage]]:
        from prowess.feed.usage import NEVER_USED, days_ago, list_usage

        used = list_usage(self._parts.records(), organization) if self._parts.has_records() else {}
        border, cards = days_ago(days), self.catalog.cards()
        found = [(card, used.get(card.slug, NEVER_USED)) for card in cards if system or card.scope != "system"]
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
        from prowess.session.prompt import index_block

        return index_block(self._planner.plan(self.actor, self.catalog.cards())[0])

    @cached_property
    def _role_prompts(self) -> dict[Path | None, RolePrompts]:
        return {}

    def _metrics_of(self, organization: str) -> Metrics:
        from prowess.feed.metrics import Metrics

        with self._opening:
            if organization not in self._known_metrics:
                self._known_metrics[organization] = Metrics(self._parts.records(), organization)
            return self._known_metrics[organization]

    @cached_property
    def _known_metrics(self) -> dict[str, Metrics]:
        return {}
