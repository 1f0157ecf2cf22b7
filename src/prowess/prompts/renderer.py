"""Render untrusted templates in worker processes that can be killed."""

from __future__ import annotations

import asyncio
import json
import re
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from prowess.child.process import IdleChildren
from prowess.errors import Invalid, ProwessError, RunFailed, Unavailable
from prowess.lazy_dataclass import dataclass
from prowess.prompts.worker import (
    DEFAULT_RENDER_LIMITS,
    RenderAnswer,
    RenderLimits,
    RenderWorker,
    WorkerDied,
    out_of_memory_error,
)
from prowess.skill.template import TemplateSyntax, check_template, find_variables, syntax_error, template_error
from prowess.skill.text.hidden import quote_source
from prowess.threads import PartyShares, offload, tenant

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_SMALL = 100_000
"""About as many characters as are encoded in a millisecond."""
_TEXT = frozenset({str})
_SCALARS = frozenset({int, float, bool, type(None)})
_LARGEST = 1e300
_HINT = "Use only strings, numbers, booleans, null, lists and objects with string keys."


def encode_request(
    template: str, values: Mapping[str, Any], syntax: TemplateSyntax, limits: RenderLimits, *, checked: bool = False
) -> bytes:
    """Return the request; raise `Invalid` if the template is too large or the values are not JSON, too large or too deep.

    `checked` says that `measure_values` accepted the values.
    """
    check_template(template, syntax)
    plain = dict(values)
    if not checked:
        _check_values(plain, limits)
    try:
        # Encoded apart from the template, because the size limit concerns the values alone.
        encoded = _ENCODER.encode(plain).encode()
        head = _ENCODER.encode({"template": template, "syntax": syntax}).encode()
    except (ValueError, RecursionError):
        raise _not_json(_find_invalid_input(plain), "cannot be written as JSON") from None
    if len(encoded) > limits.values_bytes:
        raise _too_large(limits, f"{len(encoded):,} bytes")
    return head[:-1] + b', "values": ' + encoded + b"}"


def measure_values(values: Mapping[str, Any], limits: RenderLimits) -> int | None:
    """Return about how many characters the values have as JSON.

    None if they are not plain JSON within the limits, or too large to be encoded on the event loop.
    """
    room, depth = _SMALL, 0
    level: list[Any] = [dict(values)]
    while level:
        depth += 1
        inner: list[Any] = []
        for value in level:
            kind = value.__class__
            if kind is str:
                room -= len(value)
            elif kind is dict or kind is list:
                # About what a number and its separator take; scalars are not counted one by one.
                room -= 20 * len(value)
                if room < 0 or (kind is dict and not _TEXT.issuperset(map(type, value))):
                    return None
                inner += value.values() if kind is dict else value
            # Neither NaN nor infinity, and no integer of thousands of digits.
            elif kind not in _SCALARS or (value is not None and not -_LARGEST < value < _LARGEST):
                return None
        level = inner
    return _SMALL - room if room > 0 and depth <= limits.depth else None


def _check_values(values: dict[str, Any], limits: RenderLimits) -> None:
    """Check the values. The walk ends at the size limit, so lists that contain themselves end it too."""
    room = limits.values_bytes
    waiting: list[tuple[Any, str, int]] = [(values, "", 0)]
    while waiting:
        value, name, depth = waiting.pop()
        if depth > limits.depth:
            raise _not_json(name, f"is nested more than {limits.depth} levels deep")
        if value is None or isinstance(value, int | float):
            continue
        if not isinstance(value, str | list | tuple | dict):
            raise _not_json(name, f"contains a {type(value).__name__}")
        inner = cast("str | list[Any] | dict[Any, Any]", value)
        room -= len(inner) * (1 if isinstance(inner, str) else 2) + 2  # its JSON has at least this size
        if room < 0:
            raise _too_large(limits, "more")
        if isinstance(inner, dict):
            waiting += _members(inner, name, depth + 1)
        elif not isinstance(inner, str):
            waiting += [(item, name, depth + 1) for item in inner]


