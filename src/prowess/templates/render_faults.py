"""What a worker's fault means to whoever asked: an error that names the place and the inputs, and never a value."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from prowess.errors import Invalid, ProwessError, RunFailed
from prowess.skill.template_faults import fault, syntax_fault
from prowess.skill.template_variables import Syntax, variables_of
from prowess.skill.text.hidden import shown_source
from prowess.templates.limits import RenderLimits
from prowess.templates.worker import out_of_memory

_ROOT = re.compile(r"[\w.]*\Z")
_LISTED = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a template gave no text: the worker's word for it, and the line and the piece of the template it is about."""

    kind: str
    template: str
    syntax: Syntax
    limits: RenderLimits
    line: int | None = None
    start: int = 0
    end: int = 0
    detail: str = ""

    @property
    def error(self) -> ProwessError:
        """What to raise."""
        return _ERRORS.get(self.kind, _value)(self)

    @property
    def where(self) -> str:
        """The line, to follow a phrase."""
        return f" in line {self.line}" if self.line else ""

    @property
    def what(self) -> str:
        """The expression that it is about, with the beginning that belongs to it."""
        source = self.template.encode()
        before = _ROOT.search(source[: self.start].decode(errors="replace")[-200:])
        return (before[0] if before else "") + source[self.start : self.end].decode(errors="replace")

    @property
    def takes(self) -> str:
        """Which inputs the template takes."""
        try:
            names = sorted(variables_of(self.template, self.syntax))
        except Invalid:
            return "Pass every input that the template names."
        listed = ", ".join(shown_source(name) for name in names[:_LISTED]) + " …" * (len(names) > _LISTED)
        return f"The template takes {listed or 'no inputs'}."


def _syntax(found: Fault) -> ProwessError:
    return syntax_fault(found.detail.rstrip(".") or "it is not a template", found.line)


def _deep(_found: Fault) -> ProwessError:
    return syntax_fault("it nests too deep")


def _undefined(found: Fault) -> ProwessError:
    what = shown_source(found.what) if found.what else "something"
    message = f"The template uses {what}{found.where}, which is not among its inputs."
    return fault("template-undefined", message, found.takes, found.line)


def _include(found: Fault) -> ProwessError:
    message = f"The template asks for another template{found.where}; there is none."
    return fault("template-include", message, "Write its text into this one.", found.line)


def _unknown(found: Fault) -> ProwessError:
    message = f"The template uses something unknown{found.where}: {found.detail}."
    return fault("template-unknown", message, "docs/templates.md has what a template may use.", found.line)


def _value(found: Fault) -> ProwessError:
    what = f"do {shown_source(found.what)}" if found.what else "be rendered"
    message = f"The template cannot {what}{found.where} with the inputs that it got."
    return fault("template-value", message, f"Check what kind of value each input is. {found.takes}", found.line)


def _method(found: Fault) -> ProwessError:
    message = "The template calls a method of an input that does not work as it is called."
    return fault("template-value", message, f"Use filters instead of methods. {found.takes}")


def _printed(_found: Fault) -> ProwessError:
    message = "The template prints a method of an object or list, as `order.items` does where there is no such key."
    return fault("template-undefined", message, "Pass the key, or name another one.")


def _steps(found: Fault) -> ProwessError:
    most = found.limits.steps
    return RunFailed(f"Rendering the template takes more than {most:,} steps.", hint="Repeat less in the template.")


def _memory(found: Fault) -> ProwessError:
    return out_of_memory(found.limits)


def _output(found: Fault) -> ProwessError:
    message = f"The template makes more than the {found.limits.output_bytes:,} bytes of text that it may."
    return RunFailed(message, hint="Repeat less in the template, or pass smaller inputs.")


_ERRORS: dict[str, Callable[[Fault], ProwessError]] = {
    "OutOfFuel": _steps,
    "SyntaxError": _syntax,
    "TemplateNotFound": _include,
    "UndefinedError": _undefined,
    "UnknownFilter": _unknown,
    "UnknownFunction": _unknown,
    "UnknownMethod": _unknown,
    "UnknownTest": _unknown,
    "depth": _deep,
    "memory": _memory,
    "method": _method,
    "output": _output,
    "printed": _printed,
}
