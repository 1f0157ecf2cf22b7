"""Send model requests on behalf of a run: choose the model, hold the spending limits, note usage and cost."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import Literal

from prowess.errors import AnswerUnusable, Invalid, ProwessError, Refused, RunFailed, SpendExceeded, TimedOut
from prowess.llm.model import Model, Reply, Request, Usage, fit_schema
from prowess.llm.models import ModelChoice, Models
from prowess.llm.prices import DEFAULT_MAX_TOKENS, cost_of, lacks_price, max_cost
from prowess.run.call import Call, DryRunEnded, SentRequest
from prowess.run.request import Step
from prowess.run.spending import Spending, note_unusable
from prowess.run.telemetry import Telemetry
from prowess.session.session import estimate_tokens
from prowess.threads import offload_cancellable

log = logging.getLogger(__name__)

MAX_TOKENS = 100_000_000
"""More than any model can read or write at once."""

_IMPLAUSIBLE = 20
"""A reported cost counts up to this multiple of the estimate."""
_LIMITED = "anthropic:"
"""The provider whose requests always have a limit."""

Purpose = Literal["answer", "evaluation"]


class ModelClient:
    """Sends model requests. Handlers and assertions reach models through it only."""

    def __init__(self, models: Models, spending: Spending, telemetry: Telemetry) -> None:
        self._models = models
        self._spending = spending
        self._telemetry = telemetry

    async def model_for(self, call: Call, *, named: str = "", purpose: Purpose = "answer") -> Model:
        """Return the model for a call: the caller's choice, else the one `named` by the artifact, else the session's or default.

        For evaluations, the artifact's and the configured evaluation model come before the caller's choice for answers. Raise
        `NoModel` if there is none.
        """
        # The name of a model may be a path on this machine, which a skill must not choose.
        if named:
            self._models.check_chooser(named, "A skill")
        if purpose == "evaluation":
            candidates = (
                call.request.evaluation_model,
                named,
                self._models.evaluation,
                call.request.model,
                call.run.session_model,
            )
        else:
            candidates = (call.request.model, named, call.run.session_model)
        chosen = (
            next((candidate for candidate in candidates if candidate), self._models.default)
            or call.request.fallback_model
            or ""
        )
        if not isinstance(chosen, str):
            if not hasattr(chosen, "complete") or isinstance(chosen, type):
                raise Invalid(f"Not a model: {type(chosen).__name__}.", hint="Pass a model, or its name as a string.")
            return chosen
        if call.run.actor.is_remote and chosen not in self._models.configured:
            self._models.check_chooser(chosen, "A request over HTTP")
        if call.request.dry_run:
            return self._models.named(chosen)
        model = self._models.opened(chosen) or await offload_cancellable(
            lambda: self._models.open(chosen), at_imports=True
        )
        if chosen == named and lacks_price(model.name):
            raise Refused(
                f"A skill may not choose the model {model.name[:80]!r}: its price is unknown, so no spending limit can be enforced.",
                hint="Choose it yourself with `--model` or PROWESS_MODEL.",
            )
        return model

    @property
    def evaluation(self) -> str:
        """The name of the configured evaluation model, or '' if the model of a run judges."""
        return self._models.evaluation

    def choices(self) -> list[ModelChoice]:
        """Return the models that are configured or on this machine, the default first. Blocking."""
        return self._models.choices()

    def check_choice(self, name: str, *, is_remote: bool) -> None:
        """Raise `Invalid` or `Refused` for a name that cannot be chosen, and `Unavailable` for a model that is not ready."""
        if is_remote and name not in self._models.configured:
            self._models.check_chooser(name, "A request over HTTP")
        self._models.check_choice(name)

    async def ask(
        self, call: Call, request: Request, *, named: str = "", purpose: Purpose = "answer", stream: bool = False
    ) -> Reply:
        """Send one request and return the answer. With `stream`, listeners receive text as it is written; data is not streamed."""
        model = await self.model_for(call, named=named, purpose=purpose)
        if call.request.dry_run:
            call.notes.sent.append(_sent(model, request, purpose))
            raise DryRunEnded
        streams = stream and call.is_watched and request.schema is None
        return await self._send(call, model, request, stream=streams, notes_model=purpose == "answer")

    async def ask_all(
        self,
        call: Call,
        requests: Sequence[Request],
        *,
        named: str = "",
        purpose: Purpose = "evaluation",
        at_once: int = 4,
    ) -> list[Reply | ProwessError]:
        """Send several requests, a few at a time, and return the answers in order; an error takes the place of an answer."""
        model = await self.model_for(call, named=named, purpose=purpose)
        if call.request.dry_run:
            call.notes.sent += [_sent(model, request, purpose) for request in requests]
            raise DryRunEnded
        # Errors are values here: in a task group, one that is raised would cancel the other requests, which are paid
        # for.
        room = asyncio.Semaphore(at_once)

        async def one(request: Request) -> Reply | ProwessError:
            async with room:
                try:
                    return await self._send(call, model, request, stream=False, notes_model=purpose == "answer")
                except ProwessError as error:
                    return error

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(request)) for request in requests]
        return [task.result() for task in tasks]

    async def _send(self, call: Call, model: Model, request: Request, *, stream: bool, notes_model: bool) -> Reply:
        notes = call.notes
        if call.run.is_nested:
            # Shared with the run whose code started this one; otherwise a script could exceed its limit by running
            # other skills.
            call.run.questions.count(1)
        # An evaluation must not replace the model that gave the answer.
        if notes_model or not notes.model:
            notes.model = model.name
        is_priced = max_cost(model.name, 0, 0) is not None
        most = max_cost(model.name, _count_tokens(request), request.max_tokens) if is_priced else None
        request = replace(_limited(model, request), seconds=call.run.limits.seconds)
        if most:
            reply, cost = await self._send_paid(call, model, request, most, stream=stream)
        else:
            reply, cost = await self._send_free(call, model, request, stream=stream)
        notes.usage += _plausible(reply.usage)
        if cost is not None:
            notes.cost = (notes.cost or 0.0) + cost
        return reply

    async def _send_paid(
        self, call: Call, model: Model, request: Request, most: float, *, stream: bool
    ) -> tuple[Reply, float | None]:
        """Send a request that costs at most `most`, which is held until the real cost is known."""
        # The run's own limit comes first, because it needs no database.
        with _held(call, most) as hold:
            async with self._spending.reserved(call, most) as reservation:
                reply = await self._complete(call, model, request, stream=stream)
                cost = _cost(model, reply, most)
                reservation.actual = cost
                if cost is not None:
                    hold(cost)
        return reply, cost

    async def _send_free(
        self, call: Call, model: Model, request: Request, *, stream: bool
    ) -> tuple[Reply, float | None]:
        """Send a request that is free, or whose price is unknown."""
        _check_room(call, 0.0)
        try:
            reply = await self._complete(call, model, request, stream=stream)
        except AnswerUnusable as error:
            note_unusable(call, error, None if error.cost is None else 0.0)
            raise
        return reply, _cost(model, reply, None)

    async def _complete(self, call: Call, model: Model, request: Request, *, stream: bool) -> Reply:
        with self._telemetry.request_span(model, request) as span:
            reply = await self._answer(call, model, request, stream=stream)
            span.answered(reply)
        return reply

    async def _answer(self, call: Call, model: Model, request: Request, *, stream: bool) -> Reply:
        try:
            reply: object = await (self._streamed(call, model, request) if stream else model.complete(request))
        except ProwessError:
            raise
        except Exception as error:
            # The model may be an object of the application, which turns even its cancellation into any error.
            if (task := asyncio.current_task()) and task.cancelling():
                raise
            log.exception("The model %s failed.", model.name)
            fault = f"raised {type(error).__name__}"
        else:
            if isinstance(reply, Reply):
                return reply
            fault = "did not end its stream with a Reply" if stream else f"returned {type(reply).__name__}, not a Reply"
        # Not chained to the exception, whose text may have a secret.
        raise RunFailed(f"The model {model.name} {fault}.", hint="This is a bug in the model, not in your inputs.")

    @staticmethod
    async def _streamed(call: Call, model: Model, request: Request) -> Reply | None:
        reply = None
        # Without `aclosing`, a cancelled run would keep the connection until the generator is garbage collected.
        async with aclosing(model.stream(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Reply):
                    reply = piece
                else:
                    call.run.on_step(Step(artifact=call.artifact.name, text=piece))
        return reply


def _limited(model: Model, request: Request) -> Request:
    """Return the request with a limit on the answer, if answers cost money and nobody set one."""
    if request.max_tokens is not None or model.name.startswith(_LIMITED) or max_cost(model.name, 0, 0) is None:
        return request
    return replace(request, max_tokens=DEFAULT_MAX_TOKENS)


def _sent(model: Model, request: Request, purpose: Purpose) -> SentRequest:
    """Return the request as the model would receive it."""
    whole = fit_schema(_limited(model, request), structured=model.structured)
    return SentRequest(model=model.name, request=whole, purpose=purpose)


def _check_room(call: Call, most: float) -> None:
    full = call.run.spend.full(most)
    if full is not None:
        raise SpendExceeded(
            f"{call.skill.slug!r} may cost ${full.limit or 0:.4f} per run. ${full.held:.4f} is spent or reserved, "
            f"and the next request may cost ${most:.4f}.",
            hint="Raise `max_cost_usd` in the skill's policy, or choose a cheaper model with `--model`.",
        )


@contextmanager
def _held(call: Call, most: float) -> Generator[Callable[[float], None]]:
    """Hold what a request may cost against the run's own limit; the block calls what is yielded with the real cost.

    A request that failed cost nothing. One that was cancelled or timed out may still be billed, so its amount stays held.
    """
    _check_room(call, most)
    limit = call.run.spend
    limit.hold(most)
    actual = most

    def settle(cost: float) -> None:
        nonlocal actual
        actual = cost

    try:
        yield settle
    except TimedOut:
        raise
    except AnswerUnusable as error:
        # The provider bills an answer that cannot be used as well.
        settle(most if error.cost is None else min(error.cost, most))
        raise
    except ProwessError:
        settle(0.0)
        raise
    finally:
        limit.hold(actual - most)


def _plausible(usage: Usage) -> Usage:
    """Return what a server reports as used, within limits: servers have reported negative and absurd numbers."""
    if 0 <= usage.input_tokens <= MAX_TOKENS and 0 <= usage.output_tokens <= MAX_TOKENS:
        return usage
    return replace(
        usage,
        input_tokens=min(max(usage.input_tokens, 0), MAX_TOKENS),
        output_tokens=min(max(usage.output_tokens, 0), MAX_TOKENS),
    )


def _cost(model: Model, reply: Reply, most: float | None) -> float | None:
    """Return what an answer cost; None if that is unknown.

    A server cannot use up the cap of a whole day with one wrong number: the cost is at most several times the estimate.
    """
    used = _plausible(reply.usage)
    cost = cost_of(model.name, used) if used.requests else None
    return cost if cost is None or most is None else min(cost, most * _IMPLAUSIBLE)


def _count_tokens(request: Request) -> int:
    texts = [message.text for message in request.messages]
    # Providers also bill what is sent in addition to the messages: in a conversation, tools are often the larger part.
    texts += [json.dumps(request.schema)] if request.schema is not None else []
    texts += [f"{tool.name}{tool.description}{json.dumps(tool.parameters)}" for tool in request.tools]
    texts += [json.dumps(call.arguments, default=str) for message in request.messages for call in message.calls]
    return sum(map(estimate_tokens, texts))