def _members(members: dict[Any, Any], name: str, depth: int) -> list[tuple[Any, str, int]]:
    for key in members:
        if not isinstance(key, str):
            raise _not_json(name, f"has a key that is a {type(key).__name__}")
    return [(item, name or key, depth) for key, item in members.items()]


def _find_invalid_input(values: dict[str, Any]) -> str:
    """Return the first input that cannot be encoded."""
    for name, value in values.items():
        try:
            json.dumps({name: value}, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError):
            return name
    return ""


def _not_json(name: str, reason: str) -> Invalid:
    whose = f"The input {quote_source(name)}" if name else "The inputs"
    return template_error("template-values", f"{whose} {reason}.", _HINT)


def _too_large(limits: RenderLimits, size: str) -> Invalid:
    message = f"The inputs of the template have {size} as JSON, more than the limit of {limits.values_bytes:,} bytes."
    return template_error("template-values", message, "Pass smaller inputs, or split the work.")


class Renderer(Protocol):
    """Renders templates."""

    async def render(self, template: str, values: Mapping[str, Any], *, syntax: TemplateSyntax = "jinja") -> str:
        """Return the rendered text. The values are not changed.

        Raise `Invalid` if the template cannot be parsed, lacks an input or misuses one, or if the values are not plain JSON; its
        problems name lines and inputs, never values. Raise `TimedOut` or `RunFailed` at a limit, and `Unavailable` if nothing
        can be rendered.
        """
        ...

    async def close(self) -> None:
        """Release everything; a later rendering starts again."""
        ...


