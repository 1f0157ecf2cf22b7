"""Regular expressions that run in linear time, whatever the text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Protocol, cast

_MEMORY = 16 << 20
_MEMORY_PER_CHARACTER = 64


class Match(Protocol):
    """What a pattern found, as `re` has it."""

    def group(self) -> str:
        """The text that was found."""
        ...

    def groupdict(self) -> Mapping[str, str | None]:
        """The named parts of it."""
        ...

    def span(self) -> tuple[int, int]:
        """Where it begins and ends."""
        ...


class Pattern(Protocol):
    """A compiled pattern, as `re` has it."""

    def search(self, text: str | bytes) -> Match | None:
        """The first place where it fits."""
        ...

    def finditer(self, text: str) -> Iterator[Match]:
        """Every place where it fits."""
        ...

    def sub(self, replacement: Callable[[Match], str], text: str) -> str:
        """The text with every place replaced."""
        ...


@cache
def compile_linear(pattern: str) -> Pattern:
    """The pattern, in the syntax of RE2, compiled when it is first asked for."""
    return _compile(pattern)


def compile_any_of(words: list[str]) -> Pattern:
    """A pattern that matches any of these words, the first of them where several begin at one place."""
    return _compile("|".join(map(_re2().escape, words)))


def _compile(pattern: str) -> Pattern:
    options = _re2().Options()
    options.max_mem = max(_MEMORY, _MEMORY_PER_CHARACTER * len(pattern))
    return _re2().compile(pattern, options)


def _re2() -> Any:
    import re2  # here, because most processes write nothing down

    return cast("Any", re2)
