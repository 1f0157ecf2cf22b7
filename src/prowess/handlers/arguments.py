"""Arguments of a command from templates: a value fills an argument or a part of one, and can never become two, nor an option."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, cast

from prowess.errors import Invalid

Template = str | tuple[str, ...]
"""One argument; or several that are left out together where one of their inputs has no value."""

_VARIABLE = re.compile(r"\{\{[ \t]*([A-Za-z_]\w*(?:\.\w+)*)[ \t]*\}\}", re.ASCII)
_OTHER = re.compile(r"\{\{|\{%")
_HINT = "A command knows {{ name }} only; whatever else is to be computed is computed before it."


def split_line(line: str) -> tuple[str, ...]:
    """The words of a command line as quotes make them; nothing else in it has a meaning."""
    try:
        return tuple(shlex.split(_VARIABLE.sub(r"{{\1}}", line)))
    except ValueError as error:
        raise Invalid(f"The command line cannot be read: {error}.", hint="Close its quotes.") from None


def arguments(templates: Sequence[Template], values: Mapping[str, Any]) -> list[str]:
    """The arguments. A value that would begin an option is refused, unless an argument `--` stands before it."""
    filled: list[str] = []
    only_values = False
    for template in templates:
        if not isinstance(template, str) and any(_value(values, name) is None for name in _names(template)):
            continue
        for one in (template,) if isinstance(template, str) else template:
            filled.append(_argument(one, values, only_values=only_values))
            only_values = only_values or one == "--"
    return filled


def filled_text(template: str, values: Mapping[str, Any]) -> str:
    """A text with the values in place; `Invalid` names an input that has none."""
    if _OTHER.search(_VARIABLE.sub("", template)):
        raise Invalid(f"{template[:80]!r} is not a template of a command.", hint=_HINT)
    return _VARIABLE.sub(lambda found: _written(values, found[1]), template)


def _argument(template: str, values: Mapping[str, Any], *, only_values: bool) -> str:
    text = filled_text(template, values)
    if text.startswith("-") and _VARIABLE.match(template) and not only_values:
        raise Invalid(
            f"The value for {template[:80]!r} begins with '-', so that the program would take it for an option.",
            hint="Write the option with it, such as --name={{ name }}, or put the argument -- before it.",
        )
    return text


def _written(values: Mapping[str, Any], name: str) -> str:
    value = _value(values, name)
    if value is None:
        raise Invalid(
            f"The command needs the input {name[:80]!r}.", hint="Give it, or give it a default in the schema."
        )
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _value(values: Mapping[str, Any], name: str) -> Any:
    """What an input has at a path, such as `page.tags.0`; None where there is nothing."""
    found: Any = values
    for part in name.split("."):
        if isinstance(found, Mapping):
            found = cast("Mapping[str, Any]", found).get(part)
        elif isinstance(found, list) and part.isdecimal():
            items = cast("list[Any]", found)
            found = items[int(part)] if int(part) < len(items) else None
        else:
            return None
    return found


def _names(templates: Sequence[str]) -> list[str]:
    return [found[1] for template in templates for found in _VARIABLE.finditer(template)]