class WorkerRenderer:
    """Renders in up to `limits.workers` processes for each event loop. They start on demand and end with this process.

    A rendering that hits a limit costs its worker, not the next rendering. Concurrent renderings wait for a worker in the
    order of arrival.
    """

    def __init__(self, limits: RenderLimits = DEFAULT_RENDER_LIMITS) -> None:
        self._limits = limits
        self._shares = PartyShares(limits.workers)
        self._idle: IdleChildren[RenderWorker] = IdleChildren()
        self._turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            weakref.WeakKeyDictionary()
        )
        # The finalizer holds the idle workers, not the renderer, which could otherwise never be collected.
        weakref.finalize(self, self._idle.end)

    async def render(self, template: str, values: Mapping[str, Any], *, syntax: TemplateSyntax = "jinja") -> str:
        """Return the rendered text; see `Renderer.render`."""
        if measure_values(values, self._limits) is not None:
            request = encode_request(template, values, syntax, self._limits, checked=True)
        else:
            request = await offload(encode_request, template, values, syntax, self._limits)
        async with self._shares.permit(tenant()), self._turn():
            answer = await self._ask(request)
        if isinstance(answer, str):
            return answer
        raise RenderFault(template=template, syntax=syntax, limits=self._limits, **answer).error

    async def close(self) -> None:
        """End the idle workers."""
        await offload(self._idle.end)

    def _turn(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        found = self._turns.get(loop)
        if found is None:
            # A semaphore belongs to one event loop, and a renderer may serve several, as in a notebook.
            found = self._turns[loop] = asyncio.Semaphore(self._limits.workers)
        return found

    async def _ask(self, request: bytes) -> RenderAnswer:
        """Return a worker's answer, or a second worker's if the first was killed from outside."""
        # A worker may be killed from outside, such as for lack of memory on the machine; that is not the template's
        # fault.
        for _ in range(2):
            worker = self._idle.take() or await RenderWorker.start(self._limits)
            try:
                answer = await worker.ask(request)
            except WorkerDied:
                continue
            if isinstance(answer, dict) and answer["kind"] == "memory":  # its heap may be full
                worker.end()
            else:
                self._idle.put(worker, limit=self._limits.workers)
            return answer
        raise Unavailable("The template worker was killed before it answered.", hint="Try again.")


RENDER_CODES: dict[str, str] = {
    "template-include": "A template includes another template, which is not supported.",
    "template-undefined": "A template uses a name that is not one of its inputs.",
    "template-unknown": "A template uses a filter, test, function or method that is unknown.",
    "template-value": "A template uses an input in a way that its type does not support.",
    "template-values": "The inputs of a template are not plain JSON, or are too large.",
}


_ROOT = re.compile(r"[\w.]*\Z")
_LISTED = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderFault:
    """Why a rendering failed: the worker's code for it, and the line and piece of the template."""

    kind: str
    template: str
    syntax: TemplateSyntax
    limits: RenderLimits
    line: int | None = None
    start: int = 0
    end: int = 0
    detail: str = ""

    @property
    def error(self) -> ProwessError:
        """The error to raise."""
        return _ERRORS.get(self.kind, _value)(self)

    @property
    def where(self) -> str:
        """The line, as the end of a phrase."""
        return f" in line {self.line}" if self.line else ""

    @property
    def what(self) -> str:
        """The expression at fault, with the beginning of its path."""
        # Workers report positions in bytes. The fault may be at the last part of a path, so what precedes it is
        # added.
        source = self.template.encode()
        before = _ROOT.search(source[: self.start].decode(errors="replace")[-200:])
        return (before[0] if before else "") + source[self.start : self.end].decode(errors="replace")

    @property
    def takes(self) -> str:
        """The inputs that the template takes, as a hint."""
        try:
            names = sorted(find_variables(self.template, self.syntax))
        except Invalid:
            return "Pass every input that the template uses."
        listed = ", ".join(quote_source(name) for name in names[:_LISTED]) + " …" * (len(names) > _LISTED)
        return f"The template uses {listed or 'no inputs'}."


def _syntax(found: RenderFault) -> ProwessError:
    return syntax_error(found.detail.rstrip(".") or "the syntax is not valid", found.line)


def _undefined(found: RenderFault) -> ProwessError:
    what = quote_source(found.what) if found.what else "a name"
    message = f"The template uses {what}{found.where}, which is not one of its inputs."
    return template_error("template-undefined", message, found.takes, found.line)


def _include(found: RenderFault) -> ProwessError:
    message = f"The template includes another template{found.where}, which is not supported."
    return template_error("template-include", message, "Copy its text into this template.", found.line)


def _unknown(found: RenderFault) -> ProwessError:
    message = f"Unknown filter, test, function or method{found.where}: {found.detail}."
    return template_error("template-unknown", message, "`prowess validate` on the skill names what exists.", found.line)


def _value(found: RenderFault) -> ProwessError:
    what = f"evaluate {quote_source(found.what)}" if found.what else "be rendered"
    message = f"The template cannot {what}{found.where} with these inputs."
    return template_error("template-value", message, f"Check the types of the inputs. {found.takes}", found.line)


def _method(found: RenderFault) -> ProwessError:
    message = "The template calls a method of an input with the wrong arguments."
    return template_error("template-value", message, f"Use filters instead of methods. {found.takes}")


def _printed(_found: RenderFault) -> ProwessError:
    message = "The template prints a method of an object or list, for example `order.items` without a key `items`."
    return template_error("template-undefined", message, "Pass the key, or use another name in the template.")


def _steps(found: RenderFault) -> ProwessError:
    most = found.limits.steps
    return RunFailed(
        f"Rendering the template exceeded the limit of {most:,} steps.", hint="Use fewer loops in the template."
    )


def _output(found: RenderFault) -> ProwessError:
    message = f"The rendered text exceeds the limit of {found.limits.output_bytes:,} bytes."
    return RunFailed(message, hint="Use fewer loops in the template, or pass smaller inputs.")


_ERRORS: dict[str, Callable[[RenderFault], ProwessError]] = {
    "OutOfFuel": _steps,
    "SyntaxError": _syntax,
    "TemplateNotFound": _include,
    "UndefinedError": _undefined,
    "UnknownFilter": _unknown,
    "UnknownFunction": _unknown,
    "UnknownMethod": _unknown,
    "UnknownTest": _unknown,
    "depth": lambda _found: syntax_error("it is nested too deeply"),
    "memory": lambda found: out_of_memory_error(found.limits),
    "method": _method,
    "output": _output,
    "printed": _printed,
}
