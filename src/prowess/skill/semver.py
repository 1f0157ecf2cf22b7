"""Which of two versions is the later one: by the rules of semantic versioning, with an answer for everything else too."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SEMVER = re.compile(
    r"(0|[1-9][0-9]{0,17})\.(0|[1-9][0-9]{0,17})\.(0|[1-9][0-9]{0,17})"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_SHORT = re.compile(r"[vV]?([0-9]{1,18})(?:\.([0-9]{1,18}))?(?:\.([0-9]{1,18}))?(?:-([0-9A-Za-z.-]+))?")
_MAX_DIGITS = 18
"""A number of a pre-release with more digits is compared as text."""

VersionKey = tuple[int, tuple[int, ...], int, tuple[tuple[int, int, str], ...], str]


def is_semver(version: str) -> bool:
    """Whether this is a version as semantic versioning writes them: `1.2.0`, `1.2.0-rc.1`, `1.2.0+build`."""
    return len(version) <= 200 and _SEMVER.fullmatch(version) is not None and not _has_odd_number(version)


def is_prerelease(version: str) -> bool:
    """Whether the version comes before the release that it is named after."""
    found = _split_version(version)
    return found is not None and bool(found[3])


def version_key(version: str) -> VersionKey:
    """What versions are sorted by: a pre-release stands before its release, and build metadata does not count.

    Shorter versions are read as if they had zeros (`1.2`, `v3`); what is no version at all stands before all others,
    in the order of its text, and no version before that.
    """
    found = _split_version(version)
    if found is None:
        return (1 if version else 0, (), 0, (), version)
    major, minor, patch, before = found
    return (2, (int(major), int(minor or 0), int(patch or 0)), 0 if before else 1, _prerelease_key(before), "")


def latest_version(versions: Iterable[str]) -> str | None:
    """The latest release; a pre-release only where there is nothing else, and None where there is nothing."""
    given = list(versions)
    releases = [version for version in given if not is_prerelease(version)]
    return max(releases or given, key=version_key, default=None)


def _split_version(version: str) -> tuple[str, str | None, str | None, str | None] | None:
    plain = version.partition("+")[0]
    found = _SHORT.fullmatch(plain) if len(version) <= 200 else None
    return (found[1], found[2], found[3], found[4]) if found else None


def _prerelease_key(before: str | None) -> tuple[tuple[int, int, str], ...]:
    """The parts of a pre-release: numbers by value and before words, words by their letters."""
    return tuple(
        (0, int(part), "") if part.isdecimal() and len(part) <= _MAX_DIGITS else (1, 0, part)
        for part in (before or "").split(".")
        if before
    )


def _has_odd_number(version: str) -> bool:
    """Whether a number of the pre-release begins with a zero, which the rules do not allow."""
    before = version.partition("+")[0].partition("-")[2]
    return any(part.isdecimal() and len(part) > 1 and part[0] == "0" for part in before.split("."))
