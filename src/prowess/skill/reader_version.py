"""The version of the code that reads skills, stored next to everything that is derived from a package.

A digest says which files a row was derived from, but not how they were read. Without the reader version, a Prowess that
reads a file differently would never reach the skills that are stored already: their digests do not change.

The version is text: the number, then the kinds and forms that plugins added, because a plugin changes how files are read
as much as a new release does. A `*` marks those that the skill uses. For example `7 acme.notebook acme.sql-query*`.

This module imports nothing, so that checking a cache costs nothing at start-up.
"""

from __future__ import annotations

from collections.abc import Collection

READER_VERSION = 8
"""Raise this when the same files give another skill than before: other fields, artifacts, names, order or settings, or
another decision on whether the skill is accepted. Wording of problems does not count, since it is not stored.
`tests/skill/test_reader_version.py` fails when the number should have been raised.
"""

_extensions: set[str] = set()


def add_reader_extension(name: str) -> None:
    """Note a kind or form that a plugin added to this process."""
    _extensions.add(name)


def reader_version(used: Collection[str] = ()) -> str:
    """Return the version of the readers in this process; `used` are the kinds and the form of the skill that was read."""
    return " ".join([str(READER_VERSION), *(f"{name}*" if name in used else name for name in sorted(_extensions))])


def is_current(stored: str) -> bool:
    """Return True if this process derives the same from the same files as the process that stored this version."""
    if stored == str(READER_VERSION) and not _extensions:
        return True  # the usual case, on the way of every read
    number, known, used = _parse(stored)
    # An extension that is new here may read the skill differently. One that is missing here matters only if the skill
    # uses it.
    return number == READER_VERSION and known >= _extensions >= used


def may_replace(stored: str) -> bool:
    """Return True if what this process derives may replace what was stored under that version.

    False for rows written by a newer Prowess, or by one with plugins that are missing here: two processes that share a database
    would otherwise overwrite each other's rows forever.
    """
    number, known, _ = _parse(stored)
    return number < READER_VERSION or (number == READER_VERSION and known <= _extensions)


def _parse(stored: str) -> tuple[int, set[str], set[str]]:
    """Return the number, the extensions that were installed, and those that the skill uses; the number is 0 if it cannot be read."""
    number, *names = stored.split() or [""]
    used = {name[:-1] for name in names if name.endswith("*")}
    return int(number) if number.isascii() and number.isdigit() else 0, {name.rstrip("*") for name in names}, used
