"""Turn a fault that a render worker reports into an error that names the place and the inputs, never a value."""

from __future__ import annotations

import re
from collections.abc import Callable

from prowess.errors import Invalid, ProwessError, RunFailed
from prowess.lazy_dataclass import dataclass
from prowess.prompts.worker import RenderLimits, out_of_memory_error
from prowess.skill.template import TemplateSyntax, find_variables, syntax_error, template_error
from prowess.skill.text.hidden import quote_source

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


def _deep(_found: RenderFault) -> ProwessError:
    return syntax_error("it is nested too deeply")


def _undefined(found: RenderFault) -> ProwessError:
    what = quote_source(found.what) if found.what else "a name"
    message = f"The template uses {what}{found.where}, which is not one of its inputs."
    return template_error("template-undefined", message, found.takes, found.line)


def _include(found: RenderFault) -> ProwessError:
    message = f"The template includes another template{found.where}, which is not supported."
    return template_error("template-include", message, "Copy its text into this template.", found.line)


def _unknown(found: RenderFault) -> ProwessError:
    message = f"Unknown filter, test, function or method{found.where}: {found.detail}."
    return template_error("template-unknown", message, "See docs/templates.md for the supported features.", found.line)


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


def _memory(found: RenderFault) -> ProwessError:
    return out_of_memory_error(found.limits)


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
    "depth": _deep,
    "memory": _memory,
    "method": _method,
    "output": _output,
    "printed": _printed,
}
