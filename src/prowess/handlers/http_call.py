"""http_call: a declared request, filled with the inputs of a run and sent; what is wanted of the answer is the output."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_random_exponential

from prowess.errors import Invalid, ProwessError, Refused, RunFailed, TimedOut, TryLater
from prowess.handlers.answer_reading import text_of, value_of
from prowess.handlers.promised import check_promised
from prowess.handlers.request_filling import Filled, Filling
from prowess.llm.pace import Sleep
from prowess.outbound.request import Outbound, OutboundAnswer, OutboundRequest
from prowess.redaction.known import SHORTEST
from prowess.run.beside import beside
from prowess.run.call import Call, Output
from prowess.run.grants import Grants, GrantsOf
from prowess.run.inputs import checked_inputs, declared
from prowess.skill.declared_request import IDEMPOTENT, DeclaredRequest, declared_request
from prowess.skill.kinds import HttpCall, Kind
from prowess.skill.needs import needs_of

BUSY = frozenset({429, 502, 503, 504})
"""What a host answers that may answer otherwise a little later."""
MOST_TOLD = 300
"""So many characters of an answer that is an error are told with it."""

_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_growing = wait_random_exponential(multiplier=0.25, max=8)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sending:
    """One run of one request: what is sent, until when, and what must not be said about it."""

    call: Call
    declared: DeclaredRequest
    request: OutboundRequest
    env: Mapping[str, str] = field(repr=False)
    deadline: float

    def said(self, answer: OutboundAnswer) -> str:
        """What an answer says, without what was sent in confidence; nothing where that is too short to be found for sure."""
        if any(0 < len("".join(value.split())) < SHORTEST for value in self.env.values()):
            return ""
        return self.call.notes.hiding.text(text_of(answer))


class HttpCallHandler:
    """Sends the request that the artifact declares to a host that its skill declares, and gives what is wanted of the answer.

    Values of the environment are filled in last, only those that were granted, and only what the answer itself gives away of
    them could be said; that is removed. Requests that may be repeated are, where the host is out of reach or busy. `RunFailed`
    tells the status of an answer that is none of those wanted, `TimedOut` that its time was over, `OutputInvalid` that the
    answer is not what the skill promises.
    """

    kind: Kind = "http_call"

    def __init__(self, outbound: Outbound, grants_of: GrantsOf, *, sleep: Sleep = asyncio.sleep) -> None:
        self._outbound = outbound
        self._grants_of = grants_of
        self._sleep = sleep

    async def run(self, call: Call) -> Output:
        """Send it."""
        artifact = call.artifact
        if not isinstance(artifact, HttpCall):
            raise Invalid(f"{artifact.name!r} is a {artifact.kind}, not a request.")
        request = declared_request(artifact)
        inputs = checked_inputs(call.inputs, call.skill.parameters)
        optional = declared(call.skill.parameters or {})
        masks = {name: _mask(name) for name in request.secrets}
        call.about_to(_shown(request, Filling(inputs=inputs, optional=optional, env=masks).fill(request)))
        grants = await self._grants_of(call)
        env = _granted(call, request, grants)
        filled = Filling(inputs=inputs, optional=optional, env=env).fill(request)
        sending = _Sending(
            call=call,
            declared=request,
            request=_outbound_request(call, request, filled, grants),
            env=env,
            deadline=time.monotonic() + request.timeout_seconds,
        )
        answer = await self._in_time(sending)
        return await beside(len(answer.body), _output, sending, answer)

    async def _in_time(self, sending: _Sending) -> OutboundAnswer:
        seconds = sending.declared.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._retrying(sending)(self._once, sending)
        except TimeoutError:
            raise TimedOut(
                f"The request {sending.call.artifact.name!r} had no answer within {seconds:g} seconds.",
                hint="Try again, or raise its timeout_seconds.",
            ) from None

    async def _once(self, sending: _Sending) -> OutboundAnswer:
        """One try; an answer that is not wanted is an error."""
        answer = await self._outbound.send(sending.request)
        sending.call.notes.detail["http"] = {"status": answer.status, "hosts": list(answer.hops)}
        sending.call.notes.raw = await beside(len(answer.body), sending.said, answer)
        if sending.declared.response.accepts(answer.status):
            return answer
        raise _unwanted(sending, answer)

    def _retrying(self, sending: _Sending) -> AsyncRetrying:
        attempts = sending.declared.attempts if sending.declared.method in IDEMPOTENT else 1
        return AsyncRetrying(
            stop=stop_after_attempt(attempts),
            wait=_wait,
            retry=retry_if_exception(_worth_another_try(sending.deadline)),
            sleep=self._sleep,  # pyright: ignore[reportArgumentType]
            reraise=True,
        )


def _granted(call: Call, request: DeclaredRequest, grants: Grants) -> dict[str, str]:
    """The values that the request uses, each noted; `Refused` names one that is not given, and what to do."""
    needed = needs_of(call.skill).env
    for name in request.secrets:
        if name in grants.env and name in needed:
            call.notes.receipt.touch("env", name)
            continue
        call.notes.receipt.refuse("env", name)
        if name not in needed:
            raise Refused(
                f"{call.skill.slug!r} does not declare {name!r} of the environment.",
                hint=f'Add to the manifest: env: ["{name}"]; whoever decides about the skill sees it.',
            )
        raise Refused(
            f"{name!r} of the environment is not given to {call.skill.slug!r}.",
            hint=grants.denied.get(name) or f"An administrator allows it: prowess env allow {call.skill.slug} {name}.",
        )
    used = {name: grants.env[name] for name in request.secrets}
    call.confide(used)
    return used


def _outbound_request(call: Call, request: DeclaredRequest, filled: Filled, grants: Grants) -> OutboundRequest:
    return OutboundRequest(
        url=filled.url,
        method=request.method,
        headers=filled.headers,
        body=filled.body,
        hosts=grants.hosts,
        routes=grants.routes,
        seconds=request.timeout_seconds + 1,  # the run's own time is over first
        answer_bytes=request.max_bytes,
        party=call.outermost,
        witness=call.notes.receipt,
    )


def _output(sending: _Sending, answer: OutboundAnswer) -> Output:
    value = sending.call.notes.hiding.data(value_of(answer, text_of(answer), sending.declared.response))
    check_promised(sending.call, value)
    facts = {"status": answer.status, "content_type": answer.headers.get("content-type", "")[:200]}
    if isinstance(value, str):
        return Output(kind="http_call", text=value, result=facts)
    text = "" if value is None else json.dumps(value, ensure_ascii=False, indent=2)
    return Output(kind="http_call", text=text, data=value, result=facts)


def _unwanted(sending: _Sending, answer: OutboundAnswer) -> ProwessError:
    """An answer whose status is not wanted, with its first words, which are the host's and not ours."""
    host = answer.hops[-1] if answer.hops else "The host"
    words = _UNSEEN.sub(" ", sending.call.notes.raw).strip()[:MOST_TOLD]
    told = f"{host} answered {answer.status}{f': {words}' if words else '.'}"
    if answer.status not in BUSY:
        return RunFailed(told, hint="Correct the inputs, or the request that the skill declares.")
    asked = answer.headers.get("retry-after", "").strip()
    return TryLater(
        told, hint="Try again later.", retry_after=float(asked) if re.fullmatch(r"\d{1,6}", asked) else None
    )


def _worth_another_try(deadline: float) -> Callable[[BaseException], bool]:
    def is_worth(error: BaseException) -> bool:
        return isinstance(error, TryLater) and time.monotonic() + (error.retry_after or 0) < deadline

    return is_worth


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, TryLater) else None
    return max(asked or 0, _growing(state))


def _mask(name: str) -> str:
    return f"[env.{name}]"


def _shown(request: DeclaredRequest, filled: Filled) -> str:
    """The request as it is noted: with its inputs, and with names where values of the environment are sent."""
    url = filled.url
    for name in request.secrets:
        url = url.replace(f"%5Benv.{name}%5D", _mask(name))
    lines = [f"{request.method} {url}", *(f"{name}: {value}" for name, value in filled.headers.items())]
    body: Any = filled.body.decode(errors="replace")
    return "\n".join([*lines, "", body] if body else lines)
