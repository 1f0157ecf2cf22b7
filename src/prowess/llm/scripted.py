"""A model that says what it was told to say: for tests, and for trying things without a model.

It is strict. A request that its script does not expect is an error, and so is a step that nobody asked for.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

from prowess.errors import Invalid, RunFailed
from prowess.llm.model import Reply, Request, Usage
from prowess.llm.schema_words import fitted

When = str | Callable[[Request], bool]
Answered = str | Reply | Exception | Mapping[str, Any]

PIECE = 24
"""How many characters a streamed piece has."""

_SHOWN = 400
_STEPS = "Give a list whose steps are texts, mappings that are JSON, replies, exceptions or answers for requests."


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A step for one kind of request: `when` is a text that occurs in what is asked, or says yes to the request."""

    when: When
    reply: Answered


Step = Answered | Answer


class ScriptedModel:
    """Answers requests from a script, step by step.

    A step is a text, a mapping (which is answered as JSON), a whole `Reply`, an exception to raise, or an `Answer` that says
    which request it is for. Steps are taken in order; with `unordered`, the first that fits is, so that several may ask at
    once. What does not fit is `RunFailed` that shows what was asked and what the script expected; `finish`, or leaving its
    `with` block, raises the same where steps are left. `Invalid` for steps that are none. Tokens are estimated at four characters each where a `Reply` says none.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        *,
        name: str = "scripted:test",
        family: str = "scripted",
        structured: bool = True,
        unordered: bool = False,
    ) -> None:
        self.name = name
        self.family = family
        self.structured = structured
        self.requests: list[Request] = []
        """What was asked, in order; with the schema in words where the answer is not held to it."""
        self._steps = _checked(steps)
        self._unordered = unordered

    def __repr__(self) -> str:
        return f"<ScriptedModel {self.name}, {len(self._steps)} steps left>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.finish()

    @property
    def left(self) -> int:
        """How many steps have not been asked for."""
        return len(self._steps)

    def finish(self) -> None:
        """`RunFailed` where a step has not been asked for."""
        if self._steps:
            raise RunFailed(
                f"{self.left} steps of the script {self.name} were never asked for. The next is {_step(self._steps[0])}.",
                hint="Ask for them, or take them out of the script.",
            )

    async def close(self) -> None:
        """`RunFailed` where some of the script was asked for and some was not."""
        if self.requests:
            self.finish()

    async def complete(self, request: Request) -> Reply:
        """The answer of the step that this request is for."""
        return self._next(request)

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply]:
        """The same, in pieces."""
        reply = self._next(request)
        for start in range(0, len(reply.text), PIECE):
            yield reply.text[start : start + PIECE]
        yield reply

    def _next(self, request: Request) -> Reply:
        request = fitted(request, structured=self.structured)
        self.requests.append(request)
        candidates = self._steps if self._unordered else self._steps[:1]
        for place, step in enumerate(candidates):
            if _fits(step, request):
                del self._steps[place]
                return _reply(step.reply if isinstance(step, Answer) else step, request, self.name)
        expected = " or ".join(_step(step) for step in candidates[:3]) or "nothing more"
        raise RunFailed(
            f"The script {self.name} does not expect this request, its number {len(self.requests)}: {_asked(request)}. "
            f"It expects {expected}.",
            hint="Add a step for it, or ask for what the script expects.",
        )


def _checked(steps: object) -> list[Step]:
    """The steps; what only looks like a list of them, such as a text, is refused."""
    if isinstance(steps, (str, bytes, Mapping)) or not isinstance(steps, Iterable):
        shown = _cut(repr(cast("object", steps)))
        raise Invalid(f"A script is a list of steps, and {shown} is none.", hint=_STEPS)
    listed = list(cast("Iterable[Any]", steps))
    for number, step in enumerate(listed, 1):
        answered: object = step.reply if isinstance(step, Answer) else step
        if not _can_be_answered(answered) or (isinstance(step, Answer) and not _is_condition(step.when)):
            raise Invalid(f"The step {number} of the script is {_cut(repr(step))}, which answers nothing.", hint=_STEPS)
    return listed


def _can_be_answered(answered: object) -> bool:
    if isinstance(answered, Mapping):
        try:
            json.dumps(answered)
        except (TypeError, ValueError, RecursionError):
            return False
    return isinstance(answered, (str, Reply, Exception, Mapping))


def _is_condition(when: object) -> bool:
    return isinstance(when, str) or callable(when)


def _fits(step: Step, request: Request) -> bool:
    if not isinstance(step, Answer):
        return True
    return step.when in wording(request) if isinstance(step.when, str) else step.when(request)


def _reply(answered: Answered, request: Request, name: str) -> Reply:
    if isinstance(answered, Exception):
        raise answered
    if not isinstance(answered, Reply):
        text = answered if isinstance(answered, str) else json.dumps(answered, ensure_ascii=False)
        answered = Reply(text=text)
    usage = answered.usage if answered.usage != Usage() else _estimated(request, answered)
    return replace(answered, usage=usage, model=answered.model or name)


def _estimated(request: Request, reply: Reply) -> Usage:
    written = reply.text + "".join(json.dumps(call.arguments) for call in reply.calls)
    return Usage(input_tokens=-(-len(wording(request)) // 4), output_tokens=-(-len(written) // 4), requests=1)


def wording(request: Request) -> str:
    """All that is said in a request."""
    return "\n".join(message.text for message in request.messages)


def _asked(request: Request) -> str:
    turns = "; ".join(f"{message.role}: {message.text!r}" for message in request.messages)
    extras = f" with tools {', '.join(tool.name for tool in request.tools)}" if request.tools else ""
    return _cut(turns) + extras + (" as JSON" if request.schema is not None else "")


def _step(step: Step) -> str:
    if not isinstance(step, Answer):
        return f"any request, to answer {_cut(repr(step))}"
    if isinstance(step.when, str):
        return f"a request with {_cut(repr(step.when))}"
    return f"a request that satisfies {getattr(step.when, '__name__', 'its condition')}"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
