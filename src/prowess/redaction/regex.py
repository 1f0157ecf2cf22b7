"""Regular expressions in linear time, with RE2: texts come from strangers, and `re` can take exponential time on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Protocol, cast

# RE2 falls back to slower matching if its automaton outgrows this budget; a pattern of many secrets needs more.
_MEMORY = 16 << 20
_MEMORY_PER_CHARACTER = 64


class Match(Protocol):
    """A match, as in `re`."""

    def group(self) -> str:
        """Return the matched text."""
        ...

    def groupdict(self) -> Mapping[str, str | None]:
        """Return the named groups."""
        ...

    def span(self) -> tuple[int, int]:
        """Return the start and end."""
        ...


class Pattern(Protocol):
    """A compiled pattern, as in `re`."""

    def search(self, text: str | bytes) -> Match | None:
        """Return the first match, or None."""
        ...

    def finditer(self, text: str) -> Iterator[Match]:
        """Yield every match."""
        ...

    def sub(self, replacement: Callable[[Match], str], text: str) -> str:
        """Return the text with every match replaced."""
        ...


@cache
def compile_linear(pattern: str) -> Pattern:
    """Return the compiled pattern, which is in the syntax of RE2; compiled once."""
    return _compile(pattern)


def compile_any_of(words: list[str]) -> Pattern:
    """Return a pattern for any of these words; if several match at one place, the first in the list wins."""
    return _compile("|".join(map(_re2().escape, words)))


def _compile(pattern: str) -> Pattern:
    options = _re2().Options()
    options.max_mem = max(_MEMORY, _MEMORY_PER_CHARACTER * len(pattern))
    return _re2().compile(pattern, options)


def _re2() -> Any:
    import re2  # imported late: most processes redact nothing

    return cast("Any", re2)
