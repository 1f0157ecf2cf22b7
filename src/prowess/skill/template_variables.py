"""Which inputs a template takes, read from its text without rendering it, whoever has written it."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from prowess.skill.limits import KIB
from prowess.skill.mustache import mustache_variables
from prowess.skill.template_depth import check_depth
from prowess.skill.template_faults import fault, syntax_fault

Syntax = Literal["jinja", "mustache"]

TEMPLATE_BYTES = 256 * KIB
BUILT_IN = frozenset({"caller", "cycler", "dict", "joiner", "loop", "namespace", "range", "self", "super"})
"""Names that a template has without being given them."""


def variables_of(template: str, syntax: Syntax = "jinja") -> frozenset[str]:
    """The names that a template expects to be given, without those that it sets itself.

    A name that is only used inside a section of a mustache template is left out, since the items of the section may have it.
    `Invalid` is raised for a template that cannot be read; its problem says why, and in which line.
    """
    check_template(template, syntax)
    return mustache_variables(template) if syntax == "mustache" else _jinja_variables(template)


@lru_cache(maxsize=64)
def check_template(template: str, syntax: Syntax = "jinja") -> None:
    """`Invalid` where a template is too large, is not text, or cannot be parsed safely; it may still have other faults."""
    try:
        size = len(template.encode())
    except UnicodeEncodeError:
        raise syntax_fault("it has half a character in it") from None
    if size > TEMPLATE_BYTES:
        message = f"The template has {size:,} bytes; {TEMPLATE_BYTES:,} are the most."
        raise fault("template-long", message, "Split it, or pass long texts as inputs.")
    if syntax == "mustache":
        mustache_variables(template)
    else:
        check_depth(template)


def _jinja_variables(template: str) -> frozenset[str]:
    import minijinja  # here, because few skills have templates

    try:
        found = minijinja.Environment(debug=False, pycompat=False).undeclared_variables_in_str(template)
    except minijinja.TemplateError as error:
        raise syntax_fault(error.detail or "it is not a MiniJinja template", error.line) from None
    return frozenset(found) - BUILT_IN
