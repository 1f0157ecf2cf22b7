"""One run from the command line: what is asked for, and what is told of it besides what it gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from prowess.errors import ProwessError, RunFailed
from prowess.interfaces.cli.env_words import why_not_given
from prowess.interfaces.cli.opening import with_engine

if TYPE_CHECKING:
    from prowess.build.opening import Prowess
    from prowess.interfaces.cli.runs import Screen
    from prowess.interfaces.cli.saving import Saving
    from prowess.run.outcome import RunResult
    from prowess.skill.model import Skill


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be run, and how."""

    slug: str
    artifacts: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    """As they were typed."""
    model: str = ""
    evaluation_model: str = ""
    dry_run: bool = False
    timeout: float | None = None
    resume: str = ""
    session: str = ""


class Attempt:
    """Runs what was ordered, as often as it takes to be allowed."""

    def __init__(self, order: Order, *, screen: Screen, saving: Saving, workspace: str | None) -> None:
        self._order = order
        self._screen = screen
        self._saving = saving
        self._workspace = workspace
        self.ran: tuple[Skill, RunResult] | None = None
        """The skill, and what came of it; None before a run has ended."""

    def once(self) -> ProwessError | None:
        """Run it. Gives what went wrong after it had ended, such as steps that a script of a model has left."""
        try:
            with self._screen:
                with_engine(self._workspace, self._work)
        except RunFailed as error:
            if self.ran is None:
                raise
            return error
        except (KeyboardInterrupt, click.exceptions.Exit):
            with_engine(self._workspace, self._tell_how_to_go_on)
            raise
        return None

    async def _work(self, prowess: Prowess) -> None:
        from prowess.interfaces.cli.inputs import read_inputs

        order, screen = self._order, self._screen
        skill = await prowess.skill(order.slug)
        self._saving.check(skill)
        given = {} if order.resume and not order.inputs else read_inputs(order.inputs, skill.parameters)
        result = await prowess.attempt(
            order.session,
            order.slug,
            order.artifacts,
            inputs=given,
            model=order.model,
            evaluation_model=order.evaluation_model,
            timeout=order.timeout,
            resume=order.resume,
            dry_run=order.dry_run,
            watch=None if screen.quiet else screen.watch,
            each=screen.part,
            progress=screen.note,
        )
        self.ran = skill, result
        if not screen.quiet:
            screen.add(await why_not_given(prowess, order.slug, [part.receipt for part in result.parts]))

    async def _tell_how_to_go_on(self, prowess: Prowess) -> None:
        """Say how the run goes on that was just interrupted, where it can."""
        slug = self._order.slug
        last = await prowess.traces(skill=slug.rpartition(":")[2], status="cancelled", limit=1)
        if last and await prowess.can_resume(last[0].id):
            click.echo(f"It goes on from its last checkpoint with: {resuming(slug, last[0].id)}", err=True)


def resuming(slug: str, trace: str) -> str:
    """The command that goes on with an interrupted run."""
    return f"prowess run {slug} --resume {trace[:8]}"
