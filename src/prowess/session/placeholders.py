"""Plain placeholders in a text: `{{ name }}` is replaced by a given value, and nothing else is understood.

This is no template engine. A text that needs one, for a condition, a loop, a filter or a comment, is refused instead of
being rendered halfway.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from prowess.errors import Invalid, Unavailable

_PLACEHOLDER = re.compile(r"(?<!\{)\{\{[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*\}\}")
_SYNTAX = re.compile(r"\{[{%#]")
_SHOWN = 60


def fill_in(text: str, values: Mapping[str, str], *, source: str) -> str:
    """The text with every placeholder replaced; values are put in as they are and are never looked into.

    `Unavailable` where the text asks for more than placeholders, with the line; `Invalid` where values are missing, with
    all their names. `source` says where the text is from.
    """
    pieces = _PLACEHOLDER.split(text)
    line = 1
    for at, piece in enumerate(pieces):
        found = _SYNTAX.search(piece) if at % 2 == 0 else None
        if found is not None:
            line += piece.count("\n", 0, found.start())
            raise _needs_an_engine(piece[found.start() :], line, source)
        line += piece.count("\n")
    missing = sorted(set(pieces[1::2]) - set(values))
    if missing:
        raise Invalid(
            f"{source} has placeholders without a value: {', '.join(missing)}.",
            hint="Give a value for each, or take the placeholders out.",
        )
    pieces[1::2] = [values[name] for name in pieces[1::2]]
    return "".join(pieces)


def _needs_an_engine(rest: str, line: int, source: str) -> Unavailable:
    shown = rest.partition("\n")[0][:_SHOWN].rstrip()
    return Unavailable(
        f"{source}, line {line}: {shown!r} needs a template engine, and there is none here.",
        hint="Use only placeholders such as {{ name }}, or write the role as a skill pack.",
    )
