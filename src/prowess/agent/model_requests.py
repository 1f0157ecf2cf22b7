"""Model requests of a conversation, within the spending limits of the organization and of the session."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from prowess.engine.context import Context
from prowess.llm.model import Model, Reply, Request, Usage
from prowess.policy.organization import OrgPolicy
from prowess.run.allowance import read_allowance
from prowess.run.call import make_call, start_run
from prowess.run.record import finish_row, start_row
from prowess.run.request import RunRequest, Step
from prowess.session.session import Session
from prowess.skill.kinds import PromptTemplate
from prowess.skill.model import Skill
from prowess.skill.needs import read_needs

AGENT = Skill(
    slug="prowess.agent",
    title="Agent",
    description="Answers the messages of a conversation.",
    artifacts=(PromptTemplate(name="answer", content="{{ message }}"),),
)
"""The skill on whose behalf the model of a conversation is asked, so that the limits of runs apply. It is in no catalog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer, with what it took. `cost` is in US dollars, None if no price is known."""

    reply: Reply
    usage: Usage
    cost: float | None
    model: str


class ModelRequests:
    """Sends the requests of one turn, with the policy and the limits of when it began.

    `payer` is the session whose spending limit counts, '' for the turn's own.
    """

    def __init__(
        self,
        context: Context,
        session: Session,
        policy: OrgPolicy,
        *,
        model: Model | str = "",
        payer: str = "",
    ) -> None:
        self._context = context
        self._on_text: Callable[[str], None] = _ignore
        request = RunRequest(slug=AGENT.slug, session=session.id, model=model, on_step=self._listen)
        self._run = start_run(
            request,
            AGENT,
            artifacts=(),
            inputs={},
            limits=read_allowance(AGENT, seconds=context.resources.runner.seconds),
            needs=read_needs(AGENT),
            actor=context.actor,
            policy=policy,
            trust="local",
            session=payer or session.id,
            session_model=session.model,
        )

    async def model(self) -> Model:
        """Return the model that is asked: the one chosen for the turn, else the session's, else the default."""
        return await self._context.resources.model_client().model_for(make_call(self._run, AGENT.artifacts[0], {}))

    async def ask(self, request: Request, *, on_text: Callable[[str], None]) -> Answered:
        """Send one request and return the answer. `on_text` receives its text as it is written.

        Every request leaves a trace, without its texts: the conversation has those.
        """
        self._on_text = on_text
        call = make_call(self._run, AGENT.artifacts[0], {})
        traces, row, began = self._context.resources.traces(), start_row(call), time.perf_counter()
        traces.begin(row)
        failed: BaseException | None = None
        try:
            reply = await self._context.resources.model_client().ask(call, request, stream=True)
        except BaseException as error:
            failed = error
            raise
        finally:
            traces.finish(finish_row(row, call, failed, round((time.perf_counter() - began) * 1000)))
        notes = call.notes
        return Answered(reply=reply, usage=notes.usage, cost=notes.cost, model=notes.model)

    def _listen(self, step: Step) -> None:
        if step.text:
            self._on_text(step.text)


def _ignore(text: str) -> None:
    """Ignore text."""
