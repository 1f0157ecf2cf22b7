"""Run authors' regular expressions with RE2, in time linear in the text. Expressions that RE2 rejects are rejected."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from prowess.skill.text.hidden import quote_source


class RegexRefused(ValueError):
    """RE2 does not accept the expression; the message says why."""


@lru_cache(maxsize=256)
def compile_regex(pattern: str, *, case_sensitive: bool = True) -> LinearRegex:
    """Return the compiled expression, or raise `RegexRefused`."""
    import re2  # imported here because few skills have expressions

    engine: Any = re2
    options: Any = engine.Options()
    # RE2 writes refused expressions to stderr by default.
    options.log_errors = False
    options.case_sensitive = case_sensitive
    try:
        return LinearRegex(engine.compile(pattern, options))
    except engine.error as error:
        raw_message = error.args[0] if error.args else b""
        reason, _, part = (
            raw_message.decode(errors="replace") if isinstance(raw_message, bytes) else str(raw_message)
        ).partition(": ")
        raise RegexRefused(f"{reason} in {quote_source(part)}" if part and part != pattern else reason) from None
    except UnicodeError:
        raise RegexRefused("it contains an unpaired surrogate") from None


class LinearRegex:
    """A compiled expression. `steps` is its maximum work for each character of a text."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled
        self.steps = int(compiled.programsize)

    def find(self, text: str) -> str | None:
        """Return the first match in the text, or None."""
        # RE2 works on UTF-8, which cannot hold the lone surrogates that an output may contain.
        found: Any = self._compiled.search(text.encode("utf-8", "replace").decode())
        return None if found is None else str(found.group())
