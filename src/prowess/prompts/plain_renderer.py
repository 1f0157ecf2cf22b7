"""Render plain templates in this process, which takes a tenth of the time that a worker process takes.

A plain template only prints inputs, loops over them and tests whether they are set. Without filters, operators, calls and
assignments it cannot make a value that is larger than the inputs, so a limit of steps bounds its time and memory. That is not
so for other templates: in MiniJinja, `'a' * 10**9` is one step.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from prowess.errors import Invalid
from prowess.prompts.renderer import Renderer, measure_values
from prowess.prompts.worker import DEFAULT_RENDER_LIMITS
from prowess.skill.template import TemplateSyntax, check_template

MAX_TEMPLATE_CHARS = 20_000
MAX_STEPS = 2_000
"""Instructions of MiniJinja."""
MAX_WORK = 3_000_000
"""Instructions times characters of the values, because each may print all of them. Measured at most 13 ms when idle and
52 ms on a busy machine, for lists of numbers and of control characters."""

_TAG_START = re.compile(r"\{[{%#]")
_PATH = r"[a-zA-Z_]\w*(?:\.[a-zA-Z]\w*)*"  # no part like `__class__`, which would be read from Python's objects
_PLAIN_TAG = re.compile(
    rf"\{{\{{-?\s*{_PATH}\s*-?\}}\}}"
    rf"|\{{%-?\s*(?:for\s+[a-zA-Z_]\w*\s+in\s+{_PATH}|if\s+(?:not\s+)?{_PATH}|else|endif|endfor)\s*-?%\}}",
    re.ASCII,
)
_METHOD = "<built-in method "
"""How Python prints a method of an object, such as `order.items` without a key `items`."""
_REPLACED = "\ufffd"
"""What MiniJinja prints instead of half a character; it may also be in a value."""


@lru_cache(maxsize=256)
def is_plain(template: str) -> bool:
    """Return True if a MiniJinja template has no other tags than those that print, loop over or test an input."""
    if len(template) > MAX_TEMPLATE_CHARS:
        return False
    try:
        check_template(template)
    except Invalid:
        return False
    position = 0
    # From tag to tag, as MiniJinja reads it: `{{{ x }}` is not a brace before a tag.
    while start := _TAG_START.search(template, position):
        tag = _PLAIN_TAG.match(template, start.start())
        if tag is None:
            return False
        position = tag.end()
    return True


class _Environment(threading.local):
    """The environment of each thread: two threads may not use the same."""

    def __init__(self) -> None:
        import minijinja  # here, because few commands render anything

        self.environment = minijinja.Environment(
            undefined_behavior="strict", debug=False, pycompat=False, auto_escape_callback=lambda _name: False
        )
        self.environment.remove_global("debug")


_of_thread = lru_cache(maxsize=1)(_Environment)


def render_plain(template: str, values: Mapping[str, Any], steps: int) -> str | None:
    """Return the text of a plain template; None if it has a fault or meets a limit, which a worker describes."""
    environment = _of_thread().environment
    environment.fuel = steps
    try:
        text = environment.render_str(template, "template", **values)
    except Exception:  # noqa: BLE001  (the worker meets the same fault, and finds the line and the reason)
        return None
    is_long = len(text) * 4 > DEFAULT_RENDER_LIMITS.output_bytes
    return None if is_long or _METHOD in text or _REPLACED in text else text


class PlainRenderer:
    """Renders plain templates with few values at once, and leaves everything else to the workers."""

    def __init__(self, workers: Renderer) -> None:
        self._workers = workers

    async def render(self, template: str, values: Mapping[str, Any], *, syntax: TemplateSyntax = "jinja") -> str:
        """Return the rendered text; see `Renderer.render`."""
        if syntax == "jinja" and is_plain(template):
            size = measure_values(values, DEFAULT_RENDER_LIMITS)
            steps = 0 if size is None else min(MAX_STEPS, MAX_WORK // max(size, 1))
            text = render_plain(template, values, steps) if steps else None
            if text is not None:
                return text
        return await self._workers.render(template, values, syntax=syntax)

    async def close(self) -> None:
        """End the idle workers."""
        await self._workers.close()
