"""What usage errors say in place of click's terms. Imported only where there is such an error."""

from __future__ import annotations

import click


def find_listing(parameter: click.Parameter | None, ctx: click.Context) -> str:
    """Return the command that lists what may be given for a missing argument; '' if none does."""
    name = parameter.human_readable_name if isinstance(parameter, click.Argument) else ""
    if name == "SLUG":
        return "" if ctx.command.name == "new" else "prowess list"
    group = ctx.parent.command if ctx.parent else None
    if name not in ("ID", "JOB", "RUN", "PAGE") or not isinstance(group, click.Group) or ctx.parent is None:
        return ""
    return f"{ctx.parent.command_path} list" if "list" in group.commands else ctx.parent.command_path


_KINDS = {"a valid integer range": "a whole number", "a valid float range": "a number"}
_LIMITS = {"<=x<=": "{} to {}", "<x<=": "more than {}, at most {}", "x>=": "{1} or more", "x>": "more than {1}"}


def plain_words(message: str) -> str:
    """Return click's message about a number without its terms: `Use 1 to 50.` instead of `1<=x<=50`."""
    for term, word in _KINDS.items():
        message = message.replace(term, word)
    head, found, limits = message.removesuffix(".").partition(" is not in the range ")
    sign = next((known for known in _LIMITS if known in limits), "")
    return f"{head} is out of range. Use {_LIMITS[sign].format(*limits.split(sign))}." if found and sign else message
