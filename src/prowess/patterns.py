"""Regular expressions that are compiled when they are first used.

Compiling one takes half a millisecond, and the modules that read skills have about a hundred. A short command uses a few.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

_METHODS = ("findall", "finditer", "flags", "fullmatch", "groups", "match", "pattern", "search", "split", "sub", "subn")


class _LazyPattern:
    """Stands for a pattern, and compiles it when the first of its attributes is asked for."""

    def __init__(self, text: str | Callable[[], str], flags: int) -> None:
        self._make = lambda: re.compile(text if isinstance(text, str) else text(), flags)

    def __getattr__(self, name: str) -> Any:
        """Compile the pattern, and take over its attributes: from now on they are found without this method."""
        compiled = self._make()
        self.__dict__.update((method, getattr(compiled, method)) for method in _METHODS)
        return getattr(compiled, name)


def lazy_pattern(text: str | Callable[[], str], flags: int = 0) -> re.Pattern[str]:
    """Return a pattern like `re.compile`, which is compiled at its first use. `text` may be a function that makes it.

    It has the methods of a pattern, but is not one: `re.sub(pattern, …)` does not take it.
    """
    return cast("re.Pattern[str]", _LazyPattern(text, flags))
